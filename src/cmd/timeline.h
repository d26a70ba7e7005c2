/* SPDX-License-Identifier: MIT */
/*
 * timeline: how many samples each CPU had when, in bins whose width grows with the recording, so that its size does
 * not. One owner, one thread.
 */
#pragma once

#include <stdint.h>

enum { TIMELINE_BINS = 1024 };

struct timeline_cpu {
	int32_t cpu; /* -1: not recorded */
	uint32_t bins[TIMELINE_BINS];
};

struct timeline {
	uint64_t start_ns, bin_ns; /* bin_ns 0: nothing was added yet */
	uint64_t end_ns;           /* the latest time added */
	struct timeline_cpu *cpus; /* heap; as they came */
	uint32_t nr_cpus, last;
};

void timeline_fini(struct timeline *timeline); /* zeroed is fine */

/* Times need not be in order; one before the first counts as the first. 0 or -ENOMEM. */
int timeline_add(struct timeline *timeline, int32_t cpu, uint64_t time_ns);

/* Merges bins until a table of all CPUs has `max` at most, and orders the CPUs. Returns the bins in use of each. */
unsigned timeline_settle(struct timeline *timeline, unsigned max);
