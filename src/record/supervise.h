/* SPDX-License-Identifier: MIT */
/*
 * supervise: waits until the recording should end, while readers drain; enables the events when their time has come.
 * Used by the main thread.
 */
#pragma once

#include <stdint.h>

struct eventset;
struct reader_control;
struct workload;

struct supervision {
	struct eventset *set; /* borrowed, as all the others */
	struct workload *workload; /* pid 0: none */
	const struct reader_control *control;
	int signal_fd;           /* signalfd(2) of SIGCHLD and of the signals that end a recording; non-blocking */
	int64_t enable_after_ms; /* 0: enabled already; -1: never by us */
};

/*
 * Returns when the workload ended, when a signal came (*ret_signal, else 0), when every task of -p or -t ended, or
 * when a reader failed. -errno when waiting itself failed.
 */
int supervise(struct supervision *supervision, int *ret_signal);
