/* SPDX-License-Identifier: MIT */
/*
 * reader: one thread that drains rings into streams. Streams, rings and fds are lent to it from reader_go() to
 * reader_join(); it shares only struct reader_control with other threads.
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

/* State shared by the readers and the main thread, which supervises them. */
struct reader_control {
	int stop_fd;            /* eventfd(2); readable from reader_control_stop() on, and never read */
	int notify_fd;          /* eventfd(2), non-blocking: readers write when one failed or all tasks ended */
	atomic_size_t nr_tasks; /* events of living tasks that readers still watch */
	sem_t ready, go; /* posted by each reader when it has its priority and affinity; for each when it may drain */
	int switch_fd; /* as notify_fd: written when `stored` has reached `mark`, and when all readers have switched */
	atomic_size_t nr_switching; /* readers that were requested to switch their writers and have not done so yet */
	atomic_size_t nr_to_pass;   /* of those the ones that have not made the pass before their last */
	_Atomic uint64_t stored;    /* bytes in the outputs so far, of all readers, with all writers */
	_Atomic uint64_t mark;      /* write switch_fd when `stored` reaches this; UINT64_MAX: do not, or it was done */
	struct notifier *notifier;  /* borrowed; notified when nr_near_full has grown; NULL: not wanted */
	bool notifies_wakeups;      /* readers also notify it when a ring has woken them */
	/* visits that found a ring nearly full, of readers that are not real-time: they may have waited for a CPU */
	_Atomic uint64_t nr_near_full;
	/* these readers visit their rings after so many ms even if no ring wakes them; 0: they wait for that */
	atomic_uint fast_poll_ms;
	atomic_uint interval_ms; /* reader_control_set_interval(); 0: rings wake their reader */
	/* CLOCK_MONOTONIC: when interval_ms was last set back to 0; UINT64_MAX: it is not 0 now; 0: it never was */
	_Atomic uint64_t interval_until_ns;
	const struct reader *readers; /* borrowed: all readers; other threads use only wake_fd */
	size_t nr_readers;
};

int reader_control_init(struct reader_control *control); /* 0 or -errno */
void reader_control_fini(struct reader_control *control);

/* Tells all readers to drain what is there and to end. Events are disabled first. Idempotent. */
void reader_control_stop(struct reader_control *control);

/*
 * From now on readers wait so long between two visits, no matter how full the rings are; 0: they wait until rings wake
 * them. To be called by one thread at a time.
 */
void reader_control_set_interval(struct reader_control *control, unsigned interval_ms);

/* What a reader has done so far, and the CPU time it has used. */
struct reader_work {
	struct thread_use use;
	uint64_t wakeups;       /* returns of poll(2) */
	uint64_t visits, bytes; /* visits: of rings that held something */
};

struct reader {
	/* Set before reader_init(). */
	struct reader_control *control; /* shared */
	const struct eventset *set;     /* borrowed, read only */
	struct stream **streams;        /* borrowed list, used by this thread alone */
	size_t nr_streams;
	size_t *rings; /* borrowed: which rings of the plan are this reader's */
	size_t nr_rings;
	/* borrowed; CPUs that the thread may run on; NULL: it inherits the affinity of the recorder */
	const struct cpuset *affinity;
	bool may_leave_affinity; /* where one is slow it goes to any that the recorder may use, and stays with all */
	int realtime;            /* as in priority_raise() */
	/* it also stores, if nothing is compressed, and a relief thread drains when that takes long: relief.h */
	bool stores;
	/* 0: none; the end of its process is known by SIGCHLD, so its events are not counted in nr_tasks */
	pid_t workload;

	/*
	 * The next writers, by stream, while a switch is requested; NULL: none is, or it was done: then the array holds
	 * the former writers.
	 */
	_Atomic(struct writer **) next;

	/* The reader's own. */
	bool passed;             /* for the switch that is requested: control->nr_to_pass */
	int wake_fd;             /* eventfd(2) */
	uint64_t reported_bytes; /* bytes of the present writers that are counted in control->stored */
	struct polls polls;
	struct relief *relief;       /* NULL: workers store */
	uint64_t reported_near_full; /* of visits that found a ring nearly full */
	/* how often it may still wait for only fast_poll_ms; set when one of its own rings was nearly full */
	unsigned nr_fast_polls;
	bool realtime_now;
	pthread_t thread;
	bool started;
	uint64_t wakeups;
	uint64_t committed_ms; /* CLOCK_MONOTONIC: its last STREAM_COMMIT pass */
	struct slow_cpu slow_cpu;
	struct cpuset anywhere; /* CPUs of the recorder; empty: it stays on those of its affinity */
	unsigned look_ms;       /* the next pass is not later than that, also if no ring wakes it; 0: at a commit */

	struct reader_work at_switch; /* at the last switch; valid when control->nr_switching is 0 */

	/* Results, valid after reader_join(). */
	struct reader_work at_end;
	int err;                /* first -errno, of a writer or of the start of the thread */
	struct stream *failed;  /* the stream whose writer had the error; NULL: none */
	unsigned nr_cpus_left;  /* how often it needed all of its CPU, and went to another one */
	const char *scheduling; /* word of priority_raise(); valid after reader_start() */
	/* its affinity as the kernel reports it; empty: not known; valid after reader_start() */
	struct cpuset runs_on;
};

/* Collects the fds to poll. 0 or -errno. */
int reader_init(struct reader *reader);
void reader_fini(struct reader *reader); /* zeroed is fine; not while the thread runs */

/*
 * Starts the threads of one control and returns when all have their priority and affinity; they drain from reader_go()
 * on. -errno when one could not start (-EPERM: the real-time priority that was asked for): none runs then.
 */
int reader_start(struct reader readers[], size_t nr);
void reader_go(struct reader readers[], size_t nr);

/* Waits for threads that were stopped. Threads that were not started are skipped. */
void reader_join(struct reader readers[], size_t nr);

/*
 * Requests a switch: call reader_control_switch() first, then reader_switch() for every reader. Between two passes each
 * reader drains its rings into the present writers, and then continues with the writers in `next`, one for each of its
 * streams. When control->nr_switching is 0, `next` holds the former writers.
 *
 * Stages that need the order of time leave to the next output what came in the last passes, as that may be newer than
 * what other rings have yet. So those passes are short: before them each reader has made another one.
 */
void reader_control_switch(struct reader_control *control, size_t nr_readers);
void reader_switch(struct reader *reader, struct writer **next);

/* Makes the reader visit its rings soon. Any thread. */
void reader_wake(const struct reader *reader);

/* After reader_join(): completes a switch that the thread did not get to, without draining. */
void reader_switch_late(struct reader *reader);
