/* SPDX-License-Identifier: MIT */
#include "cmd/report/report_wall.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "read/session.h"
#include "tasks/off_cpu.h"
#include "tasks/task_event.h"

struct thread {
	uint64_t on_ns;      /* it is on the CPU, and what came before is accounted for */
	uint64_t stopped_ns; /* as of the wall, by then */
	bool stopped;        /* it was off the CPU when the events were disabled: what came then is not known */
	uint64_t unsampled_ns;
	uint64_t excess_ns; /* of the time on the CPU so far: short waits were in it, whose sum came later */
};

struct wall {
	size_t off_cpu, on_cpu;
	struct hash_table threads; /* by tid + 1 */
	uint64_t first_ns;         /* of all samples; 0: none yet */
	uint64_t unsampled_ns;     /* of threads that ended */
	uint64_t stop_ns;          /* when the events were disabled; 0: they are not, or were never */
	uint64_t stopped_ns;       /* for how long they were, before */
};

/* Does it sample the CPU? Not what counts other things, or comes with payloads. */
static bool samples_cpu(const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_SOFTWARE)
		return attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK;
	return attr->type == PERF_TYPE_HARDWARE &&
	       (attr->config == PERF_COUNT_HW_CPU_CYCLES || attr->config == PERF_COUNT_HW_REF_CPU_CYCLES);
}

int wall_new(const struct session *session, struct wall **ret)
{
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);
	struct wall wall = {.off_cpu = nr, .on_cpu = nr};

	for (size_t i = nr; i-- > 0;) {
		if (off_cpu_is_event(&events[i]))
			wall.off_cpu = i;
		else if (samples_cpu(&events[i].attr))
			wall.on_cpu = i;
	}
	if (wall.off_cpu == nr || wall.on_cpu == nr)
		return -EINVAL;
	*ret = malloc(sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	**ret = wall;
	return 0;
}

void wall_free(struct wall *wall)
{
	if (!wall)
		return;
	for (size_t i = 0; i < wall->threads.nr_slots; i++)
		free(wall->threads.slots[i].item);
	hash_table_fini(&wall->threads);
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

static void set_on(const struct wall *wall, struct thread *thread, uint64_t time_ns)
{
	if (time_ns <= thread->on_ns)
		return;
	thread->on_ns = time_ns;
	thread->stopped_ns = wall->stopped_ns;
}

/* Of one that is new it is taken that it was on the CPU from `since_ns` on. NULL: out of memory. */
static struct thread *thread_of(struct wall *wall, uint32_t tid, uint64_t since_ns)
{
	uint64_t key = (uint64_t)tid + 1;
	struct thread *thread = hash_table_find_item(&wall->threads, key);

	if (thread) {
		if (thread->stopped)
			set_on(wall, thread, since_ns);
		thread->stopped = false;
		return thread;
	}
	thread = calloc(1, sizeof(*thread));
	if (!thread || hash_table_add(&wall->threads, key, thread)) {
		free(thread);
		return NULL;
	}
	thread->on_ns = since_ns;
	thread->stopped_ns = wall->stopped_ns;
	return thread;
}

/* The events are enabled at that time. */
static void end_stop(struct wall *wall, uint64_t time_ns)
{
	if (wall->stop_ns && time_ns > wall->stop_ns)
		wall->stopped_ns += time_ns - wall->stop_ns;
	wall->stop_ns = 0;
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

/* How long it was on the CPU up to that time, of which nothing else tells. */
static uint64_t time_on(const struct wall *wall, struct thread *thread, uint64_t to_ns)
{
	uint64_t stopped_ns = wall->stopped_ns - thread->stopped_ns;

	if (to_ns <= thread->on_ns) /* the sample was taken while the time off the CPU began */
		return 0;
	uint64_t ns = to_ns - thread->on_ns;
	return without_excess(thread, ns > stopped_ns ? ns - stopped_ns : 0);
}

int wall_take_on_cpu(struct wall *wall, const struct sample *sample, uint64_t *ret_ns)
{
	/* How long a thread had run before its first record is not known: no longer than its period tells. */
	uint64_t since_ns = sample->time - (sample->period < sample->time ? sample->period : sample->time);

	if (!wall->first_ns)
		wall->first_ns = since_ns;
	if (since_ns > wall->stop_ns) /* else it was on its way when the events were disabled */
		end_stop(wall, since_ns);
	struct thread *thread = thread_of(wall, sample->tid, since_ns > wall->first_ns ? since_ns : wall->first_ns);
	if (!thread)
		return -ENOMEM;
	*ret_ns = thread->unsampled_ns + time_on(wall, thread, sample->time);
	set_on(wall, thread, sample->time);
	thread->unsampled_ns = 0;
	return 0;
}

int wall_take_off_cpu(struct wall *wall, const struct sample *sample, const struct off_cpu_wait *wait)
{
	uint64_t left_ns = sample->time - (wait->ns < sample->time ? wait->ns : sample->time);

	if (!wall->first_ns)
		wall->first_ns = left_ns;
	if (sample->time > wall->stop_ns)
		end_stop(wall, left_ns);
	struct thread *thread = thread_of(wall, sample->tid, left_ns);
	if (!thread)
		return -ENOMEM;
	if (wait->flags & OFF_CPU_SUM) { /* of many times, between which it ran */
		thread->excess_ns += wait->ns;
		thread->unsampled_ns = without_excess(thread, thread->unsampled_ns);
		return 0;
	}
	thread->unsampled_ns += time_on(wall, thread, left_ns);
	set_on(wall, thread, sample->time);
	if (wait->flags & OFF_CPU_GOES_ON) {
		thread->stopped = true;
		wall->stop_ns = sample->time;
	}
	return 0;
}

uint64_t wall_unsampled_ns(const struct wall *wall)
{
	uint64_t ns = wall->unsampled_ns;

	for (size_t i = 0; i < wall->threads.nr_slots; i++)
		if (wall->threads.slots[i].item)
			ns += ((const struct thread *)wall->threads.slots[i].item)->unsampled_ns;
	return ns;
}
