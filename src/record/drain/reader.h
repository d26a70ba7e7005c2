/* SPDX-License-Identifier: MIT */
/*
 * reader: one thread that drains rings into streams. Streams, rings and fds are lent to it from reader_start() to
 * reader_join(); it shares nothing else than struct reader_control.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpuset.h"
#include "record/drain/polls.h"
#include "stream/stream.h"
#include "sysinfo/thread.h"

struct notifier;
struct eventset;
struct writer;

/* What readers and the thread that watches over them share. */
struct reader_control {
	int stop_fd;                /* eventfd(2); readable for ever from reader_control_stop() on */
	int news_fd;                /* eventfd(2), non-blocking: readers write when one failed or all tasks ended */
	atomic_size_t nr_tasks;     /* events of living tasks that readers still watch */
	sem_t ready;                /* posted by each reader that got going */
	int switch_fd;              /* eventfd(2), non-blocking: the mark was reached, or all readers have switched */
	atomic_size_t nr_switching; /* readers that were told to switch their writers, and have not yet */
	_Atomic uint64_t stored;    /* bytes in the outputs so far, of all readers, with all writers */
	_Atomic uint64_t mark;      /* tell when `stored` is that much; UINT64_MAX: never, or told */
	struct notifier *notifier;  /* borrowed; rung when nr_near_full has grown; NULL: not wanted */
	bool notifies_wakeups;      /* it is also rung by those that a ring woke */
	_Atomic uint64_t nr_near_full; /* visits so far that found a ring nearly full, of readers that are not
					real-time and may have waited for a CPU */
	atomic_uint fast_poll_ms; /* those come after so much time, also when no ring wakes them; 0: when one does */
	atomic_uint interval_ms;  /* reader_control_set_interval(); 0: rings wake their reader */
	_Atomic uint64_t interval_until_ns; /* CLOCK_MONOTONIC: until when there was an interval; UINT64_MAX: there is;
					       0: there was none */
	const struct reader *readers;       /* borrowed: all of them; others use only wake_fd */
	size_t nr_readers;
};

int reader_control_init(struct reader_control *control);
void reader_control_fini(struct reader_control *control);

/* Tells all readers to drain what is there and to end. Events are disabled first. Idempotent. */
void reader_control_stop(struct reader_control *control);

/*
 * Readers leave so much time between two visits, however full the rings are; 0: they come when rings wake them. From
 * one thread at a time.
 */
void reader_control_set_interval(struct reader_control *control, unsigned interval_ms);

/* What a reader did so far, and used. */
struct reader_work {
	struct thread_use use;
	uint64_t wakeups;       /* returns of poll(2) */
	uint64_t visits, bytes; /* of rings that held something */
};

struct reader {
	/* Set before reader_init(). */
	struct reader_control *control; /* shared */
	const struct eventset *set;     /* borrowed, read only */
	struct stream **streams;        /* borrowed list, used by this thread alone */
	size_t nr_streams;
	size_t *rings; /* borrowed: which rings of the plan are this reader's */
	size_t nr_rings;
	const struct cpuset *affinity; /* borrowed; NULL: where the recorder runs */
	int realtime;                  /* as in priority_raise() */
	bool stores;    /* what it drains, where that is not compressed; a relief drains when that takes long */
	pid_t workload; /* 0: none; it has ended as a process, SIGCHLD, not when one of its threads has */

	/* Writers to go on with, by stream; NULL: none, or switched: then it holds those that were. */
	_Atomic(struct writer **) next;

	/* The reader's own. */
	int wake_fd;             /* eventfd(2) */
	uint64_t reported_bytes; /* of control->stored: what the present writers had */
	struct polls polls;
	struct relief *relief;       /* NULL: workers store */
	uint64_t reported_near_full; /* of visits that found a ring nearly full */
	unsigned nr_fast_polls;      /* so often it may still come by the clock: others' rings are no reason */
	bool realtime_now;
	pthread_t thread;
	bool started;
	uint64_t wakeups;
	uint64_t committed_ms; /* CLOCK_MONOTONIC: its last pass that left nothing in a ring for long */

	struct reader_work at_switch; /* valid when it is done (control->nr_switching is 0) */

	/* Results, valid after reader_join(). */
	struct reader_work at_end;
	int err;                /* first -errno: of a writer, or of getting going */
	struct stream *failed;  /* the stream whose writer it was; NULL: none */
	const char *scheduling; /* word of priority_raise(); valid after reader_start() */
	struct cpuset runs_on;  /* the kernel's word; empty: not known; valid after reader_start() */
};

/* Finds out which fds to watch. 0 or -ENOMEM. */
int reader_init(struct reader *reader);
void reader_fini(struct reader *reader); /* zeroed is fine; not while the thread runs */

/*
 * Starts the threads of one control and returns when all of them run with their priority and affinity. -errno when one
 * could not (-EPERM: the real-time priority that was asked for): none runs then.
 */
int reader_start(struct reader readers[], size_t nr);

/* Waits for threads that were stopped. Threads that were not started are skipped. */
void reader_join(struct reader readers[], size_t nr);

/*
 * Each reader goes on with other writers, between two of its passes, when it has drained into the present ones what was
 * there. `next` has one for each of its streams, and holds the former ones when control->nr_switching is 0. Called for
 * every reader; reader_control_switch() goes before.
 */
void reader_control_switch(struct reader_control *control, size_t nr_readers);
void reader_switch(struct reader *reader, struct writer **next);

/* Makes the reader visit its rings soon. Any thread. */
void reader_wake(const struct reader *reader);

/* After the join: switches what the thread had no time for, without draining. */
void reader_switch_late(struct reader *reader);
