/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_wall.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash_table.h"
#include "perfdata/layout.h"
#include "perfdata/ledger.h"
#include "read/session.h"
#include "tasks/off_cpu.h"
#include "tasks/task_event.h"

struct thread {
	uint64_t on_ns; /* it is on the CPU, and what came before is accounted for */
	bool stopped;   /* it was off the CPU when the events were disabled: what came then is not known */
	uint64_t unsampled_ns;
	uint64_t excess_ns; /* of the time on the CPU so far: short waits were in it, whose sum came later */
};

/* The events were disabled; or what they told was overwritten. */
struct disabled {
	uint64_t from_ns, to_ns; /* to_ns UINT64_MAX: they still are */
	uint64_t before_ns;      /* for how long they were before that, in all */
};

struct wall {
	size_t off_cpu, on_cpu;
	struct session_times times; /* that count */
	struct hash_table threads;  /* by tid + 1 */
	uint64_t first_ns;          /* of all samples; 0: none yet */
	uint64_t unsampled_ns;      /* of threads that ended */
	struct buf disabled;        /* struct disabled, in the order of time */
	bool by_ledger;             /* of all of them; else waits do that went on then */
};

/* Does it sample the CPU? Not what counts other things, or comes with payloads. */
static bool samples_cpu(const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_SOFTWARE)
		return attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK;
	return attr->type == PERF_TYPE_HARDWARE &&
	       (attr->config == PERF_COUNT_HW_CPU_CYCLES || attr->config == PERF_COUNT_HW_REF_CPU_CYCLES);
}

static struct disabled *last_disabled(const struct wall *wall)
{
	return wall->disabled.len ? (struct disabled *)(wall->disabled.data + wall->disabled.len) - 1 : NULL;
}

/* Behind the last one, which has ended. Out of memory: buf_status() of `disabled`. */
static void add_disabled(struct wall *wall, uint64_t from_ns, uint64_t to_ns)
{
	const struct disabled *last = last_disabled(wall);
	struct disabled next = {.from_ns = from_ns, .to_ns = to_ns};

	if (last) {
		next.before_ns = last->before_ns + (last->to_ns - last->from_ns);
		next.from_ns = from_ns > last->to_ns ? from_ns : last->to_ns;
	}
	if (next.from_ns < to_ns)
		buf_put(&wall->disabled, &next, sizeof(next));
}

/* The last one that began before that time; NULL: none did. */
static const struct disabled *disabled_before(const struct wall *wall, uint64_t time_ns)
{
	const struct disabled *all = (const struct disabled *)wall->disabled.data;
	const size_t nr = partition_point(wall->disabled.len / sizeof(*all), i, all[i].from_ns < time_ns);

	return nr ? &all[nr - 1] : NULL;
}

static bool is_disabled(const struct wall *wall, uint64_t time_ns)
{
	const struct disabled *last = disabled_before(wall, time_ns);

	return last && time_ns <= last->to_ns;
}

/* For how long the events were disabled up to that time. */
static uint64_t disabled_until(const struct wall *wall, uint64_t time_ns)
{
	const struct disabled *last = disabled_before(wall, time_ns);

	if (!last)
		return 0;
	return last->before_ns + ((time_ns < last->to_ns ? time_ns : last->to_ns) - last->from_ns);
}

static int by_start(const void *a, const void *b)
{
	const struct ledger_entry *left = a, *right = b;

	return (left->from_ns > right->from_ns) - (left->from_ns < right->from_ns);
}

/* `overwrites`: the rings were such that may be overwritten. */
static int read_ledger(struct wall *wall, const struct session *session, bool overwrites)
{
	struct ledger ledger = {0};
	struct span payload;
	bool has_window = false;

	if (!session_feature(session, FEATURE_LEDGER, &payload) || ledger_decode(payload, &ledger))
		return overwrites ? -ENODATA : 0;
	if (ledger.nr_entries)
		qsort(ledger.entries, ledger.nr_entries, sizeof(*ledger.entries), by_start);
	for (size_t i = 0; i < ledger.nr_entries; i++) {
		const struct ledger_entry *entry = &ledger.entries[i];
		wall->by_ledger |= entry->cause == LEDGER_DISABLED && entry->from_ns < entry->to_ns;
		has_window |= entry->cause == LEDGER_OVERWRITTEN;
		if (entry->cause == LEDGER_DISABLED || entry->cause == LEDGER_OVERWRITTEN)
			add_disabled(wall, entry->from_ns, entry->to_ns);
	}
	ledger_fini(&ledger);
	return overwrites && !has_window ? -ENODATA : buf_status(&wall->disabled);
}

int wall_new(const struct session *session, struct wall **ret)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);
	struct wall wall = {.off_cpu = nr, .on_cpu = nr, .times = {.last_ns = UINT64_MAX}};

	(void)!session_has_later(session, &wall.times);

	for (size_t i = nr; i-- > 0;) {
		if (off_cpu_is_event(&events[i]))
			wall.off_cpu = i;
		else if (samples_cpu(&events[i].attr))
			wall.on_cpu = i;
	}
	if (wall.off_cpu == nr || wall.on_cpu == nr)
		return -EINVAL;
	int err = read_ledger(&wall, session, events[wall.off_cpu].attr.write_backward);
	struct wall *made = err ? NULL : malloc(sizeof(*made));
	if (!made) {
		buf_fini(&wall.disabled);
		return err ? err : -ENOMEM;
	}
	*made = wall;
	*ret = made;
	return 0;
}

void wall_free(struct wall *wall)
{
	if (!wall)
		return;
	for (size_t i = 0; i < wall->threads.nr_slots; i++)
		free(wall->threads.slots[i].item);
	hash_table_fini(&wall->threads);
	buf_fini(&wall->disabled);
	free(wall);
}

size_t wall_off_cpu_event(const struct wall *wall)
{
	return wall->off_cpu;
}

size_t wall_on_cpu_event(const struct wall *wall)
{
	return wall->on_cpu;
}

static void set_on(struct thread *thread, uint64_t time_ns)
{
	if (time_ns > thread->on_ns)
		thread->on_ns = time_ns;
}

/* Of one that is new it is taken that it was on the CPU from `since_ns` on. NULL: out of memory. */
static struct thread *thread_of(struct wall *wall, uint32_t tid, uint64_t since_ns)
{
	uint64_t key = (uint64_t)tid + 1;
	struct thread *thread = hash_table_find_item(&wall->threads, key);

	if (thread) {
		if (thread->stopped)
			set_on(thread, since_ns);
		thread->stopped = false;
		return thread;
	}
	thread = calloc(1, sizeof(*thread));
	if (!thread || hash_table_add(&wall->threads, key, thread)) {
		free(thread);
		return NULL;
	}
	thread->on_ns = since_ns;
	return thread;
}

/* The events are enabled at that time, of which no ledger tells. */
static void end_disabled(struct wall *wall, uint64_t time_ns)
{
	struct disabled *last = last_disabled(wall);

	if (!last || last->to_ns != UINT64_MAX)
		return;
	if (time_ns > last->from_ns)
		last->to_ns = time_ns;
	else
		wall->disabled.len -= sizeof(*last);
}

/* When the events were disabled that still are; 0: they are not. */
static uint64_t disabled_since(const struct wall *wall)
{
	const struct disabled *last = last_disabled(wall);

	return last && last->to_ns == UINT64_MAX ? last->from_ns : 0;
}

void wall_observe(struct wall *wall, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	struct task_event event;

	if (header->type != PERF_RECORD_FORK || task_event_decode(header, header, 0, &event) <= 0)
		return;
	struct hash_slot *slot = hash_table_find(&wall->threads, (uint64_t)event.tid + 1);
	if (!slot)
		return;
	struct thread *former = slot->item;
	wall->unsampled_ns += former->unsampled_ns;
	hash_table_remove(&wall->threads, slot);
	free(former);
}

/* What is left of a time on the CPU without the excess before. */
static uint64_t without_excess(struct thread *thread, uint64_t on_ns)
{
	uint64_t excess_ns = on_ns < thread->excess_ns ? on_ns : thread->excess_ns;

	thread->excess_ns -= excess_ns;
	return on_ns - excess_ns;
}

bool wall_is_later(const struct wall *wall, uint64_t time_ns)
{
	return time_ns > wall->times.last_ns;
}

/* The part of a time that counts. */
static struct session_times part_of(const struct wall *wall, uint64_t from_ns, uint64_t to_ns)
{
	const struct session_times times = wall->times;

	return (struct session_times){.first_ns = from_ns > times.first_ns ? from_ns : times.first_ns,
				      .last_ns = to_ns < times.last_ns ? to_ns : times.last_ns};
}

static uint64_t length(struct session_times times)
{
	return times.last_ns > times.first_ns ? times.last_ns - times.first_ns : 0;
}

/* How long it was on the CPU up to that time, of which nothing else tells. */
static uint64_t time_on(const struct wall *wall, struct thread *thread, uint64_t to_ns)
{
	const struct session_times on = part_of(wall, thread->on_ns, to_ns);

	if (!length(on)) /* likewise where the sample was taken while the time off the CPU began */
		return 0;
	uint64_t disabled_ns = disabled_until(wall, on.last_ns) - disabled_until(wall, on.first_ns);
	return without_excess(thread, length(on) - disabled_ns);
}

/* Leaves of a wait what counts. Is that anything? Of a sum it is not known when the times were. */
static bool cut_wait(const struct wall *wall, uint64_t end_ns, struct off_cpu_wait *wait)
{
	const uint64_t ready_ns = end_ns - wait->runnable_ns;
	const bool is_whole = end_ns - wait->ns >= wall->times.first_ns && !wall_is_later(wall, end_ns);

	if (is_whole || wait->ns > end_ns || wait->runnable_ns > wait->ns || wait->flags & OFF_CPU_SUM)
		return !wall_is_later(wall, end_ns);
	uint64_t blocked_ns = length(part_of(wall, end_ns - wait->ns, ready_ns));
	wait->runnable_ns = length(part_of(wall, ready_ns, end_ns));
	wait->ns = blocked_ns + wait->runnable_ns;
	return wait->ns;
}

int wall_take_on_cpu(struct wall *wall, const struct sample *sample, uint64_t *ret_ns)
{
	/* How long a thread had run before its first record is not known: no longer than its period tells. */
	uint64_t since_ns = sample->time - (sample->period < sample->time ? sample->period : sample->time);

	if (!wall->first_ns)
		wall->first_ns = since_ns;
	if (since_ns > disabled_since(wall)) /* else it was on its way when the events were disabled */
		end_disabled(wall, since_ns);
	struct thread *thread = thread_of(wall, sample->tid, since_ns > wall->first_ns ? since_ns : wall->first_ns);
	if (!thread)
		return -ENOMEM;
	*ret_ns = thread->unsampled_ns + time_on(wall, thread, sample->time);
	set_on(thread, sample->time);
	thread->unsampled_ns = 0;
	return *ret_ns || !(wall_is_later(wall, sample->time) || is_disabled(wall, sample->time));
}

int wall_take_off_cpu(struct wall *wall, const struct sample *sample, struct off_cpu_wait *wait)
{
	uint64_t left_ns = sample->time - (wait->ns < sample->time ? wait->ns : sample->time);

	if (!wall->first_ns)
		wall->first_ns = left_ns;
	if (sample->time > disabled_since(wall))
		end_disabled(wall, left_ns);
	struct thread *thread = thread_of(wall, sample->tid, left_ns);
	if (!thread)
		return -ENOMEM;
	if (wait->flags & OFF_CPU_SUM) { /* of many times, between which it ran */
		thread->excess_ns += wait->ns;
		thread->unsampled_ns = without_excess(thread, thread->unsampled_ns);
		return cut_wait(wall, sample->time, wait);
	}
	/* Events that sample the CPU were enabled before it was known who waits: it may have left since its sample. */
	if (wait->flags & OFF_CPU_BEGAN_EARLIER)
		set_on(thread, left_ns);
	thread->unsampled_ns += time_on(wall, thread, left_ns);
	if (wait->flags & OFF_CPU_UNKNOWN && thread->on_ns > left_ns) /* it was on the CPU by then */
		wait->ns = sample->time > thread->on_ns ? sample->time - thread->on_ns : 0;
	set_on(thread, sample->time);
	if (wait->flags & OFF_CPU_GOES_ON) {
		thread->stopped = true;
		if (!wall->by_ledger && !disabled_since(wall))
			add_disabled(wall, sample->time, UINT64_MAX);
	}
	int err = buf_status(&wall->disabled);
	return err ? err : cut_wait(wall, sample->time, wait);
}

uint64_t wall_unsampled_ns(const struct wall *wall)
{
	uint64_t ns = wall->unsampled_ns;

	for (size_t i = 0; i < wall->threads.nr_slots; i++)
		if (wall->threads.slots[i].item)
			ns += ((const struct thread *)wall->threads.slots[i].item)->unsampled_ns;
	return ns;
}
