/* SPDX-License-Identifier: MIT */
#include "cmd/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BIN_NS = 10000, MAX_CPUS = 65536 };

void timeline_fini(struct timeline *timeline)
{
	free(timeline->cpus);
	*timeline = (struct timeline){0};
}

static struct timeline_cpu *find_cpu(struct timeline *timeline, int32_t cpu)
{
	if (timeline->last < timeline->nr_cpus && timeline->cpus[timeline->last].cpu == cpu)
		return &timeline->cpus[timeline->last];
	for (uint32_t i = 0; i < timeline->nr_cpus; i++) {
		if (timeline->cpus[i].cpu == cpu) {
			timeline->last = i;
			return &timeline->cpus[i];
		}
	}
	struct timeline_cpu *cpus =
		timeline->nr_cpus < MAX_CPUS
			? reallocarray(timeline->cpus, timeline->nr_cpus + 1, sizeof(*cpus)) : NULL;
	if (!cpus)
		return NULL;
	timeline->cpus = cpus;
	memset(&cpus[timeline->nr_cpus], 0, sizeof(*cpus));
	cpus[timeline->nr_cpus].cpu = cpu;
	timeline->last = timeline->nr_cpus++;
	return &cpus[timeline->last];
}

static void halve(struct timeline *timeline)
{
	for (uint32_t i = 0; i < timeline->nr_cpus; i++) {
		uint32_t *bins = timeline->cpus[i].bins;
		for (unsigned bin = 0; bin < TIMELINE_BINS / 2; bin++)
			bins[bin] = bins[2 * bin] + bins[2 * bin + 1];
		memset(bins + TIMELINE_BINS / 2, 0, TIMELINE_BINS / 2 * sizeof(*bins));
	}
	timeline->bin_ns *= 2;
}

int timeline_add(struct timeline *timeline, int32_t cpu, uint64_t time_ns)
{
	if (!timeline->bin_ns) {
		timeline->start_ns = timeline->end_ns = time_ns;
		timeline->bin_ns = FIRST_BIN_NS;
	}
	struct timeline_cpu *row = find_cpu(timeline, cpu);
	if (!row)
		return -ENOMEM;
	uint64_t since = time_ns < timeline->start_ns ? 0 : time_ns - timeline->start_ns;
	if (timeline->end_ns < time_ns)
		timeline->end_ns = time_ns;
	while (since / timeline->bin_ns >= TIMELINE_BINS)
		halve(timeline);
	row->bins[since / timeline->bin_ns]++;
	return 0;
}

static int compare_cpu(const void *left, const void *right)
{
	const struct timeline_cpu *a = left, *b = right;

	return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

unsigned timeline_settle(struct timeline *timeline, unsigned max)
{
	unsigned bins = TIMELINE_BINS;

	if (!timeline->bin_ns)
		return 0;
	qsort(timeline->cpus, timeline->nr_cpus, sizeof(*timeline->cpus), compare_cpu);
	for (; bins > 16 && (uint64_t)bins * timeline->nr_cpus > max; bins /= 2)
		halve(timeline);
	unsigned used = (unsigned)((timeline->end_ns - timeline->start_ns) / timeline->bin_ns) + 1;
	return used < bins ? used : bins;
}
