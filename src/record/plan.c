/* SPDX-License-Identifier: MIT */
#include "record/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cpuset.h"
#include "event/event.h"
#include "record/target.h"

static int make_rings(const struct target *target, struct plan *plan)
{
	size_t nr = target->per_thread ? target->nr_tids : cpuset_count(&target->cpus);

	plan->rings = calloc(nr ? nr : 1, sizeof(*plan->rings));
	if (!plan->rings)
		return -ENOMEM;
	if (target->per_thread) {
		for (; plan->nr_rings < nr; plan->nr_rings++)
			plan->rings[plan->nr_rings] = (struct plan_ring){-1, target->tids[plan->nr_rings]};
		return 0;
	}
	for (int cpu = cpuset_next(&target->cpus, 0); cpu >= 0; cpu = cpuset_next(&target->cpus, cpu + 1))
		plan->rings[plan->nr_rings++] = (struct plan_ring){cpu, -1};
	return 0;
}

static bool opened_for_all_tasks(const struct event *event, const struct target *target)
{
	return event->system_wide || target->kind == EVENT_TARGET_SYSTEM || target->kind == EVENT_TARGET_CPUS;
}

/* How many slots an event has on one ring. */
static size_t slots_per_ring(const struct event *event, const struct target *target)
{
	return target->per_thread || opened_for_all_tasks(event, target) ? 1 : target->nr_tids;
}

static size_t count_slots(const struct event_list *events, const struct target *target, size_t nr_rings)
{
	size_t nr = 0;

	for (size_t e = 0; e < events->nr; e++)
		nr += nr_rings * slots_per_ring(&events->events[e], target);
	return nr;
}

static void fill_slots(const struct event_list *events, const struct target *target, struct plan *plan)
{
	struct plan_slot *slot = plan->slots;

	for (size_t e = 0; e < events->nr; e++) {
		const struct event *event = &events->events[e];
		bool all_tasks = opened_for_all_tasks(event, target);
		for (size_t r = 0; r < plan->nr_rings; r++) {
			const struct plan_ring *ring = &plan->rings[r];
			for (size_t t = 0; t < slots_per_ring(event, target); t++) {
				pid_t tid = target->per_thread ? ring->tid : all_tasks ? -1 : target->tids[t];
				*slot++ = (struct plan_slot){.event = e, .pid = tid, .cpu = ring->cpu, .ring = r};
			}
		}
	}
	plan->nr_slots = (size_t)(slot - plan->slots);
}

int plan_make(const struct event_list *events, const struct target *target, struct plan *ret)
{
	struct plan plan = {0};
	int err = make_rings(target, &plan);
	size_t nr = err ? 0 : count_slots(events, target, plan.nr_rings);

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
