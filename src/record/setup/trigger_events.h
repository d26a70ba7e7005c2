/* SPDX-License-Identifier: MIT */
/*
 * trigger_events: events that are not recorded, but whose samples cause a switch of the output (--switch-output-event).
 * Owned by the recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>

#include "record/setup/eventset.h"
#include "record/setup/plan.h"

struct diag;
struct event_list;
struct event_options;
struct target;

struct trigger_events {
	struct plan plan;
	struct eventset set;
	int fd; /* epoll(7) descriptor, readable when one of the events had a sample; -1: there are no such events */
};

/*
 * Configures the events, and opens them for the same target as the recording's events. Opens nothing when the list is
 * empty. 0 or -errno.
 */
int trigger_events_open(struct trigger_events *trigger, struct event_list *events, const struct event_options *sampling,
			const struct target *target, struct diag *reterr);
void trigger_events_close(struct trigger_events *trigger); /* zeroed with fd -1 is fine */

/* 0 or -errno. */
int trigger_events_enable(struct trigger_events *trigger);

/* Whether there was a sample since the last call. */
bool trigger_events_fired(struct trigger_events *trigger);
