/* SPDX-License-Identifier: MIT */
#include "record/off_cpu/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_table.h"
#include "tasks/off_cpu.h"

enum {
	MOST_CPUS = 1 << 16,
	DEAD = 0x10 | 0x20,      /* X, Z of sched_switch */
	WAKE_UP_RACE_NS = 50000, /* it was woken while it was on its way out: the record of that comes first */
	RECENT = 16,
};

/* Sums wait no longer, and are no larger: until one comes, readers take its times for such on the CPU. */
static const uint64_t sum_interval_ns = 1000000000, most_sum_ns = 5000000;

enum where {
	NOWHERE, /* not known */
	UNSEEN,  /* it was there before the recording, and has not run since */
	ON,
	OFF,
};

struct task {
	uint32_t pid, tid, cpu;
	enum where where;
	bool exiting, exited; /* exited: it told of its end, and runs for a last time */
	bool gone;            /* it has ended by now, and no record came of that yet */
	bool forked;          /* waits_fork() told of it */
	uint64_t since_ns;
	uint64_t found_ns; /* of waits_found() */
	uint32_t found_state;
	uint32_t state, flags; /* with OFF */
	uint64_t woken_ns;     /* 0: was not */
	uint32_t waker_pid, waker_tid;
	struct buf waker_ips, left;
	struct off_cpu_wait sum; /* nr_times 0: none */
	uint64_t sum_from_ns;
};

struct gap {
	uint64_t from_ns, to_ns;
};

/* Of more than that on a CPU the oldest two count as one, with the time between them. */
static const size_t most_gaps = 4096;

struct waits {
	struct waits_params params;
	struct hash_table tasks; /* by tid */
	/* Looked for last, by tid modulo their number: for one switch and wake-up that is many times. */
	struct task *recent[RECENT];
	struct buf last;         /* uint32_t, by CPU: the task that ran there last; 0: none did */
	struct buf gaps;         /* struct gap, in the order of time, with some between them */
	struct buf gaps_of_cpus; /* struct buf, by CPU + 1: likewise, of that CPU; of any */
	size_t left_bytes;       /* of task.left, all */
	bool started;
	uint64_t start_ns;
};

struct waits *waits_new(const struct waits_params *params)
{
	struct waits *waits = calloc(1, sizeof(*waits));

	if (waits)
		waits->params = *params;
	return waits;
}

/* A copy of a stack is as large as those of thousands of call chains: only while the task waits. */
static void drop_left(struct waits *waits, struct task *task)
{
	enum { KEPT = 1024 };

	task->left.len = 0;
	if (task->left.room <= KEPT)
		return;
	waits->left_bytes -= task->left.room;
	buf_fini(&task->left);
}

static int put_left(struct waits *waits, struct task *task, struct span left)
{
	drop_left(waits, task);
	if (left.len > task->left.room) {
		void *data = realloc(task->left.data, left.len);
		if (!data)
			return -ENOMEM;
		waits->left_bytes += left.len - task->left.room;
		task->left.data = data;
		task->left.room = left.len;
	}
	buf_put(&task->left, left.ptr, left.len);
	return buf_status(&task->left);
}

size_t waits_left_bytes(const struct waits *waits)
{
	return waits->left_bytes;
}

static void task_free(struct task *task)
{
	buf_fini(&task->waker_ips);
	buf_fini(&task->left);
	free(task);
}

void waits_free(struct waits *waits)
{
	if (!waits)
		return;
	for (size_t i = 0; i < waits->tasks.nr_slots; i++)
		if (waits->tasks.slots[i].item)
			task_free(waits->tasks.slots[i].item);
	hash_table_fini(&waits->tasks);
	buf_fini(&waits->last);
	for (size_t i = 0; i < waits->gaps_of_cpus.len / sizeof(struct buf); i++)
		buf_fini((struct buf *)waits->gaps_of_cpus.data + i);
	buf_fini(&waits->gaps_of_cpus);
	buf_fini(&waits->gaps);
	free(waits);
}

void waits_start(struct waits *waits, uint64_t start_ns)
{
	if (waits->started)
		return;
	waits->started = true;
	waits->start_ns = start_ns;
}

/* Not inline: it is large, and most tasks that are looked for are recent ones. */
__attribute__((noinline)) static struct task *look_up(const struct waits *waits, uint32_t tid)
{
	return hash_table_find_item(&waits->tasks, tid);
}

static inline struct task *find_recent(const struct waits *waits, uint32_t tid)
{
	struct task *recent = waits->recent[tid % RECENT];

	return recent && recent->tid == tid ? recent : NULL;
}

static inline struct task *find(const struct waits *waits, uint32_t tid)
{
	struct task *recent = find_recent(waits, tid);

	return recent ? recent : look_up(waits, tid);
}

/* Adds it if it is not there. NULL: out of memory. */
__attribute__((noinline)) static struct task *look_up_or_add(struct waits *waits, uint32_t tid)
{
	struct task *task = look_up(waits, tid);

	if (!task) {
		task = calloc(1, sizeof(*task));
		if (!task || hash_table_add(&waits->tasks, tid, task)) {
			free(task);
			return NULL;
		}
		task->pid = task->tid = tid;
	}
	waits->recent[tid % RECENT] = task;
	return task;
}

/* NULL: out of memory. */
static inline struct task *make(struct waits *waits, uint32_t pid, uint32_t tid)
{
	struct task *recent = find_recent(waits, tid), *task = recent ? recent : look_up_or_add(waits, tid);

	if (task && pid != UINT32_MAX)
		task->pid = pid;
	return task;
}

static void forget(struct waits *waits, struct task *task)
{
	hash_table_remove(&waits->tasks, hash_table_find(&waits->tasks, task->tid));
	if (waits->recent[task->tid % RECENT] == task)
		waits->recent[task->tid % RECENT] = NULL;
	waits->left_bytes -= task->left.room;
	task_free(task);
}

static bool is_task(uint32_t tid)
{
	return tid && tid != UINT32_MAX;
}

bool waits_has(const struct waits *waits, uint32_t tid)
{
	const struct task *task = find(waits, tid);

	return task && (task->where == ON || task->where == OFF);
}

bool waits_knows(const struct waits *waits, uint32_t tid)
{
	return find(waits, tid);
}

bool waits_is_child(const struct waits *waits, uint32_t tid)
{
	const struct task *task = find(waits, tid);

	return task && task->forked;
}

int waits_know(struct waits *waits, uint32_t pid, uint32_t tid)
{
	struct task *task = is_task(tid) ? make(waits, pid, tid) : NULL;

	if (task && task->where == NOWHERE)
		task->where = UNSEEN;
	return task || !is_task(tid) ? 0 : -ENOMEM;
}

void waits_found(struct waits *waits, uint32_t tid, uint32_t state, uint64_t time_ns)
{
	struct task *task = find(waits, tid);

	if (!task)
		return;
	task->found_ns = time_ns;
	task->found_state = state;
}

void waits_list_unseen(const struct waits *waits, struct buf *ret_tids)
{
	for (size_t i = 0; i < waits->tasks.nr_slots; i++) {
		const struct task *task = waits->tasks.slots[i].item;
		bool is_found = task && waits->start_ns && task->found_ns >= waits->start_ns;
		if (task && task->where == UNSEEN && !is_found)
			buf_put(ret_tids, &task->tid, sizeof(task->tid));
	}
}

static int put_sum(struct waits *waits, struct task *task, uint64_t time_ns)
{
	struct off_cpu_wait sum = task->sum;
	const struct off_cpu_end end = {.pid = task->pid, .tid = task->tid, .time_ns = time_ns, .cpu = task->cpu};

	if (!sum.nr_times)
		return 0;
	sum.flags = OFF_CPU_SUM;
	task->sum = (struct off_cpu_wait){0};
	return waits->params.emit(waits->params.ctx, (struct span){0}, &sum, &end);
}

static void set_on(struct waits *waits, struct task *task, const struct waits_place *place)
{
	task->where = ON;
	task->since_ns = place->time_ns;
	task->cpu = place->cpu;
	task->woken_ns = 0;
	task->gone = false;
	task->waker_ips.len = 0;
	drop_left(waits, task);
}

/* Are records missing of that time? From the first of them on, up to the last. */
static bool find_in(const struct buf *in, uint64_t from_ns, uint64_t to_ns, struct gap *ret)
{
	const struct gap *gaps = (const struct gap *)in->data;
	const size_t nr = in->len / sizeof(*gaps);
	const size_t first = partition_point(nr, i, gaps[i].to_ns <= from_ns);
	const size_t end = partition_point(nr, i, gaps[i].from_ns < to_ns);

	if (first >= end)
		return false;
	*ret = (struct gap){.from_ns = gaps[first].from_ns > from_ns ? gaps[first].from_ns : from_ns,
			    .to_ns = gaps[end - 1].to_ns < to_ns ? gaps[end - 1].to_ns : to_ns};
	return true;
}

/* Without a look for it: most times begin behind the last gap. */
static bool may_have_gap(const struct waits *waits, uint64_t from_ns)
{
	if (!waits->gaps.len)
		return false;
	const struct gap *end = (const struct gap *)(waits->gaps.data + waits->gaps.len);

	return end[-1].to_ns > from_ns;
}

static bool has_gap(const struct waits *waits, uint64_t from_ns, uint64_t to_ns)
{
	struct gap unused;

	return may_have_gap(waits, from_ns) && find_in(&waits->gaps, from_ns, to_ns, &unused);
}

/* That a task of that CPU left it is told there, or of any. */
static bool find_gap_of_lists(const struct waits *waits, uint32_t cpu, struct gap times, struct gap *ret)
{
	const uint64_t from_ns = times.from_ns, to_ns = times.to_ns;
	const struct buf *lists = (const struct buf *)waits->gaps_of_cpus.data;
	const size_t nr = waits->gaps_of_cpus.len / sizeof(*lists), of_cpu = (size_t)cpu + 1;
	struct gap gap, of_any;
	bool found = of_cpu < nr && find_in(&lists[of_cpu], from_ns, to_ns, &gap);

	if (nr && find_in(&lists[0], from_ns, to_ns, &of_any)) {
		gap.from_ns = found && gap.from_ns < of_any.from_ns ? gap.from_ns : of_any.from_ns;
		found = true;
	}
	if (found)
		*ret = gap;
	return found;
}

static inline bool find_gap_of_cpu(const struct waits *waits, const struct task *task, uint64_t to_ns, struct gap *ret)
{
	const uint64_t from_ns = task->since_ns > waits->start_ns ? task->since_ns : waits->start_ns;

	return may_have_gap(waits, from_ns) &&
	       find_gap_of_lists(waits, task->cpu, (struct gap){.from_ns = from_ns, .to_ns = to_ns}, ret);
}

/* What the time up to `time_ns` was, of a task that is off the CPU. */
static struct off_cpu_wait describe(const struct waits *waits, const struct task *task, uint64_t time_ns)
{
	bool ready = task->flags & OFF_CPU_STARTING || !(task->flags & OFF_CPU_NO_STATE || task->state);
	struct off_cpu_wait wait = {
		.ns = time_ns - task->since_ns, .state = task->state, .flags = task->flags, .nr_times = 1};

	if (time_ns < task->since_ns) /* came too late to be put in order */
		wait.ns = 0;
	if (time_ns < task->since_ns || has_gap(waits, task->since_ns, time_ns)) {
		wait.flags |= OFF_CPU_UNKNOWN;
		return wait;
	}
	if (ready) {
		wait.runnable_ns = wait.ns;
	} else if (task->woken_ns) {
		uint64_t from_ns = task->woken_ns > task->since_ns ? task->woken_ns : task->since_ns;
		wait.runnable_ns = time_ns > from_ns ? time_ns - from_ns : 0;
		wait.waker_pid = task->waker_pid;
		wait.waker_tid = task->waker_tid;
		wait.flags |= wait.waker_pid || wait.waker_tid ? 0 : OFF_CPU_BY_INTERRUPT;
		wait.waker_ips = buf_span(&task->waker_ips);
	} else {
		wait.flags |= OFF_CPU_NO_WAKE_UP;
	}
	return wait;
}

/* The wait of a task, up to that time. */
static int end_wait(struct waits *waits, struct task *task, const struct waits_place *place, uint32_t more_flags)
{
	const struct off_cpu_end end = {
		.pid = task->pid, .tid = task->tid, .time_ns = place->time_ns, .cpu = place->cpu};

	if (!waits->started || place->time_ns <= waits->start_ns)
		return 0;
	if (task->since_ns < waits->start_ns) {
		if (more_flags & OFF_CPU_UNKNOWN) /* the CPU where it ran told nothing yet */
			return 0;
		task->since_ns = waits->start_ns;
		task->flags |= OFF_CPU_BEGAN_EARLIER;
	}
	struct off_cpu_wait wait = describe(waits, task, place->time_ns);
	wait.flags |= more_flags;
	if (wait.flags & OFF_CPU_UNKNOWN && task->exited) /* all of its time up to its end is accounted for */
		return 0;
	if (wait.flags & OFF_CPU_UNKNOWN || wait.ns >= waits->params.min_ns)
		return waits->params.emit(waits->params.ctx, buf_span(&task->left), &wait, &end);
	if (!task->sum.nr_times)
		task->sum_from_ns = place->time_ns;
	task->sum.nr_times++;
	task->sum.ns += wait.ns;
	task->sum.runnable_ns += wait.runnable_ns;
	bool is_due = task->sum.ns >= most_sum_ns || place->time_ns - task->sum_from_ns >= sum_interval_ns;
	return is_due ? put_sum(waits, task, place->time_ns) : 0;
}

/*
 * Of a task that ran last: it may have left the CPU where records are missing. From there on up to `place` it is not
 * known what it did.
 */
static int end_run(struct waits *waits, struct task *task, const struct waits_place *place)
{
	struct gap gap;

	if (task->where != ON || task->exited || !find_gap_of_cpu(waits, task, place->time_ns, &gap))
		return 0;
	task->since_ns = gap.from_ns;
	task->flags = task->state = 0;
	int err = end_wait(waits, task, place, OFF_CPU_UNKNOWN);
	task->since_ns = place->time_ns;
	return err;
}

/* Of a task that is not heard of any more: that it ended was lost. */
static int end_unheard(struct waits *waits, struct task *task, const struct waits_place *place)
{
	return task->where == OFF ? end_wait(waits, task, place, OFF_CPU_UNKNOWN) : end_run(waits, task, place);
}

/* It has not run from the start until then. */
static void set_off_from_start(struct waits *waits, struct task *task, uint64_t until_ns)
{
	const bool found = task->found_ns && task->found_ns >= waits->start_ns && task->found_ns < until_ns;

	task->where = OFF;
	task->since_ns = 0;
	task->state = found ? task->found_state & ~(uint32_t)OFF_CPU_PREEMPTED : 0;
	task->flags = found ? 0 : OFF_CPU_NO_STATE;
	drop_left(waits, task);
}

/* The task has ended, or its number is that of another one now. */
static int end_task(struct waits *waits, struct task *task, uint64_t time_ns)
{
	int err = put_sum(waits, task, time_ns);

	forget(waits, task);
	return err;
}

static inline int note_last(struct waits *waits, const struct waits_place *place)
{
	const size_t bytes = (place->cpu + 1) * sizeof(uint32_t);

	if (place->cpu >= MOST_CPUS)
		return 0;
	if (bytes > waits->last.len && !buf_extend(&waits->last, bytes - waits->last.len))
		return -ENOMEM;
	((uint32_t *)waits->last.data)[place->cpu] = place->tid;
	return 0;
}

/* NULL: none, or it went on elsewhere. */
static struct task *find_last(const struct waits *waits, uint32_t cpu)
{
	const uint32_t *tids = (const uint32_t *)waits->last.data;
	struct task *task = cpu < waits->last.len / sizeof(*tids) ? find(waits, tids[cpu]) : NULL;

	return task && task->cpu == cpu ? task : NULL;
}

/* A task leaves the CPU for ever, and has no number any more. */
static int leave_reaped(struct waits *waits, const struct waits_place *place, uint32_t state)
{
	struct task *task = find_last(waits, place->cpu);
	bool ended = task && (task->exiting || (state & DEAD && task->where == ON));
	int err = ended ? end_run(waits, task, place) : 0;
	int end_err = ended ? end_task(waits, task, place->time_ns) : 0;

	return err ? err : end_err;
}

/* A sample without a state does not tell whether the task was preempted; the SWITCH record behind it does. */
static bool is_known_to_wait(uint32_t state, uint32_t flags, struct span left)
{
	return flags & OFF_CPU_NO_STATE ? !left.len : state & ~(uint32_t)OFF_CPU_PREEMPTED;
}

/* Out of its CPU. Where records are missing it may have been off already, and have run since. */
static bool is_woken_on_its_way(const struct waits *waits, const struct task *task, uint64_t time_ns)
{
	struct gap unused;

	return task->where == ON && task->woken_ns && time_ns - task->woken_ns < WAKE_UP_RACE_NS &&
	       !find_gap_of_cpu(waits, task, time_ns, &unused);
}

int waits_leave(struct waits *waits, const struct waits_place *place, uint32_t state, uint32_t flags, struct span left)
{
	int err = 0;

	if (place->tid == UINT32_MAX)
		return leave_reaped(waits, place, state);
	if (!is_task(place->tid))
		return 0;
	/* The sample of this switch told that the task has ended. */
	if (waits->params.states_known && !left.len && !find(waits, place->tid))
		return 0;
	struct task *task = make(waits, place->pid, place->tid);
	if (!task)
		return -ENOMEM;
	bool ends = state & DEAD || (task->exiting && is_known_to_wait(state, flags, left));
	if (!ends && task->where == OFF && !left.len && task->left.len) { /* its SWITCH record, behind its sample */
		if (task->flags & OFF_CPU_NO_STATE)
			task->flags = flags;
		return 0;
	}
	const bool woken = is_woken_on_its_way(waits, task, place->time_ns);
	/* It ran, and that was lost; or it left and came back. */
	if (!ends || state & DEAD)
		err = end_unheard(waits, task, place);
	if (ends) {
		int end_err = end_task(waits, task, place->time_ns);
		return err ? err : end_err;
	}
	task->where = OFF;
	task->gone = false;
	task->since_ns = place->time_ns;
	task->state = state & ~(uint32_t)OFF_CPU_PREEMPTED;
	task->flags = flags;
	if (!woken)
		task->woken_ns = 0;
	int left_err = put_left(waits, task, left);
	return err ? err : left_err;
}

int waits_run(struct waits *waits, const struct waits_place *place)
{
	int err = note_last(waits, place);

	if (err || !is_task(place->tid))
		return err;
	struct task *task = make(waits, place->pid, place->tid);
	if (!task)
		return -ENOMEM;
	bool was_there = task->where == UNSEEN || (task->where == NOWHERE && waits->params.forks_known);
	if (was_there && waits->start_ns)
		set_off_from_start(waits, task, place->time_ns);
	err = task->where == OFF ? end_wait(waits, task, place, 0) : end_run(waits, task, place);
	set_on(waits, task, place);
	return err;
}

int waits_wake(struct waits *waits, uint64_t time_ns, uint32_t tid, const struct waits_waker *waker)
{
	struct task *task = find(waits, tid);

	if (!task)
		return 0;
	/* The first is the one that ended its wait; before that it may have been woken for what it did not wait for. */
	if (task->where == OFF && task->woken_ns >= task->since_ns)
		return 0;
	task->woken_ns = time_ns;
	task->waker_pid = waker->pid;
	task->waker_tid = waker->tid;
	task->waker_ips.len = 0;
	buf_put(&task->waker_ips, waker->ips.ptr, waker->ips.len);
	return buf_status(&task->waker_ips);
}

int waits_replace(struct waits *waits, const struct waits_place *place)
{
	struct task *task = find(waits, place->tid);
	struct waits_place end = *place;

	if (!task)
		return 0;
	end.pid = task->pid;
	int err = has_gap(waits, task->since_ns, place->time_ns) ? end_unheard(waits, task, &end) : 0;
	int end_err = end_task(waits, task, place->time_ns);
	return err ? err : end_err;
}

int waits_fork(struct waits *waits, const struct waits_place *place)
{
	if (!is_task(place->tid))
		return 0;
	int err = waits_replace(waits, place);
	if (err)
		return err;
	struct task *task = make(waits, place->pid, place->tid);
	if (!task)
		return -ENOMEM;
	/* What it did up to the start no switch tells: it may run or wait by then, or have ended. */
	task->where = waits->started ? OFF : UNSEEN;
	task->since_ns = place->time_ns;
	task->cpu = place->cpu;
	task->flags = OFF_CPU_STARTING;
	task->forked = true;
	return 0;
}

/* A task that runs, if no record told of it before: its last switch would look like the beginning of a wait. */
static int meet(struct waits *waits, const struct waits_place *place)
{
	if (!is_task(place->tid) || find(waits, place->tid))
		return 0;
	struct task *task = make(waits, place->pid, place->tid);
	if (!task)
		return -ENOMEM;
	set_on(waits, task, place);
	return note_last(waits, place);
}

int waits_exit(struct waits *waits, const struct waits_place *place, bool leaves)
{
	const bool known_by_state = leaves && waits->params.states_known;
	int err = leaves && !known_by_state ? meet(waits, place) : 0;
	struct task *task = find(waits, place->tid);

	if (err || !task)
		return err;
	/* Its last switch tells nothing that is not known; one that was there before must not count as asleep later. */
	if (task->where == UNSEEN && !waits->started && task->forked && (!leaves || known_by_state))
		return end_task(waits, task, place->time_ns);
	if (task->where == UNSEEN && waits->started && waits->start_ns) {
		/* It ran all the time; or switches of it were lost, and it may have waited before as well. */
		task->where = has_gap(waits, waits->start_ns, place->time_ns) ? OFF : ON;
		task->since_ns = waits->start_ns;
		task->flags = OFF_CPU_NO_STATE;
	}
	bool was_off = task->where == OFF; /* that it ran again was lost */
	err = end_unheard(waits, task, place);
	if (was_off)
		set_on(waits, task, place);
	task->exited = true;
	if (err || known_by_state)
		return err;
	task->exiting = true;
	return task->where == ON && !leaves ? end_task(waits, task, place->time_ns)
					    : put_sum(waits, task, place->time_ns);
}

static int add_gap(struct buf *to, struct gap gap)
{
	if (!buf_extend(to, sizeof(gap)))
		return -ENOMEM;
	struct gap *gaps = (struct gap *)to->data;
	const size_t nr = to->len / sizeof(gap) - 1;
	const size_t first = partition_point(nr, i, gaps[i].to_ns < gap.from_ns);
	const size_t end = partition_point(nr, i, gaps[i].from_ns <= gap.to_ns);
	size_t left = nr - (end - first) + 1;

	if (first < end) { /* those that it touches become one with it */
		gap.from_ns = gaps[first].from_ns < gap.from_ns ? gaps[first].from_ns : gap.from_ns;
		gap.to_ns = gaps[end - 1].to_ns > gap.to_ns ? gaps[end - 1].to_ns : gap.to_ns;
	}
	memmove(gaps + first + 1, gaps + end, (nr - end) * sizeof(gap));
	gaps[first] = gap;
	if (left > most_gaps) {
		gaps[1].from_ns = gaps[0].from_ns;
		memmove(gaps, gaps + 1, --left * sizeof(gap));
	}
	to->len = left * sizeof(gap);
	return 0;
}

int waits_gap(struct waits *waits, const struct waits_gap *gap)
{
	const struct gap times = {.from_ns = gap->from_ns, .to_ns = gap->to_ns};
	const size_t list = gap->cpu >= 0 && gap->cpu < MOST_CPUS ? (size_t)gap->cpu + 1 : 0;
	const size_t bytes = (list + 1) * sizeof(struct buf);

	if (times.from_ns >= times.to_ns)
		return 0;
	if (bytes > waits->gaps_of_cpus.len && !buf_extend(&waits->gaps_of_cpus, bytes - waits->gaps_of_cpus.len))
		return -ENOMEM;
	int err = add_gap((struct buf *)waits->gaps_of_cpus.data + list, times);
	return err ? err : add_gap(&waits->gaps, times);
}

bool waits_find_gone(struct waits *waits, bool (*has_ended)(void *ctx, uint32_t tid), void *ctx)
{
	bool found = false;

	for (size_t i = 0; i < waits->tasks.nr_slots; i++) {
		struct task *task = waits->tasks.slots[i].item;
		if (!task || (task->where != ON && task->where != OFF) || !has_gap(waits, task->since_ns, UINT64_MAX))
			continue;
		task->gone = has_ended(ctx, task->tid);
		found |= task->gone;
	}
	return found;
}

int waits_end_gone(struct waits *waits, uint64_t time_ns)
{
	int err = 0;

	for (size_t i = 0; i < waits->tasks.nr_slots && !err; i++) {
		struct task *task = waits->tasks.slots[i].item;
		if (!task || !task->gone)
			continue;
		const struct waits_place place = {
			.time_ns = time_ns, .pid = task->pid, .tid = task->tid, .cpu = task->cpu};
		err = end_unheard(waits, task, &place);
		if (!err)
			err = put_sum(waits, task, time_ns);
		task->where = NOWHERE;
		task->gone = false;
	}
	return err;
}

static void forget_state(struct waits *waits, struct task *task)
{
	if (task->where != NOWHERE)
		task->where = UNSEEN;
	task->woken_ns = 0;
	drop_left(waits, task);
}

int waits_stop(struct waits *waits, uint64_t stop_ns)
{
	int err = 0;

	for (size_t i = 0; i < waits->tasks.nr_slots && !err; i++) {
		struct task *task = waits->tasks.slots[i].item;
		if (!task)
			continue;
		if (task->where == UNSEEN && waits->start_ns && task->found_state && task->found_ns >= waits->start_ns)
			set_off_from_start(waits, task, stop_ns);
		const struct waits_place place = {
			.time_ns = stop_ns, .pid = task->pid, .tid = task->tid, .cpu = task->cpu};
		if (task->where == OFF && stop_ns > task->since_ns)
			err = end_wait(waits, task, &place,
				       /* It ran its exit, and no record tells when it began to run. */
				       task->exiting || task->gone ? OFF_CPU_UNKNOWN : OFF_CPU_GOES_ON);
		else
			err = end_run(waits, task, &place);
		if (!err)
			err = put_sum(waits, task, stop_ns);
		forget_state(waits, task);
	}
	waits->started = false;
	return err;
}

void waits_all_stopped(struct waits *waits)
{
	for (size_t i = 0; i < waits->tasks.nr_slots; i++)
		if (waits->tasks.slots[i].item)
			forget_state(waits, waits->tasks.slots[i].item);
}
