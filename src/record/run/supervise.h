/* SPDX-License-Identifier: MIT */
/*
 * supervise: waits until the recording should end, while readers drain. In that time it enables and disables events
 * (-D), and carries out commands of --control. Used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct control;
struct cpu_watch;
struct data_files;
struct enable_times;
struct eventset;
struct diag;
struct ledger_book;
struct reader_control;
struct rotation;
struct steering;
struct trigger_events;
struct workload;

struct supervision {
	struct eventset *set;      /* borrowed, as all the others */
	struct workload *workload; /* pid 0: none */
	const struct reader_control *readers;
	int signal_fd; /* signalfd(2) of SIGCHLD and of the signals that end a recording; non-blocking */
	const struct enable_times *times;
	struct control *control; /* may be without any fd */
	struct rotation *rotation;
	struct trigger_events *trigger; /* may be without any */
	struct cpu_watch *cpus;         /* may be without an fd */
	struct steering *steering;
	bool shows_status; /* a line with the time and what is below, about once a second: log_status() */
	const _Atomic uint64_t *nr_samples; /* NULL: they are not counted */
	const struct data_files *files;
	bool separate_files; /* the files have bytes of their own; false: they are one output */
	const struct ledger_book *book;
};

/*
 * Returns when the workload has ended, when a signal came (*ret_signal, else 0), when all tasks of -p or -t have ended,
 * when a reader has failed, on "stop" of --control, or when the file has reached --max-size. 0, or -errno and why, when
 * waiting or a step of the rotation failed.
 */
int supervise(struct supervision *supervision, int *ret_signal, struct diag *reterr);
