/* SPDX-License-Identifier: MIT */
/*
 * memory_plan: how much memory a recording uses for rings and between rings and writer (the pool), worked out of its
 * options and the memory of the machine. A value; sizes are in bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct recording_options;

struct memory_plan {
	uint64_t most_ring_bytes;   /* limit for all rings together */
	uint64_t ring_margin_bytes; /* struct ring_sizes, margin_bytes */
	size_t pool_bytes;          /* limit for the pool; 0: the pool's own default (--flight) */
	/* with --off-cpu and copies of stacks: for those of tasks that wait, beside the pool; 0: not needed */
	size_t wait_bytes;
	bool pool_spares;   /* addresses cost nothing: batch_pool_params.spares */
	size_t ready_bytes; /* part of the pool that is touched at the start; SIZE_MAX: all of it */
};

/*
 * What the user named, or what is sane here; rings get what the pool leaves. After event_list_configure(). -ENOMEM:
 * --max-memory leaves nothing for rings; *ret is unchanged.
 */
int memory_plan_make(const struct recording_options *options, struct memory_plan *ret, struct diag *reterr);

/* Of a batch, and so of an extent; `pipe`: another program may read the output at once. 0: the pool's own default. */
size_t memory_plan_extent_bytes(const struct recording_options *options, bool pipe);
