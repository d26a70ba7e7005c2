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

struct off_cpu_end;
struct off_cpu_wait;
struct waits;

struct waits_params {
	uint64_t min_ns;  /* shorter waits are added up for each task */
	bool forks_known; /* a task of which no fork was told was there before the start */
	/* One wait, or the sum of several. `left`: as in waits_leave(); empty: there is none. */
	int (*emit)(void *ctx, struct span left, const struct off_cpu_wait *wait, const struct off_cpu_end *end);
	void *ctx;
};

/* A task on a CPU at a time. Of no interest: 0, which runs when no other does, and UINT32_MAX, which has ended. */
struct waits_place {
	uint64_t time_ns;
	uint32_t pid, tid; /* pid UINT32_MAX: not known */
	uint32_t cpu;
};

struct waits *waits_new(const struct waits_params *params); /* NULL: out of memory */
void waits_free(struct waits *waits);                       /* NULL is fine */

/*
 * All switches are told from then on. Before, states of tasks are learnt, and nothing is emitted. Waits that began
 * earlier count from then on.
 */
void waits_start(struct waits *waits, uint64_t start_ns);
/* And up to then: waits go on, sums are emitted, and of all tasks it is not known any more whether they run. */
int waits_stop(struct waits *waits, uint64_t stop_ns);

/* Is it known of that task whether it runs? */
bool waits_has(const struct waits *waits, uint32_t tid);

/* A task was there before the start; whether it runs is not known. */
int waits_know(struct waits *waits, uint32_t pid, uint32_t tid);

/* A task that exists was asleep at that time, after the start: if it never runs it was off the CPU all the time. */
void waits_asleep(struct waits *waits, uint32_t tid, uint64_t time_ns);

/*
 * It leaves the CPU. `state` and `flags` as in struct off_cpu_wait. `left`: the record that tells so, copied; empty:
 * none. A task that is leaving already gets only what was not known before.
 */
int waits_leave(struct waits *waits, const struct waits_place *place, uint32_t state, uint32_t flags, struct span left);

/* It runs. The emitted end is that place. */
int waits_run(struct waits *waits, const struct waits_place *place);

struct waits_waker {
	uint32_t pid, tid; /* 0, 0: an interrupt */
	struct span ips;   /* copied */
};
int waits_wake(struct waits *waits, uint64_t time_ns, uint32_t tid, const struct waits_waker *waker);

/* A new task, which is ready to run. */
int waits_fork(struct waits *waits, const struct waits_place *place);
/*
 * It is about to end: when it leaves the CPU to wait it does not come back. `leaves`: that is told; else nothing more
 * is.
 */
int waits_exit(struct waits *waits, const struct waits_place *place, bool leaves);

/* Records of some time up to that are missing. */
void waits_gap(struct waits *waits, uint64_t to_ns);
