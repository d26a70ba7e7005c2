/* SPDX-License-Identifier: MIT */
/*
 * recorder_cost: what recording itself uses, stage by stage, for the ledger: of the whole recording, and of each of the
 * files that it goes on into. Nothing is measured on the way of a record: threads tell what they used at their end and when
 * they change outputs. Owned by the recording; used by the main thread.
 */
#pragma once

#include <stdint.h>

#include "format/feature_ledger.h"

struct keeper;
struct pack_pool;
struct readers;

struct recorder_cost {
	const struct readers *readers; /* borrowed, as all of these */
	struct pack_pool *pool;        /* NULL: there is none */
	const struct keeper *keeper;   /* stopped when anybody asks */
	uint64_t start_cpu_ns;         /* of the main thread, until events could flow */
	struct ledger told;            /* the costs up to the last recorder_cost_cut() */
};

/*
 * While readers run: only when all have switched their writers (readers_switched()), as of then. What was used since the
 * last call. 0 or -ENOMEM.
 */
int recorder_cost_cut(struct recorder_cost *cost, struct ledger *ledger);

/* Of the whole recording, after the readers were joined. 0 or -ENOMEM. */
int recorder_cost_add(const struct recorder_cost *cost, struct ledger *ledger);

void recorder_cost_fini(struct recorder_cost *cost); /* zeroed is fine */
