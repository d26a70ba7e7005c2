/* SPDX-License-Identifier: MIT */
#include "cmd/input/event_pair.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>

#include "read/session.h"

/* How many of the events before that one have its name. */
static size_t rank_of_name(const struct event_list *list, size_t event)
{
	size_t rank = 0;

	for (size_t i = 0; i < event; i++)
		rank += !strcmp(list->events[i].name, list->events[event].name);
	return rank;
}

static int32_t find_namesake(const struct event_list *from, size_t event, const struct event_list *to)
{
	size_t rank = rank_of_name(from, event);

	for (size_t i = 0; i < to->nr; i++)
		if (!strcmp(to->events[i].name, from->events[event].name) && !rank--)
			return (int32_t)i;
	return -1;
}

/* Same numbers mean the same event on every machine. Breakpoints have an address instead. */
static bool is_numbered(const struct perf_event_attr *attr)
{
	return attr->type < PERF_TYPE_MAX && attr->type != PERF_TYPE_TRACEPOINT && attr->type != PERF_TYPE_BREAKPOINT;
}

/* Of those that no event of `others` is compared with by its name. */
static bool is_left_alike(const struct event_list *list, size_t event, const struct perf_event_attr *attr,
			  const struct event_list *others)
{
	const struct perf_event_attr *own = &list->events[event].attr;

	return own->type == attr->type && own->config == attr->config && find_namesake(list, event, others) < 0;
}

int32_t event_pair_find(const struct event_list *from, size_t event, const struct event_list *to)
{
	const struct perf_event_attr *attr = &from->events[event].attr;
	int32_t found = find_namesake(from, event, to);
	size_t rank = 0;

	if (found >= 0 || !is_numbered(attr))
		return found;
	for (size_t i = 0; i < event; i++)
		rank += is_left_alike(from, i, attr, to);
	for (size_t i = 0; i < to->nr; i++)
		if (is_left_alike(to, i, attr, from) && !rank--)
			return (int32_t)i;
	return -1;
}
