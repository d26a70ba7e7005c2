/* SPDX-License-Identifier: MIT */
#include "record/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cpuset.h"
#include "event/event.h"
#include "record/target.h"

static enum channel channel_of(const struct event *event)
{
	if (event->attr.write_backward)
		return CHANNEL_FLIGHT;
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

static struct plan_ring *list_places(const struct target *target, size_t *ret_nr)
{
	size_t nr = target->per_thread ? target->nr_tids : cpuset_count(&target->cpus), at = 0;
	struct plan_ring *places = calloc(nr + 1, sizeof(*places));

	if (!places)
		return NULL;
	for (; target->per_thread && at < nr; at++)
		places[at] = (struct plan_ring){.place = at, .cpu = -1, .tid = target->tids[at]};
	for (int cpu = cpuset_next(&target->cpus, 0); at < nr && cpu >= 0; cpu = cpuset_next(&target->cpus, cpu + 1), at++)
		places[at] = (struct plan_ring){.place = at, .cpu = cpu, .tid = -1};
	*ret_nr = nr;
	return places;
}

static int make_rings(const struct event_list *events, const struct target *target, struct plan *plan)
{
	AUTO_FREE struct plan_ring *places = list_places(target, &plan->nr_places);
	bool has[] = {
		[CHANNEL_SIDE] = has_channel(events, CHANNEL_SIDE),
		[CHANNEL_DATA] = has_channel(events, CHANNEL_DATA),
		[CHANNEL_FLIGHT] = has_channel(events, CHANNEL_FLIGHT),
	};

	plan->rings = calloc(plan->nr_places * NR_CHANNELS + 1, sizeof(*plan->rings));
	if (!places || !plan->rings)
		return -ENOMEM;
	for (enum channel c = CHANNEL_SIDE; c <= CHANNEL_DATA; c++)
		for (size_t p = 0; has[c] && p < plan->nr_places; p++)
			add_ring(plan, &places[p], c);
	plan->nr_drained = plan->nr_rings;
	for (size_t p = 0; has[CHANNEL_FLIGHT] && p < plan->nr_places; p++)
		add_ring(plan, &places[p], CHANNEL_FLIGHT);
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

static size_t count_slots(const struct event_list *events, const struct target *target, size_t nr_places)
{
	size_t nr = 0;

	for (size_t e = 0; e < events->nr; e++)
		nr += nr_places * slots_per_place(&events->events[e], target);
	return nr;
}

static void fill_slots(const struct event_list *events, const struct target *target, struct plan *plan)
{
	struct plan_slot *slot = plan->slots;

	for (size_t e = 0; e < events->nr; e++) {
		const struct event *event = &events->events[e];
		bool all_tasks = opened_for_all_tasks(event, target);
		/* The members of a group stand together and have as many slots each. */
		size_t behind = event->behind_leader * plan->nr_places * slots_per_place(event, target);
		for (size_t p = 0; p < plan->nr_places; p++) {
			size_t r = find_ring(plan, channel_of(event), p);
			const struct plan_ring *ring = &plan->rings[r];
			for (size_t t = 0; t < slots_per_place(event, target); t++) {
				pid_t tid = target->per_thread ? ring->tid : all_tasks ? -1 : target->tids[t];
				size_t here = (size_t)(slot - plan->slots);
				*slot++ = (struct plan_slot){.event = e, .pid = tid, .cpu = ring->cpu, .ring = r,
							     .leader = here - behind};
			}
		}
	}
	plan->nr_slots = (size_t)(slot - plan->slots);
}

int plan_make(const struct event_list *events, const struct target *target, struct plan *ret)
{
	struct plan plan = {0};
	int err = make_rings(events, target, &plan);
	size_t nr = err ? 0 : count_slots(events, target, plan.nr_places);

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
	*ret = plan;
	return 0;
}

void plan_fini(struct plan *plan)
{
	free(plan->slots);
	free(plan->rings);
	*plan = (struct plan){0};
}
