/* SPDX-License-Identifier: MIT */
#include "record/ring_sizes.h"

#include <unistd.h>

#include "base/fd.h"
#include "record/plan.h"

enum {
	DEFAULT_MLOCK_KB = 516, /* sysctl perf_event_mlock_kb of an untouched kernel: 512 KiB and a control page */
	SIDE_BYTES = 128 << 10, /* of a side ring: what 50 execs of a large program leave, while its reader wakes up */
	ROOMY_BYTES = 4 << 20,  /* 20 ms of the densest events of a CPU: docs/decisions/0042 */
	ROOMY_WAKEUP = 1 << 20, /* writes of that size are cheaper than smaller ones */
	ROOMY_ALL = 64 << 20,   /* filled with zeroes at the start; the more CPUs, the less a drain does itself: decision 0032 */
	PART_OF_MEMORY = 128,   /* that roomy rings may take */
	PART_OF_BOUND = 4,      /* of what all rings may take at most: they may still grow, one beside the other */
};

size_t ring_sizes_default_pages(void)
{
	long page_kb = sysconf(_SC_PAGESIZE) / 1024;
	long mlock_kb = DEFAULT_MLOCK_KB;
	size_t pages = 1;

	fd_slurp_long("/proc/sys/kernel/perf_event_mlock_kb", &mlock_kb);
	while ((long)(pages * 2 + 1) * page_kb <= mlock_kb)
		pages *= 2;
	return pages;
}

size_t ring_sizes_count_data(const struct plan *plan)
{
	size_t nr = 0;

	for (size_t i = 0; i < plan->nr_drained; i++)
		nr += plan->rings[i].channel == CHANNEL_DATA;
	return nr;
}

/* Of rings: each has a page more. Where they are overwritten there are two in each place. */
uint64_t ring_sizes_bytes(const struct plan *plan, size_t data_pages, size_t side_pages)
{
	size_t nr_data = ring_sizes_count_data(plan), nr_side = plan->nr_drained - nr_data;
	uint64_t pages = (uint64_t)(nr_data + 2 * (plan->nr_rings - plan->nr_drained)) * (data_pages + 1) +
			 (uint64_t)nr_side * (side_pages + 1);

	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A power of two, from 64K pages on 2. */
size_t ring_sizes_side_pages(void)
{
	return SIDE_BYTES / (size_t)sysconf(_SC_PAGESIZE);
}

void ring_sizes_fit(const struct plan *plan, struct eventset_sizes sizes, size_t *data_pages, size_t *side_pages)
{
	while (sizes.most_bytes && ring_sizes_bytes(plan, *data_pages, *side_pages) > sizes.most_bytes) {
		bool data_may = !sizes.exact && *data_pages > 1;
		if (*side_pages > 1 && (!data_may || *side_pages * 4 > *data_pages))
			*side_pages /= 2;
		else if (data_may)
			*data_pages /= 2;
		else
			break;
	}
}

size_t ring_sizes_roomy_pages(const struct plan *plan, struct eventset_sizes sizes, uint64_t memory_bytes)
{
	size_t pages = ROOMY_BYTES / (size_t)sysconf(_SC_PAGESIZE), least = ring_sizes_default_pages();
	uint64_t most_bytes = memory_bytes / PART_OF_MEMORY < ROOMY_ALL ? memory_bytes / PART_OF_MEMORY : ROOMY_ALL;

	if (sizes.most_bytes && sizes.most_bytes / PART_OF_BOUND < most_bytes)
		most_bytes = sizes.most_bytes / PART_OF_BOUND;
	while (pages > least && ring_sizes_bytes(plan, pages, ring_sizes_side_pages()) > most_bytes)
		pages /= 2;
	return pages > least ? pages : 0;
}

size_t ring_sizes_roomy_wakeup(size_t ring_bytes)
{
	return ring_bytes / 4 < ROOMY_WAKEUP ? ring_bytes / 4 : ROOMY_WAKEUP;
}
