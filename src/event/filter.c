/* SPDX-License-Identifier: MIT */
/* --filter and --exclude-perf: to which events they apply. Source: Documentation/trace/events.rst, "Event filtering". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "event/event.h"

/* The events of the last text are all tracepoints. */
static int check_tracepoints(const struct event_list *list, const char *option, struct diag *reterr)
{
	if (!list->nr)
		return diag_set(reterr, -EINVAL, "%s stands behind the -e of the tracepoints that it is for", option);
	for (size_t i = list->last_text; i < list->nr; i++)
		if (!list->events[i].tracepoint_system)
			return diag_set(reterr, -EINVAL,
					"%s is for tracepoints, and %s is none: give it an -e of its own, and the filter "
					"behind that of the tracepoints",
					option, list->events[i].name);
	return 0;
}

static int add_filter(struct event *event, const char *filter)
{
	char *whole;

	if (!event->filter)
		whole = strdup(filter);
	else if (asprintf(&whole, "(%s) && (%s)", event->filter, filter) < 0)
		whole = NULL;
	if (!whole)
		return -ENOMEM;
	free(event->filter);
	event->filter = whole;
	return 0;
}

int event_list_filter(struct event_list *list, const char *filter, struct diag *reterr)
{
	int err = check_tracepoints(list, "--filter", reterr);

	if (!err && !filter[strspn(filter, " \t")])
		return diag_set(reterr, -EINVAL, "an empty filter; one is, for example, prev_pid == 0");
	for (size_t i = list->last_text; !err && i < list->nr; i++) {
		err = add_filter(&list->events[i], filter);
		if (err)
			diag_set(reterr, err, "out of memory");
	}
	return err;
}

int event_list_leave_out_recorder(struct event_list *list, struct diag *reterr)
{
	int err = check_tracepoints(list, "--exclude-perf", reterr);

	for (size_t i = list->last_text; !err && i < list->nr; i++)
		list->events[i].leaves_out_recorder = true;
	return err;
}
