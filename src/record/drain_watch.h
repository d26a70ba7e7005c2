/* SPDX-License-Identifier: MIT */
/*
 * drain_watch: which thread has which ring, and how much each has to do, as the governor wants to know it; and it orders what
 * the governor decides. Owned by the recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/balance.h"

struct plan;
struct readers;
struct thread_layout;
struct topology;

struct drain_watch {
	const struct plan *plan;        /* borrowed, as the next */
	struct readers *readers;        /* NULL: rings stay with their threads */
	struct balance_thread *threads; /* heap */
	struct balance_ring *rings;     /* heap; by drained ring of the plan */
	struct balance_sight sight;     /* of those */
	struct balance_move under_way;  /* while sight.moving */
	uint64_t restless_ns;           /* for tests: some ring goes somewhere so often; 0: not */
	unsigned random;
	size_t some[2]; /* rings, of drain_watch_any_move() */
};

struct drain_watch_params {
	const struct plan *plan;
	const struct thread_layout *layout;
	const struct topology *topology; /* where those CPUs are */
	struct readers *readers; /* whose rings may move, or nothing is watched */
	uint64_t restless_ns;
};

int drain_watch_open(struct drain_watch *watch, const struct drain_watch_params *params); /* 0 or -ENOMEM */
void drain_watch_close(struct drain_watch *watch); /* zeroed is fine */

/* Of all threads, visits so far that found a ring nearly full. */
uint64_t drain_watch_tight(const struct drain_watch *watch);

/* As things are now; system calls. */
const struct balance_sight *drain_watch_look(struct drain_watch *watch);

/* Nobody need tell that he found a ring nearly full: we look by ourselves. */
void drain_watch_attend(struct drain_watch *watch, bool attends);

/* When none is under way. */
void drain_watch_order(struct drain_watch *watch, const struct balance_move *move);

/* The one that was under way is done, of those rings at least that are told: true, once. */
bool drain_watch_done(struct drain_watch *watch, struct balance_move *ret, uint64_t *ret_ns);

/* For tests; false: not now. */
bool drain_watch_any_move(struct drain_watch *watch, struct balance_move *ret);
