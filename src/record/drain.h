/* SPDX-License-Identifier: MIT */
/*
 * drain: sleeps until rings have something or the recording should end, and pumps. Used by the main thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct eventset;
struct pollfd;
struct stream;
struct workload;

/* Why the recording ended. */
enum drain_end {
	DRAIN_WORKLOAD_ENDED,
	DRAIN_TARGETS_ENDED, /* every task of -p or -t */
	DRAIN_SIGNAL,
	DRAIN_WRITER_FAILED,
};

struct drain {
	struct stream *stream;     /* borrowed, as all the others */
	struct eventset *eventset;
	struct workload *workload; /* pid 0: none */
	int signal_fd;             /* signalfd(2) of SIGCHLD and of the signals that end a recording */
	int64_t enable_after_ms;   /* 0: enabled already; -1: never by us */
	uint64_t wakeups;          /* returns of poll(2) */
	int signal;                /* with DRAIN_SIGNAL */
	int err;                   /* with DRAIN_WRITER_FAILED */
};

/* Runs until the recording should end. What the rings still hold then is left for a STREAM_DRAIN pass. -errno when
 * it could not even start. */
int drain_run(struct drain *drain, enum drain_end *ret);
