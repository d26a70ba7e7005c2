/* SPDX-License-Identifier: MIT */
/*
 * page_times: the samples of a recording over time: those of one event, cell of its tally and interval are one sum. The
 * intervals become longer as the recording does, so that the memory does not grow with the number of samples.
 * One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

struct session_record;

enum { PAGE_BINS_MAX = 20000 };

struct page_timed {
	uint32_t bin, event, cell;
	uint64_t period, nr;
};

struct page_cpu {
	int32_t cpu;    /* -1: not recorded */
	uint32_t *bins; /* samples; heap, PAGE_CPU_BINS */
};
enum { PAGE_CPU_BINS = 1024 };

struct page_times {
	uint64_t start_ns, end_ns, bin_ns; /* bin_ns 0: nothing was added yet */
	uint64_t cpu_bin_ns;
	struct page_timed *timed; /* heap */
	size_t nr, room;
	struct page_cpu *cpus; /* heap; as they came */
	uint32_t nr_cpus, last_cpu;
	struct hash_table by_cpu; /* private: numbers in `cpus`, from 1 */
	uint32_t **latest;        /* private: by event and cell, where `timed` has it, plus 1 */
	uint32_t *latest_room, nr_events;
	unsigned steps; /* private: how often the intervals were made longer */
};

/*
 * Adds a sample that is counted in a cell of the tally of its event. Times need not be in order; a time before the
 * first one counts as the first. 0 or -ENOMEM.
 */
int page_times_add(struct page_times *times, const struct session_record *record, uint32_t event, uint32_t cell);
void page_times_fini(struct page_times *times);
