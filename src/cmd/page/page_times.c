/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/page/page_times.h"
#include "read/session.h"

enum {
	FIRST_BIN_NS = 100000,
	FIRST_CPU_BIN_NS = 10000,
	FIRST_ROOM = 1 << 12,
	FULL = 1 << 20, /* longer intervals rather than more than so many, unless that no longer helps */
	CPUS_MAX = 65536,
};

void page_times_fini(struct page_times *times)
{
	for (uint32_t i = 0; i < times->nr_cpus; i++)
		free(times->cpus[i].bins);
	for (uint32_t i = 0; i < times->nr_events; i++)
		free(times->latest[i]);
	free(times->cpus);
	free(times->latest);
	free(times->latest_room);
	free(times->timed);
	hash_table_fini(&times->by_cpu);
	*times = (struct page_times){0};
}

/* Where the last of a cell stands in `timed`, plus 1; 0: nowhere. NULL: out of memory. */
static uint32_t *find_latest(struct page_times *times, uint32_t event, uint32_t cell)
{
	if (event >= times->nr_events) {
		uint32_t nr = event + 1;
		uint32_t **latest = reallocarray(times->latest, nr, sizeof(*latest));
		times->latest = latest ? latest : times->latest;
		uint32_t *rooms = latest ? reallocarray(times->latest_room, nr, sizeof(*rooms)) : NULL;
		if (!rooms)
			return NULL;
		times->latest_room = rooms;
		memset(latest + times->nr_events, 0, (nr - times->nr_events) * sizeof(*latest));
		memset(rooms + times->nr_events, 0, (nr - times->nr_events) * sizeof(*rooms));
		times->nr_events = nr;
	}
	uint32_t room = times->latest_room[event];
	if (cell >= room) {
		uint32_t more = cell < FIRST_ROOM ? FIRST_ROOM : cell * 2;
		uint32_t *grown = reallocarray(times->latest[event], more, sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + room, 0, (more - room) * sizeof(*grown));
		times->latest[event] = grown;
		times->latest_room[event] = more;
	}
	return &times->latest[event][cell];
}

/* Makes the intervals 2 or 5 times as long, in turn: 1, 2, 10, 20, 100 … of the first. */
static void coarsen(struct page_times *times)
{
	uint32_t by = times->steps++ % 2 ? 5 : 2;
	size_t nr = 0;

	times->bin_ns *= by;
	for (uint32_t event = 0; event < times->nr_events; event++)
		memset(times->latest[event], 0, times->latest_room[event] * sizeof(uint32_t));
	for (size_t i = 0; i < times->nr; i++) {
		struct page_timed *from = &times->timed[i];
		uint32_t *latest = &times->latest[from->event][from->cell];
		from->bin /= by;
		if (*latest && times->timed[*latest - 1].bin == from->bin) {
			times->timed[*latest - 1].period += from->period;
			times->timed[*latest - 1].nr += from->nr;
		} else {
			times->timed[nr++] = *from;
			*latest = (uint32_t)nr;
		}
	}
	times->nr = nr;
}

static int make_room(struct page_times *times)
{
	if (times->nr < times->room)
		return 0;
	/* A few steps may be of no use, as where each sample has a stack of its own. */
	for (unsigned i = 0; i < 3 && times->nr >= FULL && times->nr > times->room / 2; i++)
		coarsen(times);
	if (times->nr && times->nr <= times->room / 2)
		return 0;
	return array_room_up_to(times->timed, times->nr, times->room, UINT32_MAX);
}

static int add_timed(struct page_times *times, const struct page_timed *sample, uint64_t since_ns)
{
	int err = make_room(times);
	uint32_t *latest = err ? NULL : find_latest(times, sample->event, sample->cell);

	if (!latest)
		return -ENOMEM;
	while (since_ns / times->bin_ns >= PAGE_BINS_MAX)
		coarsen(times);
	uint32_t bin = (uint32_t)(since_ns / times->bin_ns);
	if (*latest && times->timed[*latest - 1].bin == bin) {
		times->timed[*latest - 1].period += sample->period;
		times->timed[*latest - 1].nr++;
		return 0;
	}
	times->timed[times->nr] = *sample;
	times->timed[times->nr++].bin = bin;
	*latest = (uint32_t)times->nr;
	return 0;
}

static uint32_t *find_cpu(struct page_times *times, int32_t cpu)
{
	if (times->last_cpu < times->nr_cpus && times->cpus[times->last_cpu].cpu == cpu)
		return times->cpus[times->last_cpu].bins;
	uint32_t found = (uint32_t)hash_table_find_number(&times->by_cpu, (uint32_t)cpu);
	if (!found && times->nr_cpus >= CPUS_MAX) { /* no machine has so many: it is not known which */
		cpu = -1;
		found = (uint32_t)hash_table_find_number(&times->by_cpu, (uint32_t)cpu);
	}
	if (found) {
		times->last_cpu = found - 1;
		return times->cpus[found - 1].bins;
	}
	struct page_cpu *cpus = times->cpus;
	bool is_full = !(times->nr_cpus & (times->nr_cpus - 1)); /* it has room for a power of two of them */
	if (is_full && !(cpus = reallocarray(cpus, times->nr_cpus ? 2 * (size_t)times->nr_cpus : 1, sizeof(*cpus))))
		return NULL;
	times->cpus = cpus;
	if (hash_table_add_number(&times->by_cpu, (uint32_t)cpu, times->nr_cpus + 1ull))
		return NULL;
	cpus[times->nr_cpus] = (struct page_cpu){cpu, calloc(PAGE_CPU_BINS, sizeof(uint32_t))};
	if (!cpus[times->nr_cpus].bins)
		return NULL;
	times->last_cpu = times->nr_cpus++;
	return cpus[times->last_cpu].bins;
}

static void halve_cpus(struct page_times *times)
{
	for (uint32_t i = 0; i < times->nr_cpus; i++) {
		uint32_t *bins = times->cpus[i].bins;
		for (unsigned bin = 0; bin < PAGE_CPU_BINS / 2; bin++)
			bins[bin] = bins[2 * bin] + bins[2 * bin + 1];
		memset(bins + PAGE_CPU_BINS / 2, 0, PAGE_CPU_BINS / 2 * sizeof(*bins));
	}
	times->cpu_bin_ns *= 2;
}

static int add_cpu(struct page_times *times, int32_t cpu, uint64_t since_ns)
{
	uint32_t *bins = find_cpu(times, cpu);

	if (!bins)
		return -ENOMEM;
	while (since_ns / times->cpu_bin_ns >= PAGE_CPU_BINS)
		halve_cpus(times);
	bins[since_ns / times->cpu_bin_ns]++;
	return 0;
}

int page_times_add(struct page_times *times, const struct session_record *record, uint32_t event, uint32_t cell)
{
	const struct sample *sample = &record->sample;
	bool has_time = sample->present & PERF_SAMPLE_TIME;
	uint64_t time_ns = has_time ? sample->time : times->start_ns;

	if (has_time && !times->nr_cpus)
		times->start_ns = times->end_ns = time_ns;
	if (!times->bin_ns) {
		times->bin_ns = FIRST_BIN_NS;
		times->cpu_bin_ns = FIRST_CPU_BIN_NS;
	}
	uint64_t since_ns = time_ns < times->start_ns ? 0 : time_ns - times->start_ns;
	if (times->end_ns < time_ns)
		times->end_ns = time_ns;
	const struct page_timed timed = {.event = event, .cell = cell, .period = sample->period, .nr = 1};
	int err = add_timed(times, &timed, since_ns);
	if (err || !has_time)
		return err;
	return add_cpu(times, sample->present & PERF_SAMPLE_CPU ? (int32_t)sample->cpu : -1, since_ns);
}
