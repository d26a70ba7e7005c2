/* SPDX-License-Identifier: MIT */
#include "record/described_events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "record/eventset.h"

/* The plan is event-major: the ids of an event are those of one stretch of slots, which begins at *slot. */
static int describe(const struct eventset *set, size_t index, size_t *slot, struct event_desc *desc)
{
	const struct event *event = &set->events->events[index];
	const struct plan *plan = set->plan;
	size_t first = *slot;

	while (*slot < plan->nr_slots && plan->slots[*slot].event == index)
		++*slot;
	desc->attr = event->attr;
	desc->name = strdup(event->name);
	desc->ids = calloc(*slot - first + 1, sizeof(*desc->ids));
	if (!desc->name || !desc->ids)
		return -ENOMEM;
	for (size_t i = first; i < *slot; i++)
		if (set->fds[i] >= 0)
			desc->ids[desc->nr_ids++] = set->ids[i];
	return 0;
}

static int add_tracepoint(const struct event *event, struct described_events *events)
{
	char **name = &events->tracepoints[events->nr_tracepoints];

	if (!event->tracepoint_system)
		return 0;
	if (asprintf(name, "%s:%s", event->tracepoint_system, event->tracepoint_name) < 0)
		return -ENOMEM;
	events->nr_tracepoints++;
	return 0;
}

static void add_group(const struct event_list *list, size_t leader, struct described_events *events)
{
	const struct event *event = &list->events[leader];

	if (event->nr_members > 1)
		events->groups[events->nr_groups++] =
			(struct feature_group){event->group_name, (uint32_t)leader, event->nr_members};
}

int described_events_make(const struct eventset *set, struct described_events *ret)
{
	struct described_events events = {.nr_descs = set->events->nr};
	size_t slot = 0;
	int err = 0;

	events.descs = calloc(events.nr_descs + 1, sizeof(*events.descs));
	events.tracepoints = calloc(events.nr_descs + 1, sizeof(*events.tracepoints));
	events.groups = calloc(events.nr_descs + 1, sizeof(*events.groups));
	if (!events.descs || !events.tracepoints || !events.groups)
		err = -ENOMEM;
	for (size_t i = 0; i < events.nr_descs && !err; i++) {
		err = describe(set, i, &slot, &events.descs[i]);
		if (!err)
			err = add_tracepoint(&set->events->events[i], &events);
		add_group(set->events, i, &events);
	}
	if (err) {
		described_events_fini(&events);
		return err;
	}
	*ret = events;
	return 0;
}

void described_events_fini(struct described_events *events)
{
	for (size_t i = 0; events->descs && i < events->nr_descs; i++)
		event_desc_fini(&events->descs[i]);
	free(events->descs);
	for (size_t i = 0; i < events->nr_tracepoints; i++)
		free(events->tracepoints[i]);
	free(events->tracepoints);
	free(events->groups);
	*events = (struct described_events){0};
}
