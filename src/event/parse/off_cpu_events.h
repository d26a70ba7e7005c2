/* SPDX-License-Identifier: MIT */
/*
 * off_cpu_events: the events that --off-cpu adds to those of the user. Private to event/parse; in its order:
 *
 * As root the tracepoints sched_switch and sched_waking, which tell everything but when a task of a command or of -p
 * runs again; that, and what the tracepoint misses when a CPU was idle (seen with Linux 6.18), PERF_RECORD_SWITCH
 * tells. Else the software event context-switches, whose samples have the call chain, and PERF_RECORD_SWITCH, which
 * tells also whether a task was preempted. Where the kernel may not be looked at (kernel.perf_event_paranoid=2) the
 * former has no samples, for they are all taken in the kernel, and there is no call chain.
 */
#pragma once

#include <stdbool.h>

#include "event/parse/event.h"

struct diag;

/* What the options of the recording say of them. */
struct off_cpu_setup {
	enum event_callgraph callgraph;
	bool wakers;
	bool all_user, switches, per_thread; /* as in struct event_options */
	bool all_tasks;                      /* of CPUs, and not of tasks that were named */
};

/* Behind the events of the user. */
int off_cpu_add_switches(struct event_list *list, const struct off_cpu_setup *setup, struct diag *reterr);
/* Behind all others; nothing where wake-ups are not told. */
int off_cpu_add_wake_ups(struct event_list *list, struct diag *reterr);

enum event_callgraph off_cpu_callgraph(const struct event *event, const struct off_cpu_setup *setup);
/* What their samples hold, beside call chains and what options ask of all. */
void off_cpu_set_fields(struct event *event);
/* They are taken in the kernel, whatever is asked for others; and of which tasks. The last of the attr. */
void off_cpu_set_tasks(struct event *event, const struct off_cpu_setup *setup);
