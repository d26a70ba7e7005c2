/* SPDX-License-Identifier: MIT */
/*
 * merge: records of several files, each of which is in order of time but for small inversions, as one sequence.
 *
 * A file of a data directory comes from one ring. There a record stands out of order only by what interrupted the
 * kernel between the reading of its time and the reserving of its place (kernel/events/core.c, perf_output_begin):
 * interrupts of the same CPU. So each lane holds a window of records back, sorted; none goes before the window is full
 * or the file has ended. In directories of perf 6.1 without an NMI (85 000 and 2 600 records) there was no inversion.
 *
 * Memory: MERGE_WINDOW entries per lane, whatever the size of the files. Holds pointers only, never bytes. One owner
 * (merge_fini), one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/order.h"

enum { MERGE_WINDOW = 2048 }; /* records; a power of two */

struct merge {
	struct merge_lane {
		struct order_entry *window; /* a circle of MERGE_WINDOW, sorted; NULL: nothing came yet */
		size_t first, nr;
		bool ended;
	} * lanes;
	size_t nr_lanes;
	/* Indexes of lanes: [0..nr_heap) a heap by the time of their oldest entry, [nr_heap..nr_open) to be fed. */
	size_t *heap;
	size_t nr_heap, nr_open;
	uint64_t given_ns; /* newest that went: what is older and comes now is late */
	uint64_t nr_late;
};

/* 0 or -ENOMEM. */
int merge_init(struct merge *merge, size_t nr_lanes);
void merge_fini(struct merge *merge);

/* A lane that must be given an entry, or ended, before the next may go. false: none; pop. */
bool merge_hungry(struct merge *merge, size_t *ret_lane);
/* For the hungry lane only. 0 or -ENOMEM. Entries of the same time keep their order. */
int merge_put(struct merge *merge, size_t lane, const struct order_entry *entry);
void merge_end(struct merge *merge, size_t lane);

/* The oldest entry, of equal times that of the first lane; false: all lanes are ended and empty, or one is hungry. */
bool merge_pop(struct merge *merge, struct order_entry *ret, size_t *ret_lane);
