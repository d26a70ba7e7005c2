/* SPDX-License-Identifier: MIT */
#include "record/setup/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "event/parse/configure.h"
#include "record/setup/target.h"

static enum channel channel_of(const struct event *event)
{
	if (event->attr.write_backward)
		return CHANNEL_OVERWRITE;
	return event->side_channel ? CHANNEL_SIDE : CHANNEL_DATA;
}

static bool has_channel(const struct event_list *events, enum channel channel)
{
	for (size_t e = 0; e < events->nr; e++)
		if (channel_of(&events->events[e]) == channel)
			return true;
	return false;
}

static void add_ring(struct plan *plan, const struct plan_ring *place, enum channel channel)
{
	struct plan_ring *ring = &plan->rings[plan->nr_rings++];

	*ring = *place;
	ring->channel = channel;
}

static size_t add_places(struct plan_ring places[], size_t at, const struct cpuset *cpus)
{
	for (int cpu = cpuset_next(cpus, 0); cpu >= 0; cpu = cpuset_next(cpus, cpu + 1), at++)
		places[at] = (struct plan_ring){.place = at, .cpu = cpu, .tid = -1};
	return at;
}

/* On the heap; NULL: out of memory. */
static struct plan_ring *list_places(const struct target *target, struct plan *plan)
{
	bool threads = target->per_thread;
	size_t nr = threads ? target->nr_tids : cpuset_count(&target->cpus) + cpuset_count(&target->other_cpus);
	struct plan_ring *places = calloc(nr + 1, sizeof(*places));

	if (!places)
		return NULL;
	for (size_t at = 0; threads && at < nr; at++)
		places[at] = (struct plan_ring){.place = at, .cpu = -1, .tid = target->tids[at]};
	plan->nr_places = threads ? nr : add_places(places, 0, &target->cpus);
	plan->nr_side_places = threads ? nr : add_places(places, plan->nr_places, &target->other_cpus);
	return places;
}

static size_t nr_places_of(const struct plan *plan, enum channel channel)
{
	return channel == CHANNEL_SIDE ? plan->nr_side_places : plan->nr_places;
}

static int make_rings(const struct event_list *events, const struct target *target, struct plan *plan)
{
	AUTO_FREE struct plan_ring *places = list_places(target, plan);
	bool has[] = {
		[CHANNEL_SIDE] = has_channel(events, CHANNEL_SIDE),
		[CHANNEL_DATA] = has_channel(events, CHANNEL_DATA),
		[CHANNEL_OVERWRITE] = has_channel(events, CHANNEL_OVERWRITE),
	};

	plan->rings = calloc(plan->nr_side_places * NR_CHANNELS + 1, sizeof(*plan->rings));
	if (!places || !plan->rings)
		return -ENOMEM;
	for (enum channel c = CHANNEL_SIDE; c <= CHANNEL_DATA; c++)
		for (size_t p = 0; has[c] && p < nr_places_of(plan, c); p++)
			add_ring(plan, &places[p], c);
	plan->nr_drained = plan->nr_rings;
	for (size_t p = 0; has[CHANNEL_OVERWRITE] && p < plan->nr_places; p++)
		add_ring(plan, &places[p], CHANNEL_OVERWRITE);
	return 0;
}

/* The ring of a channel in a place; the plan has it. */
static size_t find_ring(const struct plan *plan, enum channel channel, size_t place)
{
	size_t r = 0;

	while (r + 1 < plan->nr_rings && (plan->rings[r].channel != channel || plan->rings[r].place != place))
		r++;
	return r;
}

static bool opened_for_all_tasks(const struct event *event, const struct target *target)
{
	return event->system_wide || target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS;
}

/* How many slots an event has in one place. */
static size_t slots_per_place(const struct event *event, const struct target *target)
{
	return target->per_thread || opened_for_all_tasks(event, target) ? 1 : target->nr_tids;
}

/* Only the CPUs on which its PMU counts, and where it is in a group, those of all members. */
static bool on_some_cpus(const struct event *event)
{
	const struct event *leader = event - event->behind_leader;

	return event->some_cpus || leader->group_some_cpus;
}

static bool counts_on(const struct event *event, int cpu)
{
	const struct event *leader = event - event->behind_leader;
	bool counts = true;

	if (cpu < 0 || !on_some_cpus(event))
		return true;
	for (size_t i = 0; i < (leader->nr_members ? leader->nr_members : 1) && counts; i++)
		counts = !leader[i].some_cpus || cpuset_has(&leader[i].cpus, (unsigned)cpu);
	return counts;
}

static size_t count_in(const struct event *event, const struct cpuset *cpus)
{
	size_t nr = 0;

	for (int cpu = cpuset_next(cpus, 0); cpu >= 0; cpu = cpuset_next(cpus, cpu + 1))
		nr += counts_on(event, cpu);
	return nr;
}

/* Whether its group can be taken apart when it is opened; then each member is counted wherever its own PMU does. */
static bool is_in_weak_group(const struct event *event)
{
	const struct event *leader = event - event->behind_leader;
	bool weak = false;

	for (size_t i = 1; i < leader->nr_members; i++)
		weak |= (leader[i].given & EVENT_GIVEN_WEAK) != 0;
	return weak;
}

static bool has_slots_on(const struct event *event, int cpu)
{
	if (cpu < 0 || !on_some_cpus(event) || !is_in_weak_group(event))
		return counts_on(event, cpu);
	return !event->some_cpus || cpuset_has(&event->cpus, (unsigned)cpu);
}

/* In how many places an event has slots. */
static size_t nr_slot_places(const struct event *event, const struct target *target, const struct plan *plan)
{
	size_t nr_places = nr_places_of(plan, channel_of(event)), nr = 0;

	if (target->per_thread || !on_some_cpus(event))
		return nr_places;
	for (int cpu = cpuset_next(&target->cpus, 0); cpu >= 0; cpu = cpuset_next(&target->cpus, cpu + 1))
		nr += has_slots_on(event, cpu);
	if (nr_places == plan->nr_places)
		return nr;
	for (int cpu = cpuset_next(&target->other_cpus, 0); cpu >= 0; cpu = cpuset_next(&target->other_cpus, cpu + 1))
		nr += has_slots_on(event, cpu);
	return nr;
}

/* Who named the PMU of one event of a group need not know that the others are counted on its CPUs only. */
static void say_group_cpus(const struct event *leader, const struct target *target)
{
	AUTO_BUF struct buf text = {0};
	struct cpuset cpus = {0};
	unsigned some = 0;

	while (some < leader->nr_members && !leader[some].some_cpus)
		some++;
	for (int cpu = cpuset_next(&target->cpus, 0); cpu >= 0; cpu = cpuset_next(&target->cpus, cpu + 1))
		if (counts_on(leader, cpu))
			(void)!cpuset_add(&cpus, (unsigned)cpu); /* without memory the plan fails, too */
	cpuset_format(&cpus, &text);
	bool fewer = some < leader->nr_members && cpuset_count(&cpus) < cpuset_count(&target->cpus);
	for (unsigned i = 0; fewer && i < leader->nr_members; i++)
		if (!leader[i].some_cpus)
			log_note("%s: counted on CPUs %s only, as %s of its group is", leader[i].name, buf_text(&text),
				 leader[some].name);
	cpuset_fini(&cpus);
}

int plan_check_cpus(const struct event_list *events, const struct target *target, struct diag *reterr)
{
	for (size_t e = 0; e < events->nr && !target->per_thread; e++) {
		const struct event *event = &events->events[e];
		AUTO_BUF struct buf own = {0}, recorded = {0};

		if (!event->some_cpus)
			continue;
		cpuset_format(&event->cpus, &own);
		cpuset_format(&target->cpus, &recorded);
		if (!own.len)
			return diag_set(reterr, -ENODEV, "event %s: all CPUs on which its PMU counts are offline",
					event->name);
		if (!count_in(event, &target->cpus))
			return diag_set(reterr, -ENODEV, "event %s: its PMU counts on CPUs %s, %s %s", event->name,
					buf_text(&own),
					event->behind_leader || event->nr_members > 1
						? "and there is no CPU on which all events of its group are counted, of"
						: "none of which is recorded, of",
					buf_text(&recorded));
		/* Who names a PMU knows that; of a number the kernel chooses the PMU. */
		if (event->attr.type == PERF_TYPE_RAW)
			log_note("%s: its PMU counts on CPUs %s only", event->name, buf_text(&own));
		else
			log_verbose("%s: its PMU counts on CPUs %s only", event->name, buf_text(&own));
	}
	for (size_t e = 0; e < events->nr && !target->per_thread; e++)
		if (events->events[e].nr_members && events->events[e].group_some_cpus)
			say_group_cpus(&events->events[e], target);
	return 0;
}

/* Linux, kernel/events/core.c: sync_child_event() writes READ by perf_output_begin(), which is for one CPU's own ring.
 */
bool plan_breaks_rings(const struct event_list *events, const struct target *target, long nr_cpus)
{
	for (size_t e = 0; e < events->nr && !target->per_thread && nr_cpus > 1; e++) {
		const struct event *event = &events->events[e];
		if (event->attr.inherit && event->attr.inherit_stat && !opened_for_all_tasks(event, target))
			return true;
	}
	return false;
}

static size_t count_slots(const struct event_list *events, const struct target *target, const struct plan *plan)
{
	size_t nr = 0;

	for (size_t e = 0; e < events->nr; e++)
		nr += nr_slot_places(&events->events[e], target, plan) * slots_per_place(&events->events[e], target);
	return nr;
}

static void fill_slots(const struct event_list *events, const struct target *target, struct plan *plan)
{
	struct plan_slot *slot = plan->slots;
	size_t leader_from = 0; /* its first slot */

	for (size_t e = 0; e < events->nr; e++) {
		const struct event *event = &events->events[e];
		bool all_tasks = opened_for_all_tasks(event, target);
		size_t nr_places = nr_places_of(plan, channel_of(event)), first = (size_t)(slot - plan->slots);
		leader_from = event->behind_leader ? leader_from : first;
		size_t leader = leader_from; /* the first of its slots in this place */
		for (size_t p = 0; p < nr_places; p++) {
			size_t r = find_ring(plan, channel_of(event), p);
			const struct plan_ring *ring = &plan->rings[r];
			if (!has_slots_on(event, ring->cpu))
				continue;
			bool alone = !counts_on(event, ring->cpu);
			while (leader < first && plan->rings[plan->slots[leader].ring].place < p)
				leader++;
			/* The members of a group stand together and have as many slots each in one place. */
			for (size_t t = 0; t < slots_per_place(event, target); t++) {
				pid_t tid = target->per_thread ? ring->tid : all_tasks ? -1 : target->tids[t];
				size_t here = (size_t)(slot - plan->slots);
				*slot++ = (struct plan_slot){
					.event = e,
					.pid = tid,
					.cpu = ring->cpu,
					.ring = r,
					.leader = event->behind_leader && !alone ? leader + t : here,
					.alone = alone,
				};
			}
		}
	}
	plan->nr_slots = (size_t)(slot - plan->slots);
}

int plan_make(const struct event_list *events, const struct target *target, struct plan *ret)
{
	struct plan plan = {0};
	int err = make_rings(events, target, &plan);
	size_t nr = err ? 0 : count_slots(events, target, &plan);

	if (!err && nr > INT_MAX)
		err = -E2BIG;
	if (!err) {
		plan.slots = calloc(nr ? nr : 1, sizeof(*plan.slots));
		err = plan.slots ? 0 : -ENOMEM;
	}
	if (err) {
		plan_fini(&plan);
		return err;
	}
	fill_slots(events, target, &plan);
	plan.names_cpus = target->names_cpus;
	*ret = plan;
	return 0;
}

void plan_fini(struct plan *plan)
{
	free(plan->slots);
	free(plan->rings);
	*plan = (struct plan){0};
}

enum {
	DEFAULT_MLOCK_KB = 516, /* sysctl perf_event_mlock_kb of an untouched kernel: 512 KiB and a control page */
	SIDE_LEAST = 128 << 10, /* of a side ring: what 50 execs of a large program leave, while its reader wakes up */
	SIDE_MOST = 1 << 20,    /* 10,000 threads that rename themselves; 60 ms of a loop of mmap(2) */
	SIDE_ALL = 16 << 20,
	SIDE_PART = 4,         /* of what may be locked */
	LARGE_BYTES = 4 << 20, /* 20 ms of the densest events of a CPU: docs/decisions/0004 */
	LARGE_ALL = 128 << 20, /* filled with zeroes at the start */
	PART_OF_MEMORY = 100,  /* that large rings may take */
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

/* Of rings: each has a page more. Those that are overwritten have a copy. */
uint64_t ring_sizes_bytes(const struct plan *plan, size_t data_pages, size_t side_pages)
{
	size_t nr_data = ring_sizes_count_data(plan), nr_side = plan->nr_drained - nr_data;
	uint64_t pages = (uint64_t)(nr_data + 2 * (plan->nr_rings - plan->nr_drained)) * (data_pages + 1) +
			 (uint64_t)nr_side * (side_pages + 1);

	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A power of two, from 64K pages on 2. */
static size_t least_side_pages(void)
{
	return SIDE_LEAST / (size_t)sysconf(_SC_PAGESIZE);
}

size_t ring_sizes_side_pages(const struct plan *plan, struct ring_sizes sizes, uint64_t locked_bytes)
{
	size_t nr_side = plan->nr_drained - ring_sizes_count_data(plan), bytes = SIDE_MOST;
	uint64_t most_bytes = locked_bytes / SIDE_PART < SIDE_ALL ? locked_bytes / SIDE_PART : SIDE_ALL;

	while (bytes > SIDE_LEAST && nr_side * bytes > most_bytes)
		bytes /= 2;
	return sizes.side_pages ? sizes.side_pages : bytes / (size_t)sysconf(_SC_PAGESIZE);
}

void ring_sizes_fit(const struct plan *plan, struct ring_sizes sizes, size_t *data_pages, size_t *side_pages)
{
	while (sizes.most_bytes && ring_sizes_bytes(plan, *data_pages, *side_pages) > sizes.most_bytes) {
		bool data_may = !sizes.exact && *data_pages > 1;
		bool side_may = !sizes.side_pages && *side_pages > 1;
		if (side_may && (!data_may || *side_pages * 4 > *data_pages))
			*side_pages /= 2;
		else if (data_may)
			*data_pages /= 2;
		else
			break;
	}
}

size_t ring_sizes_least_bytes(size_t dump_bytes)
{
	enum { OTHER_FIELDS = 1 << 10 }; /* registers, and the kernel's part of the call chain */
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);

	while (bytes <= dump_bytes + OTHER_FIELDS)
		bytes *= 2;
	return bytes;
}

size_t ring_sizes_large_pages(const struct plan *plan, struct ring_sizes sizes, uint64_t memory_bytes)
{
	size_t pages = LARGE_BYTES / (size_t)sysconf(_SC_PAGESIZE), least = ring_sizes_default_pages();
	uint64_t most_bytes = memory_bytes / PART_OF_MEMORY < LARGE_ALL ? memory_bytes / PART_OF_MEMORY : LARGE_ALL;

	if (sizes.most_bytes && sizes.most_bytes < most_bytes)
		most_bytes = sizes.most_bytes;
	while (pages > least && ring_sizes_bytes(plan, pages, least_side_pages()) > most_bytes)
		pages /= 2;
	return pages > least ? pages : 0;
}

size_t ring_sizes_wakeup(size_t ring_bytes, struct ring_sizes sizes)
{
	if (sizes.margin_bytes && ring_bytes / 2 >= sizes.margin_bytes)
		return ring_bytes / 2;
	return ring_bytes / 4 < sizes.wakeup_bytes ? ring_bytes / 4 : sizes.wakeup_bytes;
}
