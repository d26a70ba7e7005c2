/* SPDX-License-Identifier: MIT */
/*
 * trigger_events: events that are not recorded: a sample of one of them asks for a switch of the output
 * (--switch-output-event). Owned by the recording; used by the main thread.
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
	int fd; /* epoll(7): readable when something happened; -1: there are no such events */
};

/* Configures the events (none: nothing is opened) and opens them for the same tasks as the recording's. */
int trigger_events_open(struct trigger_events *trigger, struct event_list *events, const struct event_options *sampling,
			const struct target *target, struct diag *reterr);
void trigger_events_close(struct trigger_events *trigger); /* zeroed with fd -1 is fine */

/* 0 or -errno. */
int trigger_events_enable(struct trigger_events *trigger);

/* Was there a sample since the last call? */
bool trigger_events_fired(struct trigger_events *trigger);
