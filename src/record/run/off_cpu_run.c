/* SPDX-License-Identifier: MIT */
#include "record/run/off_cpu_run.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/ledger.h"
#include "record/off_cpu/off_cpu_stage.h"
#include "record/run/ledger.h"
#include "record/run/task_tree.h"
#include "record/setup/eventset.h"
#include "record/setup/options.h"
#include "record/setup/plan.h"
#include "record/setup/target.h"
#include "record/synth/synth.h"
#include "tasks/off_cpu.h"

/* From when to when events were disabled: CLOCK_MONOTONIC. */
struct disabled_time {
	uint64_t from_ns, to_ns;
};

/* Records that the kernel dropped for want of room in a ring that is drained. */
static bool can_lose(const struct off_cpu_run *run, size_t slot)
{
	return run->set->fds[slot] >= 0 && run->plan->rings[run->plan->slots[slot].ring].channel != CHANNEL_OVERWRITE;
}

static void count_lost(void *ctx, uint64_t ret_nr_lost[])
{
	const struct off_cpu_run *run = ctx;

	for (size_t slot = 0; slot < run->plan->nr_slots; slot++)
		if (can_lose(run, slot))
			ret_nr_lost[run->plan->slots[slot].ring] += eventset_lost(run->set, slot);
}

static uint64_t lost_in_all(const struct off_cpu_run *run)
{
	uint64_t lost = 0;

	for (size_t slot = 0; slot < run->plan->nr_slots; slot++)
		if (can_lose(run, slot))
			lost += eventset_lost(run->set, slot);
	return lost;
}

/* tkill(2): of most tasks the number of the process is known as well, but not of all. */
static bool has_ended(void *ctx, uint32_t tid)
{
	(void)ctx;
	return syscall(SYS_tkill, (pid_t)tid, 0) && errno == ESRCH;
}

/* What an address is, only call chains of wakers ask. */
static int describe(void *ctx, const uint32_t tids[], size_t nr, struct buf *out)
{
	const struct off_cpu_run *run = ctx;
	const struct synth_options *wanted = &run->options->synth;
	const struct synth_params params = {
		.trailer_bytes = sample_id_bytes(&run->events[0].attr),
		.mmap2 = true,
		.skip_tasks = wanted->no_tasks,
		.skip_maps = wanted->no_maps || !run->options->sampling.off_cpu.wakers,
		.only_named = true,
		.maps_timeout_ms = wanted->maps_timeout_ms,
	};
	int err = synth_threads(&params, (const pid_t *)tids, nr, out);

	return err == -ENOMEM ? err : buf_status(out);
}

/* In which rings the records of events are. */
static int add_rings(const struct off_cpu_run *run)
{
	int err = 0;

	for (size_t slot = 0; slot < run->plan->nr_slots && !err; slot++)
		if (run->set->fds[slot] >= 0)
			err = off_cpu_add_ring(run->stages, run->set->ids[slot], run->plan->slots[slot].ring,
					       run->plan->slots[slot].cpu);
	return err;
}

/* As records come from the stage that unwinds; and which of the events are those of --off-cpu. */
static void take_events(struct off_cpu_run *run, const struct event_desc *ring_descs, struct off_cpu_params *params)
{
	const struct event_list *list = run->options->events;
	struct event_off_cpu_fields wake_up_fields = {0};

	for (size_t i = 0; i < list->nr; i++) {
		const struct event *event = &list->events[i];
		run->events[i] = ring_descs[i];
		if (event->unwinds)
			callchain_convert_attr(&run->events[i].attr, event->max_stack);
		if (event->off_cpu == EVENT_SWITCHES) {
			params->switches = i;
			params->in_snapshots = event->attr.write_backward;
			params->fields = event->off_cpu_fields;
			params->children = params->all_tasks || event->attr.inherit;
		} else if (event->off_cpu == EVENT_WAKE_UPS) {
			params->wake_ups = i;
			wake_up_fields = event->off_cpu_fields;
		}
	}
	params->fields.woken = wake_up_fields.woken;
}

static void events_switched(void *ctx, enum eventset_moment moment)
{
	const struct off_cpu_run *run = ctx;

	if (moment == EVENTSET_DISABLED)
		off_cpu_all_off(run->stages, ledger_book_now(run->book));
	else
		off_cpu_run_switch(ctx, moment == EVENTSET_ENABLED);
}

int off_cpu_run_open(struct off_cpu_run *run, struct eventset *set, const struct off_cpu_run_params *params,
		     struct diag *reterr)
{
	const struct recording_options *options = params->options;
	const size_t nr_events = options->events->nr;
	enum event_target kind = options->target->kind;
	struct off_cpu_params stages = {.nr_events = nr_events,
					.wake_ups = nr_events,
					.all_tasks = kind == EVENT_TARGET_SYSTEM || kind == EVENT_TARGET_CPUS,
					.keeps_switch_records = options->sampling.switches,
					.starts_later = !params->starts_at_exec,
					.min_ns = options->sampling.off_cpu.min_ns,
					.most_stack_bytes = params->most_stack_bytes,
					.count_lost = count_lost,
					.has_ended = has_ended,
					.ctx = run};

	stages.describe = stages.all_tasks ? NULL : describe;
	*run = (struct off_cpu_run){.options = options,
				    .set = set,
				    .plan = params->plan,
				    .book = params->book,
				    .workload_pid = params->workload_pid,
				    .has_snapshots = params->overwrites};
	stages.events = run->events = calloc(nr_events + 1, sizeof(*run->events));
	if (!run->events)
		return diag_set(reterr, -ENOMEM, "out of memory");
	take_events(run, params->described->ring_descs, &stages);
	run->has_children = stages.children && !stages.all_tasks && !stages.in_snapshots;
	int err = off_cpu_stages_new(&stages, &run->stages);
	err = err ? err : add_rings(run);
	set->switched = events_switched;
	set->switched_ctx = run;
	if (err == -EINVAL)
		return diag_set(reterr, err, "--off-cpu needs times in the samples of all events");
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

/*
 * proc(5) has one state for what runs and what is ready to. The time for which an event of a task is enabled goes on
 * while the task is on a CPU only: perf_event_open(2). In doubt it is on one.
 */
static bool is_on_cpu(uint32_t tid)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1,
				       .exclude_hv = 1,
				       .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED};
	AUTO_FD int fd = (int)syscall(SYS_perf_event_open, &attr, (pid_t)tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	struct {
		uint64_t value, enabled_ns;
	} count;

	return fd < 0 || read(fd, &count, sizeof(count)) != sizeof(count) || count.enabled_ns;
}

/* proc(5), /proc/PID/status. It names all supplementary groups: up to 65536, NGROUPS_MAX of <linux/limits.h>. */
static int read_status(uint32_t tid, struct buf *ret)
{
	enum { MOST_BYTES = 1 << 20 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	return fd_slurp(path, MOST_BYTES, ret);
}

/* What does it do, and of which process is it? The numbers are those of sched_switch. `ret_text`: its status. */
static bool find_task(struct off_cpu_task *task, struct buf *ret_text)
{
	static const struct {
		char letter;
		uint32_t state;
	} states[] = {{'R', 0}, {'S', 1}, {'D', 2}, {'T', 4}, {'t', 8}, {'I', 0x80}};

	if (read_status(task->tid, ret_text))
		return false;
	const char *state = strstr(buf_text(ret_text), "\nState:\t");
	const char *pid = strstr(buf_text(ret_text), "\nTgid:\t");
	if (!state || !pid || sscanf(pid, "\nTgid: %u", &task->pid) != 1)
		return false;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		task->state = states[i].state;
		if (state[strlen("\nState:\t")] != states[i].letter)
			continue;
		if (!task->state && !is_on_cpu(task->tid))
			task->state = OFF_CPU_PREEMPTED;
		return true;
	}
	return false;
}

/* The wake-ups of other tasks would take the room in the rings. NULL: the tasks are not known, or too many. */
static struct event *wake_ups_of_some(struct event_list *list, const struct target *target)
{
	enum { MOST_TASKS = 32 };
	struct event *found = NULL;

	if (target->kind != EVENT_TARGET_TASKS || target->nr_tids > MOST_TASKS)
		return NULL;
	for (size_t i = 0; i < list->nr; i++) {
		struct event *event = &list->events[i];
		if (event->off_cpu == EVENT_SWITCHES && event->attr.inherit)
			return NULL;
		if (event->off_cpu == EVENT_WAKE_UPS && event->system_wide)
			found = event;
	}
	return found;
}

/* That of a process, too: a thread that executes a program gets it. */
int off_cpu_run_filter_wake_ups(struct event_list *list, const struct target *target)
{
	struct event *event = wake_ups_of_some(list, target);
	AUTO_BUF struct buf filter = {0};

	for (size_t i = 0; event && i < target->nr_tids; i++) {
		struct off_cpu_task task = {.tid = (uint32_t)target->tids[i]};
		AUTO_BUF struct buf text = {0};
		(void)find_task(&task, &text);
		buf_printf(&filter, "%spid == %u", filter.len ? " || " : "", task.tid);
		if (task.pid && task.pid != task.tid) /* 0: it has ended */
			buf_printf(&filter, " || pid == %u", task.pid);
	}
	if (!event || !filter.len || event->filter)
		return 0;
	event->filter = strdup(buf_text(&filter));
	return filter.failed || !event->filter ? -ENOMEM : 0;
}

/*
 * The kernel ends the events of a task that runs a set-user-ID program: begin_new_exec() in linux/fs/exec.c. Whether it
 * did, no record tells.
 */
static bool may_have_no_events(const char *status)
{
	unsigned real, effective;
	const char *uid = strstr(status, "\nUid:\t");

	if (!uid || sscanf(uid, "\nUid: %u %u", &real, &effective) != 2)
		return true;
	return real != effective || (geteuid() && effective != geteuid());
}

/* A task that recorded ones may have started, if it waits. */
static void find_child(struct off_cpu_run *run, uint32_t tid, bool is_target)
{
	struct off_cpu_task task = {.tid = tid, .is_target = is_target};
	AUTO_BUF struct buf text = {0};

	if (find_task(&task, &text) && task.state && task.state != OFF_CPU_PREEMPTED &&
	    !may_have_no_events(buf_text(&text)))
		buf_put(&run->found, &task, sizeof(task));
}

/* Of the target's tasks; out of memory: not all of them. */
static void find_targets(struct off_cpu_run *run)
{
	const struct target *target = run->options->target;

	run->found.len = 0;
	for (size_t i = 0; target->kind == EVENT_TARGET_TASKS && i < target->nr_tids; i++) {
		struct off_cpu_task task = {.tid = (uint32_t)target->tids[i], .is_target = true};
		AUTO_BUF struct buf text = {0};
		if (find_task(&task, &text))
			buf_put(&run->found, &task, sizeof(task));
	}
}

/* Behind find_targets(): also those that they have started. */
static void find_children(struct off_cpu_run *run)
{
	const struct target *target = run->options->target;
	struct hash_table known = {0}, processes = {0};
	const size_t targets_len = run->found.len;
	AUTO_BUF struct buf tids = {0};
	int err = 0;

	for (size_t i = 0; target->kind == EVENT_TARGET_TASKS && i < target->nr_tids && !err; i++)
		err = hash_table_add_number(&known, (uint32_t)target->tids[i], true);
	for (size_t at = 0; at < targets_len && !err; at += sizeof(struct off_cpu_task)) {
		const uint32_t pid = ((const struct off_cpu_task *)(run->found.data + at))->pid;
		if (hash_table_find_number(&processes, pid))
			continue;
		err = hash_table_add_number(&processes, pid, true);
		err = err ? err : task_tree_list((pid_t)pid, &known, &tids);
	}
	if (target->kind == EVENT_TARGET_WORKLOAD && run->workload_pid)
		err = task_tree_list(run->workload_pid, &known, &tids);
	for (size_t at = 0; at < tids.len; at += sizeof(uint32_t)) {
		uint32_t tid;
		memcpy(&tid, tids.data + at, sizeof(tid));
		find_child(run, tid, tid == (uint32_t)run->workload_pid);
	}
	hash_table_fini(&known);
	hash_table_fini(&processes);
}

static void note_tasks(struct off_cpu_run *run, uint64_t time_ns)
{
	struct off_cpu_task task;

	for (size_t at = 0; at < run->found.len; at += sizeof(task)) {
		memcpy(&task, run->found.data + at, sizeof(task));
		task.time_ns = time_ns;
		(void)!off_cpu_found(run->stages, &task); /* out of memory: not told of */
	}
}

/*
 * The events are about to be disabled. A task of which they told nothing, although it was there before, and which waits
 * now, has waited for all of the time: else it would have left a CPU. Such are children of a command that was there
 * before -D let the events begin, and that were not found then, as their parents had ended.
 */
static void note_unseen(struct off_cpu_run *run)
{
	const uint64_t now_ns = ledger_book_now(run->book);
	AUTO_BUF struct buf tids = {0};

	if (run->options->target->kind != EVENT_TARGET_WORKLOAD) /* else others than the targets are described, too */
		return;
	off_cpu_list_unseen(run->stages, &tids);
	run->found.len = 0;
	for (size_t at = 0; at < tids.len; at += sizeof(uint32_t)) {
		uint32_t tid;
		memcpy(&tid, tids.data + at, sizeof(tid));
		find_child(run, tid, tid == (uint32_t)run->workload_pid);
	}
	note_tasks(run, now_ns);
}

/* For the ledger, which another thread has by now. */
static void note_disabled(struct off_cpu_run *run, bool on)
{
	const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	const struct disabled_time time = {.from_ns = run->disabled_ns, .to_ns = now_ns};

	if (on && run->disabled_ns)
		buf_put(&run->disabled, &time, sizeof(time));
	if (on || !run->disabled_ns)
		run->disabled_ns = on ? 0 : now_ns;
}

void off_cpu_run_switch(struct off_cpu_run *run, bool on)
{
	if (!run->stages)
		return;
	if (!on && !run->disabled_ns)
		note_unseen(run);
	uint64_t now_ns = ledger_book_now(run->book);
	off_cpu_switch(run->stages, on, now_ns);
	note_disabled(run, on);
	if (!on)
		return;
	find_targets(run);
	if (run->has_children)
		find_children(run);
	note_tasks(run, ledger_book_now(run->book)); /* a task that has run by then is not what it was */
}

void off_cpu_run_find_tasks(struct off_cpu_run *run)
{
	if (run->has_snapshots)
		find_targets(run);
}

uint64_t off_cpu_run_now(const struct off_cpu_run *run)
{
	return run->has_snapshots ? ledger_book_now(run->book) : 0;
}

void off_cpu_run_note_tasks(struct off_cpu_run *run, uint64_t time_ns)
{
	if (run->has_snapshots)
		note_tasks(run, time_ns);
}

uint64_t off_cpu_run_end(struct off_cpu_run *run)
{
	off_cpu_run_find_tasks(run);
	off_cpu_run_note_tasks(run, off_cpu_run_now(run));
	if (run->stages && !run->disabled_ns)
		note_unseen(run);
	return run->stages ? ledger_book_now(run->book) : 0;
}

void off_cpu_run_stop(struct off_cpu_run *run, uint64_t end_ns)
{
	if (run->stages)
		off_cpu_stop(run->stages, end_ns, lost_in_all(run));
}

int off_cpu_run_account(const struct off_cpu_run *run, struct ledger *ledger)
{
	struct disabled_time time;
	int err = buf_status(&run->disabled);

	for (size_t at = 0; at < run->disabled.len && !err; at += sizeof(time)) {
		memcpy(&time, run->disabled.data + at, sizeof(time));
		err = ledger_add(ledger, &(struct ledger_entry){.event = (uint32_t)LEDGER_NO_EVENT,
								.cause = LEDGER_DISABLED,
								.cpu = -1,
								.tid = -1,
								.from_ns = time.from_ns,
								.to_ns = time.to_ns});
	}
	return err;
}

void off_cpu_run_close(struct off_cpu_run *run)
{
	off_cpu_stages_free(run->stages);
	buf_fini(&run->found);
	buf_fini(&run->disabled);
	free(run->events);
	*run = (struct off_cpu_run){0};
}
