/* SPDX-License-Identifier: MIT */
#include "event/parse/off_cpu_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "event/names/names.h"
#include "event/parse/parse.h"
#include "sysinfo/privileges.h"

static const char wake_ups[] = "sched:sched_waking";

/* May we have samples of the event, of all tasks of the first CPU (pid -1), or of ourselves (0)? */
static bool can_sample(const struct perf_event_attr *event, pid_t pid, bool kernel)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.config = event->config,
		.size = PERF_ATTR_SIZE_VER5,
		.sample_type = PERF_SAMPLE_RAW | PERF_SAMPLE_TID,
		.sample_period = 1,
		.disabled = 1,
		.exclude_kernel = !kernel,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, pid < 0 ? 0 : -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The tracepoint, when this process may use it, with its fields. */
static int add_tracepoint_switches(struct event_list *list)
{
	const char *tracefs = tracefs_path(NULL);
	struct event_off_cpu_fields fields = {0};
	struct diag unused;

	if (!tracefs || tracepoint_field(tracefs, "sched/sched_switch", "prev_state", &fields.state) ||
	    tracepoint_field(tracefs, "sched/sched_switch", "prev_pid", &fields.previous) ||
	    tracepoint_field(tracefs, "sched/sched_switch", "next_pid", &fields.next))
		return -ENOENT;
	int err = event_list_parse(list, "sched:sched_switch", &unused);
	if (err)
		return err;
	if (!can_sample(&list->events[list->nr - 1].attr, 0, true)) {
		event_fini(&list->events[--list->nr]);
		return -EACCES;
	}
	list->events[list->nr - 1].off_cpu_fields = fields;
	return 0;
}

static int name_event(struct event *event, enum event_off_cpu what, const char *name, struct diag *reterr)
{
	free(event->name);
	event->name = strdup(name);
	event->off_cpu = what;
	event->given |= EVENT_GIVEN_PERIOD | EVENT_GIVEN_NAME; /* -F is for the events beside them */
	event->attr.freq = 0;
	event->attr.sample_period = 1;
	return event->name ? 0 : diag_set(reterr, -ENOMEM, "out of memory");
}

/* Payloads of tracepoints have the numbers of the first process namespace, all else those of ours. */
static int use_no_numbers(struct event *event, const struct off_cpu_setup *setup, struct diag *reterr)
{
	if (setup->wakers)
		return diag_set(reterr, -EACCES,
				"--off-cpu-wakers: in a process namespace it is not known who woke a task: record on "
				"the host");
	event->off_cpu_fields.previous = event->off_cpu_fields.next = (struct tracepoint_field){0};
	log_note("--off-cpu: without wake-ups: in a process namespace it is not known who woke a task; record on the "
		 "host for that");
	return 0;
}

static int add_software_switches(struct event_list *list, const struct off_cpu_setup *setup, struct diag *reterr)
{
	struct diag why = {.text = "run as root"};
	int err = event_list_parse(list, "context-switches", reterr);

	if (err)
		return err;
	(void)!tracefs_path(&why);
	if (setup->wakers)
		return diag_set(reterr, -EACCES, "--off-cpu-wakers needs the tracepoint sched:sched_waking: %s",
				why.text);
	struct event *event = &list->events[list->nr - 1];
	if (can_sample(&event->attr, 0, true)) {
		log_note("--off-cpu: without task states and wake-ups, so that being ready to run after a wake-up "
			 "counts as waiting: they need tracepoints: %s",
			 why.text);
	} else {
		event->attr.exclude_kernel = 1;
		log_note("--off-cpu: only times, without call chains and task states: context switches may not be "
			 "sampled here; sysctl kernel.perf_event_paranoid=1, or run as root");
	}
	return 0;
}

int off_cpu_add_switches(struct event_list *list, const struct off_cpu_setup *setup, struct diag *reterr)
{
	int err = 0;

	if (add_tracepoint_switches(list))
		err = add_software_switches(list, setup, reterr);
	else if (privileges_pids_are_namespaced())
		err = use_no_numbers(&list->events[list->nr - 1], setup, reterr);
	return err ? err : name_event(&list->events[list->nr - 1], EVENT_SWITCHES, "offcpu-time", reterr);
}

int off_cpu_add_wake_ups(struct event_list *list, struct diag *reterr)
{
	const char *tracefs = tracefs_path(NULL);
	struct event_off_cpu_fields fields = {0};
	const struct event *switches = list->events;

	while (switches->off_cpu != EVENT_SWITCHES)
		switches++;
	bool overwrite = switches->attr.write_backward;
	if (!switches->tracepoint_system || !tracefs || privileges_pids_are_namespaced() ||
	    tracepoint_field(tracefs, "sched/sched_waking", "pid", &fields.woken))
		return 0;
	int err = event_list_parse(list, wake_ups, reterr);
	if (err)
		return err;
	list->events[list->nr - 1].off_cpu_fields = fields;
	list->events[list->nr - 1].attr.write_backward = overwrite; /* both come at the same time */
	return name_event(&list->events[list->nr - 1], EVENT_WAKE_UPS, wake_ups, reterr);
}

enum event_callgraph off_cpu_callgraph(const struct event *event, const struct off_cpu_setup *setup)
{
	if (event->off_cpu == EVENT_SWITCHES && setup->no_callgraph)
		return CALLGRAPH_NONE;
	if (event->off_cpu == EVENT_SWITCHES && setup->callgraph != CALLGRAPH_LBR)
		return setup->callgraph == CALLGRAPH_NONE ? CALLGRAPH_FP : setup->callgraph;
	if (event->off_cpu == EVENT_WAKE_UPS && !setup->wakers)
		return CALLGRAPH_NONE;
	return setup->callgraph == CALLGRAPH_UNWIND ? CALLGRAPH_UNWIND : CALLGRAPH_FP;
}

void off_cpu_set_fields(struct event *event)
{
	struct perf_event_attr *attr = &event->attr;

	attr->sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW;
	if (event->off_cpu == EVENT_SWITCHES)
		attr->sample_type |= PERF_SAMPLE_PERIOD;
	else
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
}

void off_cpu_set_tasks(struct event *event, const struct off_cpu_setup *setup)
{
	struct perf_event_attr *attr = &event->attr;

	if (event->tracepoint_system)
		attr->exclude_user = attr->exclude_kernel = 0;
	/* Of a CPU that was idle: PERF_RECORD_SWITCH tells what runs there now, without the cost of a call chain. */
	if (event->off_cpu == EVENT_SWITCHES && event->tracepoint_system && setup->all_tasks && !event->filter)
		event->filter = strdup("prev_pid != 0"); /* NULL: more samples, and the same times */
	if (setup->all_user && attr->sample_type & PERF_SAMPLE_CALLCHAIN)
		attr->exclude_callchain_kernel = 1;
	/* With --switch-events another event has these records. A snapshot has to have all that is of its time. */
	if (event->off_cpu == EVENT_SWITCHES) {
		attr->context_switch = !setup->switches || attr->write_backward;
		attr->task |= attr->write_backward;
	}
	/*
	 * An event of a task has the wake-ups that happen in it, not those of it (Linux 6.18): all of the machine are
	 * taken then, and those of other tasks left out by who reads the rings; or by a filter,
	 * off_cpu_run_filter_wake_ups().
	 */
	if (event->off_cpu == EVENT_WAKE_UPS && !setup->all_tasks && !setup->per_thread && can_sample(attr, -1, true)) {
		event->system_wide = true;
		attr->inherit = attr->enable_on_exec = 0;
	}
}
