/* SPDX-License-Identifier: MIT */
/*
 * waits: when each task left its CPU and ran again, out of switches, wake-ups, forks and losses in the order of time;
 * what each wait was. Private to record/off_cpu. One owner, one thread at a time. Pure: no clock, no fd.
 *
 * Functions return 0, -ENOMEM, or what emit() returned.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;
struct off_cpu_end;
struct off_cpu_wait;
struct waits;

struct waits_params {
	uint64_t min_ns;  /* shorter waits are added up for each task */
	bool forks_known; /* a task without a waits_fork() existed before the start */
	/* Of a switch the call of waits_leave() with `left` comes first, and tells the state of the task. */
	bool states_known;
	/* One wait, or the sum of several. `left`: as in waits_leave(); empty: there is none. */
	int (*emit)(void *ctx, struct span left, const struct off_cpu_wait *wait, const struct off_cpu_end *end);
	void *ctx;
};

/*
 * A task on a CPU at a time. Of no interest: 0, which runs when no other does. UINT32_MAX: one that was reaped; when it
 * leaves a CPU it is the one that ran there last.
 */
struct waits_place {
	uint64_t time_ns;
	uint32_t pid, tid; /* pid UINT32_MAX: not known */
	uint32_t cpu;
};

struct waits *waits_new(const struct waits_params *params); /* NULL: out of memory */
void waits_free(struct waits *waits);                       /* NULL is fine */

/*
 * From start_ns on all switches are given to the functions below. Before this call they only learn the states of
 * tasks, and emit nothing. Of a wait that began earlier only the time since start_ns counts. A second call before
 * waits_stop() does nothing.
 */
void waits_start(struct waits *waits, uint64_t start_ns);
/*
 * Switches were given up to stop_ns: emits the waits that have not ended, and all sums. Then it is not known of any
 * task whether it runs.
 */
int waits_stop(struct waits *waits, uint64_t stop_ns);
/*
 * Behind waits_stop(): switches that were still given are the last ones before waits_start(), or before those that come
 * shortly before it. Again it is not known of any task whether it runs.
 */
void waits_all_stopped(struct waits *waits);

/* Bytes of the heap that `left` of all tasks take, see waits_leave(). */
size_t waits_left_bytes(const struct waits *waits);

/* Is it known of that task whether it runs? */
bool waits_has(const struct waits *waits, uint32_t tid);

/* Was anything told of that task? */
bool waits_knows(const struct waits *waits, uint32_t tid);

/* Did waits_fork() tell of it? */
bool waits_is_child(const struct waits *waits, uint32_t tid);

/* A task existed before the start; whether it runs is not known. */
int waits_know(struct waits *waits, uint32_t pid, uint32_t tid);

/*
 * What a task that exists did at that time, after the start: `state` as in struct off_cpu_wait, OFF_CPU_PREEMPTED: it
 * was ready to run, on no CPU; 0: it may have run. A task of which no switch came before was in that state from the
 * start on; if it was not 0, and the task never runs, it was off the CPU all the time.
 */
void waits_found(struct waits *waits, uint32_t tid, uint32_t state, uint64_t time_ns);

/*
 * Appends the uint32_t tid of each task that was there before the start, and of which neither a switch came since nor
 * waits_found() told.
 */
void waits_list_unseen(const struct waits *waits, struct buf *ret_tids);

/*
 * The task leaves the CPU. `state` and `flags` as in struct off_cpu_wait. `left`: the record of that, copied; empty:
 * none. A task that is leaving already gets only what was not known before.
 */
int waits_leave(struct waits *waits, const struct waits_place *place, uint32_t state, uint32_t flags, struct span left);

/* The task runs, which ends its wait: emits the wait, with `place` as its end. */
int waits_run(struct waits *waits, const struct waits_place *place);

struct waits_waker {
	uint32_t pid, tid; /* 0, 0: an interrupt */
	struct span ips;   /* copied */
};
int waits_wake(struct waits *waits, uint64_t time_ns, uint32_t tid, const struct waits_waker *waker);

/* A new task, which is ready to run. */
int waits_fork(struct waits *waits, const struct waits_place *place);
/* The number is that of a new task, which no function is called for: the one that had it before has ended. */
int waits_replace(struct waits *waits, const struct waits_place *place);
/*
 * The task runs, and is about to end: when it next leaves the CPU to wait, it does not run again. `leaves`:
 * waits_leave() will be called for that, with a state that says so where states are known; else no function will be
 * called for the task any more.
 */
int waits_exit(struct waits *waits, const struct waits_place *place, bool leaves);

/* Some records with times from from_ns to to_ns are missing. To be told before what follows from_ns, where possible. */
struct waits_gap {
	int cpu; /* of that CPU; -1: of any */
	uint64_t from_ns, to_ns;
};
int waits_gap(struct waits *waits, const struct waits_gap *gap);

/*
 * The end of a task may be among what is missing. The first asks of each task of which nothing came since a gap whether
 * it has ended, and returns whether any has. When all records up to the time of asking were given, the second ends at
 * time_ns those of which still nothing came.
 */
bool waits_find_gone(struct waits *waits, bool (*has_ended)(void *ctx, uint32_t tid), void *ctx);
int waits_end_gone(struct waits *waits, uint64_t time_ns);
