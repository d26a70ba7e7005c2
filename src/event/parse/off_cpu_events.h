/* SPDX-License-Identifier: MIT */
/*
 * off_cpu_events: the events that --off-cpu adds to those of the user. Private to event/parse; in its order:
 *
 * As root: the tracepoints sched_switch and sched_waking, and PERF_RECORD_SWITCH. The last one is needed for the time
 * when a task of a command or of -p runs again, and for switches that the tracepoint misses after a CPU was idle (seen
 * with Linux 6.18).
 *
 * As root of a process namespace: sched_switch, of which only the state of the task is used, and PERF_RECORD_SWITCH.
 *
 * Otherwise: the software event context-switches, whose samples have the call chain, and PERF_RECORD_SWITCH, which
 * also tells whether a task was preempted. All samples of context-switches are taken in the kernel: where that may not
 * be sampled (kernel.perf_event_paranoid=2) there are none, and no call chains.
 */
#pragma once

#include <stdbool.h>

#include "event/parse/event.h"

struct diag;

/* The options of the recording that concern them. */
struct off_cpu_setup {
	enum event_callgraph callgraph;
	bool no_callgraph, wakers;
	bool all_user, switches, per_thread; /* as in struct event_options */
	bool all_tasks;                      /* of CPUs, and not of tasks that were named */
};

/* Adds the event for switches, after the events of the user. */
int off_cpu_add_switches(struct event_list *list, const struct off_cpu_setup *setup, struct diag *reterr);
/*
 * Adds the event for wake-ups, after all others; nothing where there is no tracepoint for them, or where it has numbers
 * of another process namespace.
 */
int off_cpu_add_wake_ups(struct event_list *list, struct diag *reterr);

enum event_callgraph off_cpu_callgraph(const struct event *event, const struct off_cpu_setup *setup);
/* Sets what their samples hold, in addition to call chains and to what options set for all events. */
void off_cpu_set_fields(struct event *event);
/* Includes the kernel, whatever other events exclude, and selects the tasks. To be called last for an attr. */
void off_cpu_set_tasks(struct event *event, const struct off_cpu_setup *setup);
