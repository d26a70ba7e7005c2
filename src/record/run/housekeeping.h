/* SPDX-License-Identifier: MIT */
/*
 * housekeeping: a thread beside the readers for periodic work that must not hold up a drain: reading the counters for
 * the ledger, committing the file, fdatasync(2). Owned by the recording; book and commit are the thread's from
 * housekeeping_start() to housekeeping_stop(), but not while it is paused. It is one thread to the end: --exclude-perf
 * names the threads that there are at the start.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch_pool;
struct data_files;
struct task_pauser;
struct ledger_book;
struct task_log;
struct writer;

/*
 * The header of an unfinished file is rewritten periodically with the size of the data so far, so that the file can be
 * read if the recorder is killed.
 */
struct commit {
	int fd;                         /* of the file; -1: none (a pipe, a directory) */
	uint64_t data_offset;           /* as in its header */
	uint64_t start;                 /* offset in the file of the first byte that counts as stored */
	const struct data_files *files; /* borrowed; stream.stored of each file says how much is stored */
	uint64_t data_bytes;            /* as last written into the header */
};

struct housekeeping {
	struct ledger_book *book;        /* borrowed */
	struct commit *commit;           /* borrowed */
	struct task_pauser *task_pauser; /* borrowed; zeroed: there is none */
	struct task_log *task_log;       /* borrowed; NULL: there is none */
	struct batch_pool *pool;         /* likewise */
	/* borrowed; a pipeline that keeps its records in memory (pipeline_open_retained()); NULL: none */
	struct writer *retained;
	const int *sync_fds; /* borrowed; for fdatasync(2) every sync_ms */
	size_t nr_sync_fds;
	uint64_t sync_ms;     /* 0: never */
	uint64_t interval_ns; /* between two samples of a CPU at least; 0: they may come at any time */
	int wake_fd;          /* eventfd(2) */
	pthread_t thread;
	pthread_mutex_t lock; /* held by the thread while it works, and by the caller while it is paused */
	bool started, paused; /* the caller's */
	bool stop, resumed;   /* under the lock */
	uint64_t cpu_ns;      /* valid while it is paused, and after housekeeping_stop() */
};

/* Starts the thread. The fields above `wake_fd` must be set, and must not change while it runs. 0 or -errno. */
int housekeeping_start(struct housekeeping *housekeeping);

/*
 * Waits until the thread has done what it is about; then it does nothing, and those fields may change, until it is
 * resumed by the same caller.
 */
void housekeeping_pause(struct housekeeping *housekeeping);
void housekeeping_resume(struct housekeeping *housekeeping);
void housekeeping_stop(struct housekeeping *housekeeping); /* idempotent; zeroed is fine */
