/* SPDX-License-Identifier: MIT */
/*
 * Any schedule of tasks on two CPUs, of whose records some are lost: each wait that is reported, and not as unknown,
 * was one, as long and with the same wake-up. Each that had no lost record beside it is reported. Of one task no time
 * is reported twice. Input: a byte of flags, then operations of two bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "record/off_cpu/waits.h"
#include "tasks/off_cpu.h"

enum {
	NR_CPUS = 2,
	NR_TASKS = 4, /* tid 1 to 4; pid 100 more */
	START_NS = 1000,
	STEP_NS = 100,
	MOST = 200, /* operations */
	SLEEPING = 1,
	DEAD = 0x10,
	PREEMPTED = 0x100,
	UNKNOWN = UINT32_MAX, /* of a number */
};

enum operation { SWITCH, WAKE, FORK, EXIT, LOSE, ASK, NR_OPERATIONS };

/*
 * What there is: with STATES samples tell the state and the next task; with SAMPLES there are any. REAPED: behind its
 * exit a task loses its number.
 */
enum flags { STATES = 1, SAMPLES = 2, ENDS_AT_EXIT = 4, REAPED = 8 };

struct wait {
	uint32_t tid;
	uint64_t from_ns, to_ns, woken_ns; /* woken: 0: not */
	bool preempted;
	bool behind_exit;
	bool unknown; /* as reported */
};

struct event {
	enum operation what;
	uint64_t time_ns;
	uint32_t cpu, tid;
	uint32_t other; /* of SWITCH: that runs next; of WAKE: who wakes */
	uint32_t state; /* in which it leaves */
	bool is_reaped; /* that runs next */
	bool lost;
	bool ended[NR_TASKS + 1]; /* of ASK */
};

struct task {
	enum { NONE, READY, RUNS, WAITS } where;
	bool exiting;
	struct wait wait;
};

struct machine {
	enum flags flags;
	uint64_t now_ns;
	struct task tasks[NR_TASKS + 1];
	uint32_t running[NR_CPUS]; /* 0: idle */
	struct event events[MOST + 1];
	size_t nr_events;
	struct wait waits[MOST], reported[3 * MOST];
	size_t nr_waits, nr_reported;
	struct waits_gap gaps[MOST];
	size_t nr_gaps;
	bool loses[NR_CPUS];
	size_t gap[NR_CPUS];           /* with loses: which */
	bool lost_end[NR_TASKS + 1];   /* of a task that has ended, its exit */
	bool lost_start[NR_TASKS + 1]; /* of a task, its fork */
	uint64_t came_ns[NR_CPUS];     /* the last record that was not lost */
};

static struct event *add_event(struct machine *machine, enum operation what, uint32_t cpu, uint32_t tid)
{
	struct event *event = &machine->events[machine->nr_events++];

	*event = (struct event){
		.what = what, .time_ns = machine->now_ns, .cpu = cpu, .tid = tid, .lost = machine->loses[cpu]};
	if (!event->lost && what != ASK)
		machine->came_ns[cpu] = machine->now_ns;
	return event;
}

static void begin_wait(struct machine *machine, uint32_t tid, bool preempted)
{
	machine->tasks[tid].where = preempted ? READY : WAITS;
	machine->tasks[tid].wait = (struct wait){.tid = tid,
						 .from_ns = machine->now_ns,
						 .preempted = preempted,
						 .behind_exit = machine->tasks[tid].exiting};
}

static void end_wait(struct machine *machine, uint32_t tid)
{
	struct task *task = &machine->tasks[tid];

	task->where = RUNS;
	task->wait.to_ns = machine->now_ns;
	machine->waits[machine->nr_waits++] = task->wait;
}

static void do_wake(struct machine *machine, uint32_t cpu, uint32_t tid)
{
	struct task *task = &machine->tasks[tid];

	if (task->where != WAITS)
		return;
	task->where = READY;
	task->wait.woken_ns = machine->now_ns;
	add_event(machine, WAKE, cpu, tid)->other = machine->running[cpu];
}

static void do_switch(struct machine *machine, uint32_t cpu, uint32_t to, bool preempted)
{
	const uint32_t from = machine->running[cpu];
	struct task *task = &machine->tasks[from];
	const uint32_t next = machine->tasks[to].where == READY ? to : 0;

	if (from == next)
		return;
	struct event *event = add_event(machine, SWITCH, cpu, from);
	event->other = next;
	event->is_reaped = next && machine->tasks[next].exiting && machine->flags & REAPED;
	event->state = from && preempted ? PREEMPTED : from && task->exiting ? DEAD : SLEEPING;
	machine->running[cpu] = next;
	if (event->state == DEAD)
		*task = (struct task){0};
	else if (from)
		begin_wait(machine, from, preempted);
	if (next)
		end_wait(machine, next);
}

static void do_fork(struct machine *machine, uint32_t cpu, uint32_t tid)
{
	if (machine->tasks[tid].where != NONE || !machine->running[cpu])
		return;
	begin_wait(machine, tid, true);
	machine->lost_start[tid] |= add_event(machine, FORK, cpu, tid)->lost;
}

static void do_exit(struct machine *machine, uint32_t cpu)
{
	const uint32_t tid = machine->running[cpu];

	if (!tid || machine->tasks[tid].exiting)
		return;
	machine->tasks[tid].exiting = true;
	machine->lost_end[tid] = add_event(machine, EXIT, cpu, tid)->lost;
	if (machine->flags & ENDS_AT_EXIT) {
		machine->tasks[tid] = (struct task){0};
		machine->running[cpu] = 0;
	}
}

/* From the last record of the CPU that came on, until records come again. */
static void do_lose(struct machine *machine, uint32_t cpu)
{
	if (machine->loses[cpu]) {
		machine->gaps[machine->gap[cpu]].to_ns = machine->now_ns;
	} else {
		machine->gap[cpu] = machine->nr_gaps;
		machine->gaps[machine->nr_gaps++] =
			(struct waits_gap){.cpu = (int)cpu, .from_ns = machine->came_ns[cpu]};
	}
	machine->loses[cpu] = !machine->loses[cpu];
}

static void do_ask(struct machine *machine)
{
	struct event *event = add_event(machine, ASK, 0, 0);

	event->lost = false;
	for (uint32_t tid = 1; tid <= NR_TASKS; tid++)
		event->ended[tid] = machine->tasks[tid].where == NONE;
}

/* One task runs and one sleeps when it begins. */
static void run_machine(struct machine *machine, const uint8_t *data, size_t size)
{
	machine->now_ns = START_NS;
	machine->tasks[1].where = RUNS;
	machine->running[0] = 1;
	machine->tasks[2] = (struct task){.where = WAITS, .wait = {.tid = 2, .from_ns = START_NS}};
	for (size_t at = 0; at + 2 <= size && at < 2 * (size_t)MOST; at += 2) {
		const uint32_t cpu = data[at + 1] & 1, tid = 1 + (data[at + 1] >> 1 & 3);
		machine->now_ns += STEP_NS + (data[at + 1] >> 4);
		switch (data[at] % NR_OPERATIONS) {
		case SWITCH: do_switch(machine, cpu, tid, data[at + 1] & 8); break;
		case WAKE: do_wake(machine, cpu, tid); break;
		case FORK: do_fork(machine, cpu, tid); break;
		case EXIT: do_exit(machine, cpu); break;
		case LOSE: do_lose(machine, cpu); break;
		default: do_ask(machine); break;
		}
	}
	machine->now_ns += STEP_NS;
	do_ask(machine);
	for (uint32_t cpu = 0; cpu < NR_CPUS; cpu++)
		if (machine->loses[cpu])
			do_lose(machine, cpu);
	for (uint32_t tid = 1; tid <= NR_TASKS; tid++)
		if (machine->tasks[tid].where == READY || machine->tasks[tid].where == WAITS)
			end_wait(machine, tid);
}

/* waits_params.emit */
static int report(void *ctx, struct span left, const struct off_cpu_wait *wait, const struct off_cpu_end *end)
{
	struct machine *machine = ctx;

	(void)left;
	if (wait->runnable_ns > wait->ns || wait->ns > end->time_ns - START_NS || end->time_ns > machine->now_ns ||
	    end->tid > NR_TASKS || wait->flags & OFF_CPU_SUM ||
	    machine->nr_reported == sizeof(machine->reported) / sizeof(machine->reported[0]))
		abort();
	machine->reported[machine->nr_reported++] = (struct wait){
		.tid = end->tid,
		.from_ns = end->time_ns - wait->ns,
		.to_ns = end->time_ns,
		.woken_ns = wait->runnable_ns ? end->time_ns - wait->runnable_ns : 0,
		.unknown = wait->flags & OFF_CPU_UNKNOWN,
	};
	return 0;
}

static int leave(struct waits *waits, const struct machine *machine, const struct event *event)
{
	const bool gone = event->state == DEAD && machine->flags & REAPED;
	struct waits_place place = {
		.time_ns = event->time_ns, .pid = event->tid + 100, .tid = event->tid, .cpu = event->cpu};
	const uint32_t by_number = place.tid;
	int err = 0;

	if (gone)
		place.pid = place.tid = UNKNOWN;
	if (machine->flags & STATES) {
		place.tid = by_number;
		err = waits_leave(waits, &place, event->state, 0, (struct span){"sample", 6});
		place.tid = gone ? UNKNOWN : place.tid;
	} else if (machine->flags & SAMPLES) {
		err = waits_leave(waits, &place, 0, OFF_CPU_NO_STATE, (struct span){"sample", 6});
	}
	if (err)
		return err;
	if (machine->flags & STATES)
		err = waits_run(waits, &(struct waits_place){event->time_ns, UNKNOWN, event->other, event->cpu});
	return err ? err
		   : waits_leave(waits, &place, 0, event->state == PREEMPTED ? 0 : OFF_CPU_NO_STATE, (struct span){0});
}

static int give(struct waits *waits, const struct machine *machine, const struct event *event)
{
	const struct waits_place place = {
		.time_ns = event->time_ns, .pid = event->tid + 100, .tid = event->tid, .cpu = event->cpu};
	struct waits_place next = {
		.time_ns = event->time_ns, .pid = event->other + 100, .tid = event->other, .cpu = event->cpu};
	int err;

	switch (event->what) {
	case SWITCH:
		if (event->is_reaped)
			next.pid = next.tid = UNKNOWN;
		err = leave(waits, machine, event);
		return err ? err : waits_run(waits, &next);
	case WAKE:
		return waits_wake(waits, event->time_ns, event->tid,
				  &(struct waits_waker){.pid = event->other, .tid = event->other});
	case FORK: return waits_fork(waits, &place);
	default: return waits_exit(waits, &place, !(machine->flags & ENDS_AT_EXIT));
	}
}

/* waits_find_gone() */
static bool has_ended(void *ctx, uint32_t tid)
{
	const struct event *event = ctx;

	return event->ended[tid];
}

static void give_all(struct machine *machine)
{
	const struct waits_params params = {.states_known = machine->flags & STATES, .emit = report, .ctx = machine};
	struct waits *waits = waits_new(&params);
	bool asked = false;
	int err = 0;

	if (!waits || waits_know(waits, 101, 1) || waits_know(waits, 102, 2))
		abort();
	waits_start(waits, START_NS);
	for (size_t i = 0, gap = 0; i < machine->nr_events && !err; i++) {
		struct event *event = &machine->events[i];
		for (; gap < machine->nr_gaps && machine->gaps[gap].from_ns < event->time_ns && !err; gap++)
			err = waits_gap(waits, &machine->gaps[gap]);
		if (event->lost)
			continue;
		if (asked && !err)
			err = waits_end_gone(waits, event->time_ns);
		asked = event->what == ASK && waits_find_gone(waits, has_ended, event);
		if (event->what != ASK && !err)
			err = give(waits, machine, event);
	}
	if (err || waits_stop(waits, machine->now_ns))
		abort();
	waits_free(waits);
}

static bool has_gap(const struct machine *machine, const struct wait *wait)
{
	for (size_t i = 0; i < machine->nr_gaps; i++)
		if (machine->gaps[i].from_ns < wait->to_ns && machine->gaps[i].to_ns > wait->from_ns)
			return true;
	return false;
}

static bool is_same(const struct wait *a, const struct wait *b)
{
	return a->tid == b->tid && a->from_ns == b->from_ns && a->to_ns == b->to_ns;
}

/* One that was not lost in part, and of a task that has run, or that ran later. */
static void check_wait(const struct machine *machine, const struct wait *wait)
{
	const uint64_t woken_ns = wait->preempted ? wait->from_ns : wait->woken_ns;
	size_t nr = 0;

	for (size_t i = 0; i < machine->nr_reported; i++) {
		const struct wait *reported = &machine->reported[i];
		if (!is_same(reported, wait) || reported->unknown)
			continue;
		nr++;
		if (reported->woken_ns != woken_ns)
			abort();
	}
	const bool never_ran = wait->from_ns == START_NS && wait->to_ns == machine->now_ns;
	/* Without its start it may be taken for one that had its number before, and has ended. */
	const bool may_be_missed =
		never_ran || has_gap(machine, wait) || machine->lost_start[wait->tid] || wait->behind_exit;
	if (nr > 1 || (!nr && !may_be_missed))
		abort();
}

static void check_reported(const struct machine *machine, size_t at)
{
	const struct wait *reported = &machine->reported[at];
	/* Its last switch looks like that of a task that goes on. */
	bool was = reported->unknown || (machine->lost_end[reported->tid] && reported->to_ns == machine->now_ns);

	for (size_t i = 0; i < machine->nr_waits && !was; i++)
		was = is_same(reported, &machine->waits[i]);
	if (!was)
		abort();
	for (size_t i = 0; i < at; i++)
		if (machine->reported[i].tid == reported->tid && machine->reported[i].from_ns < reported->to_ns &&
		    reported->from_ns < machine->reported[i].to_ns)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct machine *machine = calloc(1, sizeof(*machine));

	if (!machine)
		abort();
	machine->flags = size ? data[0] : 0;
	run_machine(machine, data + !!size, size - !!size);
	give_all(machine);
	for (size_t i = 0; i < machine->nr_reported; i++)
		check_reported(machine, i);
	for (size_t i = 0; i < machine->nr_waits; i++)
		check_wait(machine, &machine->waits[i]);
	free(machine);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	enum { CPU_1 = 1, TASK_2 = 1 << 1, TASK_3 = 2 << 1, TASK_4 = 3 << 1, PREEMPT = 8 };
	static const uint8_t steps[][2] = {
		{WAKE, TASK_2},
		{SWITCH, TASK_2 | CPU_1},
		{FORK, TASK_3},
		{SWITCH, TASK_3},
		{LOSE, CPU_1},
		{SWITCH, TASK_4 | CPU_1},
		{WAKE, TASK_2},
		{LOSE, CPU_1},
		{WAKE, 0},
		{SWITCH, PREEMPT},
		{SWITCH, TASK_2 | CPU_1},
		{EXIT, 0},
		{SWITCH, TASK_3},
		{ASK, 0},
		{EXIT, CPU_1},
		{LOSE, CPU_1},
		{SWITCH, CPU_1},
		{ASK, 0},
		{SWITCH, TASK_4},
		{LOSE, CPU_1},
	};

	if (number > 15)
		return false;
	buf_put_u8(out, (uint8_t)number);
	buf_put(out, steps, sizeof(steps));
	return true;
}
