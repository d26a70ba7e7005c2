/* SPDX-License-Identifier: MIT */
#include "record/off_cpu/off_cpu_stage.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "compress/stack_cut.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "record/off_cpu/waits.h"
#include "record/order/ordered_stage.h"
#include "record/order/ring_events.h"
#include "record/order/time_queue.h"
#include "tasks/off_cpu.h"
#include "tasks/raw_sample.h"
#include "tasks/task_event.h"

/*
 * No payload tells which task comes next, and PERF_RECORD_SWITCH of a task comes after the kernel has scheduled its
 * events. Where the one before on that CPU left so shortly before, its record is taken for the moment of the switch: in
 * between lies no more than that, and no other task that had any time.
 */
static const uint64_t direct_switch_ns = 2000;

/* ordered_record.look: of a wake-up, and of all else. */
enum { TAKE = ORDERED_WANT, TAKE_WAKE_UP };

enum { NR_RECENT = 16 };

/* By address: see off_cpu_switch(), off_cpu_all_off(). */
static char turned_on, turning_off, all_off;

/* Which task left a CPU last, and when. 0: none did. */
struct left {
	uint64_t time_ns;
	uint32_t tid;
};

/* What the id of an event tells of its records. */
struct source {
	uint32_t ring_number; /* of off_cpu_add_ring(), + 1 */
	uint32_t event;       /* its index */
};

/* What is known of a ring. */
struct ring_state {
	int cpu;                          /* of off_cpu_add_ring() */
	uint64_t came_ns;                 /* when its last record was that came */
	uint64_t nr_recorded, nr_counted; /* lost records: as its own records say, and as the kernel counts */
	uint64_t counted_ns;              /* CLOCK_MONOTONIC: when it was seen that there are nr_counted by then */
	uint64_t nr_placed;               /* so many were lost in gaps whose ends are known */
};

/* Of tasks whose end may have been lost. Each 0: not. By CLOCK_MONOTONIC: checked_ns, next_ns. */
struct end_check {
	uint64_t gap_ns, last_gap_ns; /* ends of gaps: of the first and the last one since the last check */
	uint64_t taken_ns;            /* records up to then were taken */
	uint64_t checked_ns, next_ns; /* when it was, and when it may be the next time */
	uint64_t gone_ns;             /* all that is later came after checked_ns */
};

struct off_cpu_stages {
	struct stage_maker maker;
	struct off_cpu_params params;
	struct ring_events events;
	struct raw_sample_shape switch_shape, wake_up_shape; /* of their samples */
	struct ordered_stages *ordered;
	_Atomic uint64_t full_ns; /* of streams */

	/* Under its lock: */
	struct waits *waits;
	struct buf blank;             /* a record of which nothing is known */
	struct buf copy;              /* of the one that a task took when it left the CPU */
	struct ordered_record *place; /* of the record that is taken */
	bool on;                      /* the events, as told of before the next snapshot */
	bool pending;                 /* something in `found` or `switched` may be yet to be taken */
	struct buf found;             /* struct off_cpu_task, for the next snapshot; else in the order of time */
	size_t nr_found_taken;        /* of those in that order */
	struct buf *snapshot;         /* where the waits of one go; NULL: they go to that place */
	struct buf left;              /* struct left, by CPU */
	struct time_queue switched;   /* when the events were: item is &turned_on, &turning_off or &all_off */
	struct hash_table wakers;     /* by tid, of threads and processes: those that are described */
	struct buf new_wakers;        /* uint32_t tid: of those, who are yet to be described */
	struct hash_table sources;    /* by id of an event: its struct source, as a number */
	struct {
		uint64_t id; /* 0: of none, or of a record that has none */
		struct source source;
	} recent_sources[NR_RECENT];              /* by id modulo their number: each ring has some, which take turns */
	struct buf rings;                         /* struct ring_state, by the number */
	struct buf counts_of_rings;               /* uint64_t, for count_lost() */
	bool in_doubt;                            /* of some ring not all that was counted is placed */
	struct end_check end_check;               /* for tasks that have ended */
	uint64_t nr_lost, nr_lost_in_all, end_ns; /* lost: known of so far; as the kernel counts them */
	struct off_cpu_counts counts, in_ledger;  /* so far; of those, what ledgers of finished outputs have */
};

/* waits_params.emit */
static int emit(void *ctx, struct span left, const struct off_cpu_wait *wait, const struct off_cpu_end *end)
{
	struct off_cpu_stages *stages = ctx;
	struct off_cpu_counts *counts = &stages->counts;
	const struct raw_sample_shape *shape = &stages->switch_shape;
	uint64_t *nr = wait->flags & OFF_CPU_UNKNOWN ? &counts->nr_unknown
		       : wait->flags & OFF_CPU_SUM   ? &counts->nr_short
						     : &counts->nr_waits;
	uint64_t *ns = wait->flags & OFF_CPU_UNKNOWN ? &counts->unknown_ns
		       : wait->flags & OFF_CPU_SUM   ? &counts->short_ns
						     : &counts->wait_ns;

	counts->nr_samples++;
	*nr += wait->nr_times;
	*ns += wait->ns;
	struct buf *to = stages->snapshot ? stages->snapshot : ordered_add_begin(stages->place);
	const size_t from = to->len;
	int err = left.len ? off_cpu_put(shape, left.ptr, wait, end, to) : -EBADMSG;
	if (err == -EBADMSG) /* none, or with a chain as long as records can be */
		err = off_cpu_put(shape, (const void *)stages->blank.data, wait, end, to);
	if (err || stages->snapshot)
		return err ? err : buf_status(to);
	return ordered_add_end(stages->place, from);
}

/* A number in the payload of a tracepoint, of 4 or 8 bytes. false: the payload ends before it. */
static bool read_field(struct span raw, struct tracepoint_field field, uint64_t *ret)
{
	uint32_t word;

	if (field.offset + field.bytes > raw.len || (field.bytes != sizeof(word) && field.bytes != sizeof(*ret)))
		return false;
	if (field.bytes == sizeof(*ret)) {
		memcpy(ret, (const uint8_t *)raw.ptr + field.offset, sizeof(*ret));
		return true;
	}
	memcpy(&word, (const uint8_t *)raw.ptr + field.offset, sizeof(word));
	*ret = word;
	return true;
}

/*
 * What is kept of a sample until the task runs again: of a copy of a stack only what is of the stack, or nothing, as in
 * samples of kernel threads. *ret is valid until the next call. 0 or -ENOMEM.
 */
static int shorten_left(struct off_cpu_stages *stages, const uint8_t *bytes, const struct raw_sample *sample,
			struct span *ret)
{
	const struct perf_event_header *record = (const void *)bytes;
	const size_t most = stages->params.most_stack_bytes, stack_bytes = sample->user_stack.len;

	*ret = (struct span){bytes, record->size};
	if (!sample->user_stack.ptr)
		return 0;
	const bool has_room = !most || waits_left_bytes(stages->waits) + stack_bytes <= most;
	stages->copy.len = 0;
	uint8_t *to = buf_room(&stages->copy, record->size);
	if (!to)
		return -ENOMEM;
	stages->counts.nr_stacks++;
	stages->counts.nr_no_room += !has_room;
	*ret = (struct span){to, stack_cut_sample(bytes, sample->user_stack, has_room ? stack_bytes : 0, to)};
	return 0;
}

/*
 * A sample that the task took when it left the CPU, and whose payload may say which task runs there now.
 * *ret_left_known: all is known of the one that left.
 */
static int take_switch(struct off_cpu_stages *stages, const uint8_t *bytes, bool *ret_left_known)
{
	const struct perf_event_header *record = (const void *)bytes;
	const struct event_off_cpu_fields *fields = &stages->params.fields;
	uint64_t state = 0, previous, next;
	struct raw_sample sample;

	if (!raw_sample_decode(&stages->switch_shape, record, &sample))
		return 0;
	struct waits_place place = {.time_ns = sample.time, .pid = sample.pid, .tid = sample.tid, .cpu = sample.cpu};
	/* A task that has ended has no number any more. */
	if (place.tid == UINT32_MAX && fields->previous.bytes && read_field(sample.raw, fields->previous, &previous))
		place.tid = (uint32_t)previous;
	bool has_state = fields->state.bytes && read_field(sample.raw, fields->state, &state);
	struct span left;
	int err = shorten_left(stages, bytes, &sample, &left);
	if (!err)
		err = waits_leave(stages->waits, &place, (uint32_t)state, has_state ? 0 : OFF_CPU_NO_STATE, left);
	*ret_left_known = has_state && sample.tid != UINT32_MAX;
	if (err || !fields->next.bytes || !read_field(sample.raw, fields->next, &next))
		return err;
	place.pid = UINT32_MAX;
	place.tid = (uint32_t)next;
	/* With tasks that were named: one of those, which told of itself before. Others may be in the initial state. */
	if (!stages->params.all_tasks && !waits_has(stages->waits, place.tid))
		return 0;
	return waits_run(stages->waits, &place);
}

/* Of a task that is not recorded nothing else tells its name, and what its addresses are. */
static int note_waker(struct off_cpu_stages *stages, uint32_t tid)
{
	if (!tid || tid == UINT32_MAX || waits_knows(stages->waits, tid) ||
	    hash_table_find_number(&stages->wakers, tid))
		return 0;
	buf_put(&stages->new_wakers, &tid, sizeof(tid));
	int err = buf_status(&stages->new_wakers);
	return err ? err : hash_table_add_number(&stages->wakers, tid, true);
}

/* The lock is held, and released while procfs is read. */
static int describe_wakers(void *ctx, struct buf *out)
{
	struct off_cpu_stages *stages = ctx;
	AUTO_BUF struct buf wakers = stages->new_wakers;

	if (!wakers.len)
		return 0;
	stages->new_wakers = (struct buf){0};
	ordered_stages_unlock(stages->ordered);
	int err = stages->params.describe(stages->params.ctx, (const uint32_t *)wakers.data,
					  wakers.len / sizeof(uint32_t), out);
	ordered_stages_lock(stages->ordered);
	return err;
}

static int take_wake_up(struct off_cpu_stages *stages, const uint8_t *bytes)
{
	/* Of common_flags: include/linux/trace_events.h, TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ. */
	enum { FLAGS_OFFSET = 2, IN_INTERRUPT = 0x08 | 0x10 };
	static const struct tracepoint_field common_pid = {.offset = 4, .bytes = sizeof(uint32_t)};
	struct raw_sample sample;
	uint64_t tid, by;

	if (!raw_sample_decode(&stages->wake_up_shape, (const void *)bytes, &sample) ||
	    sample.raw.len <= FLAGS_OFFSET || !read_field(sample.raw, stages->params.fields.woken, &tid) ||
	    !waits_knows(stages->waits, (uint32_t)tid))
		return 0;
	bool interrupt = ((const uint8_t *)sample.raw.ptr)[FLAGS_OFFSET] & IN_INTERRUPT;
	/* A task that has ended has no number any more: by its end it wakes those that wait for it. */
	if (sample.tid == UINT32_MAX && read_field(sample.raw, common_pid, &by)) {
		sample.tid = (uint32_t)by;
		sample.pid = sample.pid == UINT32_MAX ? sample.tid : sample.pid;
	}
	struct waits_waker waker = {
		.pid = interrupt ? 0 : sample.pid, .tid = interrupt ? 0 : sample.tid, .ips = sample.ips};
	const bool describes = stages->params.describe;
	int err = describes ? note_waker(stages, waker.pid) : 0;
	if (describes && !err && waker.tid != waker.pid)
		err = note_waker(stages, waker.tid);
	return err ? err : waits_wake(stages->waits, sample.time, (uint32_t)tid, &waker);
}

static int take_sample(struct off_cpu_stages *stages, struct ordered_record *record, bool *ret_left_known)
{
	size_t size = ((const struct perf_event_header *)record->bytes)->size;
	int err = record->look == TAKE_WAKE_UP ? take_wake_up(stages, record->bytes)
					       : take_switch(stages, record->bytes, ret_left_known);

	ordered_record_shorten(record, size, 0);
	return err;
}

/* When the switch was that led to the task which runs there by now. */
static uint64_t switch_ns(const struct off_cpu_stages *stages, const struct waits_place *place)
{
	const struct left *left = (const struct left *)stages->left.data;

	if (place->cpu >= stages->left.len / sizeof(*left) || left[place->cpu].tid == place->tid ||
	    place->time_ns - left[place->cpu].time_ns > direct_switch_ns)
		return place->time_ns;
	return left[place->cpu].time_ns;
}

static int note_left(struct off_cpu_stages *stages, const struct waits_place *place)
{
	enum { MOST_CPUS = 1 << 16 };
	const size_t bytes = (place->cpu + 1) * sizeof(struct left);

	if (place->cpu >= MOST_CPUS)
		return 0;
	if (bytes > stages->left.len && !buf_extend(&stages->left, bytes - stages->left.len))
		return -ENOMEM;
	((struct left *)stages->left.data)[place->cpu] = (struct left){.time_ns = place->time_ns, .tid = place->tid};
	return 0;
}

static void drop_switch_record(const struct off_cpu_stages *stages, struct ordered_record *record, size_t size)
{
	if (!stages->params.keeps_switch_records)
		ordered_record_shorten(record, size, 0);
}

/* PERF_RECORD_SWITCH: the task is the one of the sample_id. */
static int take_switch_record(struct off_cpu_stages *stages, struct ordered_record *record,
			      const struct waits_place *place)
{
	const struct perf_event_header *header = (const void *)record->bytes;
	bool preempted = header->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	bool out = header->misc & PERF_RECORD_MISC_SWITCH_OUT;
	struct {
		struct perf_event_header header;
		uint32_t pid, tid; /* of the other task; <linux/perf_event.h>, PERF_RECORD_SWITCH_CPU_WIDE */
	} both;
	const bool next_known = stages->params.fields.next.bytes;
	int err = 0;

	if (out) {
		err = next_known ? 0 : note_left(stages, place);
		if (!err)
			err = waits_leave(stages->waits, place, 0, preempted ? 0 : OFF_CPU_NO_STATE, (struct span){0});
	} else if (next_known) {
		err = waits_run(stages->waits, place);
	} else {
		struct waits_place in = *place;
		in.time_ns = switch_ns(stages, place);
		err = waits_run(stages->waits, &in);
	}
	/* The next task runs from here on, and what the kernel does up to its own record is not waiting. */
	if (!err && out && header->type == PERF_RECORD_SWITCH_CPU_WIDE && header->size >= sizeof(both)) {
		memcpy(&both, header, sizeof(both));
		const struct waits_place next = {
			.time_ns = place->time_ns, .pid = both.pid, .tid = both.tid, .cpu = place->cpu};
		err = waits_run(stages->waits, &next);
	}
	drop_switch_record(stages, record, header->size);
	return err;
}

static int take_task_event(struct off_cpu_stages *stages, const struct perf_event_header *header,
			   const struct waits_place *at)
{
	struct task_event event;

	if (task_event_decode(header, header, stages->events.trailer_bytes, &event) <= 0)
		return 0;
	struct waits_place place = {.time_ns = at->time_ns, .pid = event.pid, .tid = event.tid, .cpu = at->cpu};
	if (event.type == PERF_RECORD_FORK) /* of a child that is not recorded neither a switch nor its end comes */
		return stages->params.children ? waits_fork(stages->waits, &place)
					       : waits_replace(stages->waits, &place);
	/* Events of a CPU tell of its last switch; those of a task end before that. */
	return waits_exit(stages->waits, &place, stages->params.all_tasks);
}

/* Where a record comes from; ring_number 0: not known, and neither is the event. */
static struct source source_of(struct off_cpu_stages *stages, uint64_t id)
{
	typeof(stages->recent_sources[0]) *recent = &stages->recent_sources[id % NR_RECENT];

	if (recent->id != id) {
		const uint64_t number = hash_table_find_number(&stages->sources, id);
		_Static_assert(sizeof(recent->source) == sizeof(number), "it is kept as a number");
		memcpy(&recent->source, &number, sizeof(number));
		recent->id = id;
	}
	return recent->source;
}

/* Behind the last record of that ring; NULL: it is not known in which. */
static int add_gap(struct off_cpu_stages *stages, const struct ring_state *ring, uint64_t to_ns)
{
	const struct waits_gap gap = {
		.cpu = ring ? ring->cpu : -1, .from_ns = ring ? ring->came_ns : 0, .to_ns = to_ns};

	if (!stages->end_check.gap_ns)
		stages->end_check.gap_ns = to_ns;
	if (to_ns > stages->end_check.last_gap_ns)
		stages->end_check.last_gap_ns = to_ns;
	return waits_gap(stages->waits, &gap);
}

/*
 * The records of a ring come in their order, those of all rings do not. So a loss is told as soon as its record comes:
 * it began behind the last record of that ring, and waits that ended since are not taken yet.
 */
static int note_lost(struct off_cpu_stages *stages, const uint8_t *record, uint64_t time_ns, struct ring_state *ring)
{
	struct {
		struct perf_event_header header;
		uint64_t id, nr;
	} lost; /* <linux/perf_event.h>, PERF_RECORD_LOST */

	memcpy(&lost.header, record, sizeof(lost.header));
	if (lost.header.size < sizeof(lost))
		return 0;
	memcpy(&lost, record, sizeof(lost));
	if (ring && (ring->nr_recorded += lost.nr) <= ring->nr_placed)
		return 0;
	stages->nr_lost += ring ? ring->nr_recorded - ring->nr_placed : lost.nr;
	if (ring)
		ring->nr_placed = ring->nr_recorded;
	return add_gap(stages, ring, time_ns);
}

/* NULL: it is not known. */
static struct ring_state *ring_of(const struct off_cpu_stages *stages, struct source source)
{
	return source.ring_number ? (struct ring_state *)stages->rings.data + source.ring_number - 1 : NULL;
}

/* What the kernel has lost by now. */
static int count_losses(struct off_cpu_stages *stages)
{
	struct ring_state *rings = (struct ring_state *)stages->rings.data;
	const size_t nr = stages->rings.len / sizeof(*rings);

	stages->counts_of_rings.len = 0;
	uint64_t *counts = (uint64_t *)buf_extend(&stages->counts_of_rings, nr * sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	stages->params.count_lost(stages->params.ctx, counts);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < nr; i++) {
		if (counts[i] <= rings[i].nr_counted)
			continue;
		rings[i].nr_counted = counts[i];
		rings[i].counted_ns = now_ns;
		stages->in_doubt = true;
	}
	return 0;
}

/*
 * A ring that has become quiet tells of what it has lost long after waits that ended since are taken, or never. What
 * was lost by the time of counting lies between its last record and what all rings have by that time.
 */
static int place_losses(struct off_cpu_stages *stages, uint64_t complete_ns, uint64_t horizon_ns)
{
	struct ring_state *rings = (struct ring_state *)stages->rings.data;
	int err = 0;

	stages->in_doubt = false;
	for (size_t i = 0; i < stages->rings.len / sizeof(*rings) && !err; i++) {
		struct ring_state *ring = &rings[i];
		if (ring->nr_counted <= ring->nr_placed)
			continue;
		err = add_gap(stages, ring, horizon_ns);
		if (complete_ns < ring->counted_ns) {
			stages->in_doubt = true;
			continue;
		}
		stages->nr_lost += ring->nr_counted - ring->nr_placed;
		ring->nr_placed = ring->nr_counted;
	}
	return err;
}

/*
 * A task that has ended when it is asked for has no records later than that: if none came by the time when all those
 * have come, they were lost.
 */
static void find_gone(struct off_cpu_stages *stages, uint64_t complete_ns, uint64_t horizon_ns)
{
	enum { INTERVAL_NS = 100000000 }; /* of very many tasks it takes milliseconds */
	struct end_check *check = &stages->end_check;

	if (check->checked_ns && check->checked_ns <= complete_ns) {
		check->gone_ns = horizon_ns;
		check->checked_ns = 0;
	}
	bool is_due = check->gap_ns && check->gap_ns <= check->taken_ns && !check->checked_ns && !check->gone_ns;
	check->taken_ns = horizon_ns;
	const uint64_t now_ns = is_due ? clock_ns(CLOCK_MONOTONIC) : 0;
	if (!is_due || now_ns < check->next_ns)
		return;
	check->gap_ns = check->last_gap_ns > check->gap_ns ? check->last_gap_ns : 0;
	check->next_ns = now_ns + INTERVAL_NS;
	bool found = waits_find_gone(stages->waits, stages->params.has_ended, stages->params.ctx);
	check->checked_ns = found ? now_ns : 0;
}

static int before_take(void *ctx, uint64_t complete_ns, uint64_t horizon_ns)
{
	struct off_cpu_stages *stages = ctx;
	const uint64_t full_ns = atomic_load(&stages->full_ns);
	int err = 0;

	if (complete_ns == UINT64_MAX) /* all_came() */
		return 0;
	if (full_ns && full_ns <= complete_ns) {
		atomic_store(&stages->full_ns, 0);
		err = stages->params.count_lost ? count_losses(stages) : 0;
	}
	if (!err && stages->in_doubt)
		err = place_losses(stages, complete_ns, horizon_ns);
	if (stages->params.has_ended)
		find_gone(stages, complete_ns, horizon_ns);
	return err;
}

static void take_found(struct off_cpu_stages *stages, const struct off_cpu_task *task)
{
	if (task->is_target || waits_is_child(stages->waits, task->tid))
		waits_found(stages->waits, task->tid, task->state, task->time_ns);
}

/* In the order of time: a fork that comes later in the rings may be of before. */
static void take_found_until(struct off_cpu_stages *stages, uint64_t time_ns)
{
	const struct off_cpu_task *found = (const struct off_cpu_task *)stages->found.data;
	const size_t nr = stages->found.len / sizeof(*found);
	size_t *taken = &stages->nr_found_taken;

	while (*taken < nr && found[*taken].time_ns <= time_ns)
		take_found(stages, &found[(*taken)++]);
	if (*taken && *taken == nr)
		stages->found.len = *taken = 0;
}

/* The events were switched before that time. */
static int switch_until(struct off_cpu_stages *stages, uint64_t time_ns)
{
	const struct time_entry *first;
	int err = 0;

	while (!err && (first = time_queue_first(&stages->switched)) && first->time_ns <= time_ns) {
		stages->on = first->item == &turned_on;
		if (!stages->params.in_snapshots)
			take_found_until(stages, first->time_ns);
		if (stages->on)
			waits_start(stages->waits, first->time_ns);
		else if (first->item == &turning_off)
			err = waits_stop(stages->waits, first->time_ns);
		else
			waits_all_stopped(stages->waits);
		time_queue_drop_first(&stages->switched);
	}
	if (!stages->params.in_snapshots)
		take_found_until(stages, time_ns);
	stages->pending = stages->found.len || time_queue_first(&stages->switched);
	return err;
}

static int take_other(struct off_cpu_stages *stages, struct ordered_record *record,
		      const struct perf_event_header *header)
{
	struct ring_place ran;

	if (!ring_events_place(&stages->events, record->bytes, header, &ran))
		return 0;
	const struct waits_place place = {.time_ns = ring_events_time(&stages->events, record->bytes, header),
					  .pid = ran.pid,
					  .tid = ran.tid,
					  .cpu = ran.cpu};
	switch (header->type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE: return take_switch_record(stages, record, &place);
	default: return take_task_event(stages, (const void *)record->bytes, &place);
	}
}

/* Switches and wake-ups that were turned on or off, and tasks that have ended, before the record. */
static int take_before(struct off_cpu_stages *stages, const struct ordered_record *record)
{
	int err = stages->pending ? switch_until(stages, record->time_ns) : 0;

	if (!err && stages->end_check.gone_ns && record->time_ns > stages->end_check.gone_ns) {
		stages->end_check.gone_ns = 0;
		err = waits_end_gone(stages->waits, record->time_ns);
	}
	return err;
}

/* A sample, with the SWITCH records of join_switch_records(); or one other record. */
static int take(void *ctx, struct ordered_record *record)
{
	struct off_cpu_stages *stages = ctx;
	const uint8_t *const end = record->bytes + record->len;
	bool left_known = false; /* a task left the CPU: its SWITCH record tells no more */

	stages->place = record;
	int err = take_before(stages, record);
	while (!err && record->bytes < end) {
		const struct perf_event_header header = *(const struct perf_event_header *)record->bytes;
		if (header.type == PERF_RECORD_SAMPLE)
			err = take_sample(stages, record, &left_known);
		else if (left_known && header.type == PERF_RECORD_SWITCH && header.misc & PERF_RECORD_MISC_SWITCH_OUT)
			drop_switch_record(stages, record, header.size);
		else
			err = take_other(stages, record, &header);
		record->bytes += header.size;
	}
	return err;
}

/* ORDERED_PASS: a sample of another event. */
static int look_at_sample(const struct off_cpu_stages *stages, const uint8_t *sample, size_t size, struct source source)
{
	size_t event = source.ring_number ? source.event : ring_events_index(&stages->events, sample, size);

	return event == stages->params.switches ? TAKE : event == stages->params.wake_ups ? TAKE_WAKE_UP : ORDERED_PASS;
}

/* A SWITCH record that belongs to the sample of a switch. */
struct switch_record {
	uint64_t id; /* of the event of both */
	uint32_t tid;
	bool out, names_next; /* names_next: it may be one that tells which task runs next */
};

/* The bytes of that record if the bytes behind others begin with it, and then its time, which is not before theirs. */
static size_t switch_record_bytes(const struct off_cpu_stages *stages, struct span behind,
				  const struct switch_record *wanted, uint64_t *ret_time_ns)
{
	const struct perf_event_header *header = behind.ptr;
	struct ring_place place;

	if (behind.len < sizeof(*header) || header->size < sizeof(*header) || header->size > behind.len)
		return 0;
	if (header->type != PERF_RECORD_SWITCH && !(header->type == PERF_RECORD_SWITCH_CPU_WIDE && wanted->names_next))
		return 0;
	if (!!(header->misc & PERF_RECORD_MISC_SWITCH_OUT) != wanted->out ||
	    !ring_events_place(&stages->events, behind.ptr, header, &place) || place.tid != wanted->tid)
		return 0;
	const struct ring_record seen = ring_events_look(&stages->events, behind.ptr, header);
	if (seen.id != wanted->id || seen.time_ns < *ret_time_ns)
		return 0;
	*ret_time_ns = seen.time_ns;
	return header->size;
}

/*
 * Behind the sample of a switch come the SWITCH records of the task that leaves and of the next one, where that is
 * recorded. They tell little more than the sample and are taken with it: to put each in the order of time takes longer
 * than to take it. Not one that is the first to tell that a task runs, and so ends its wait.
 */
static void join_switch_records(const struct off_cpu_stages *stages, struct span records, uint64_t id,
				struct ordered_seen *ret)
{
	const struct tracepoint_field field = stages->params.fields.next;
	const size_t tid_offset = stages->switch_shape.tid + sizeof(uint32_t);
	const uint8_t *sample = records.ptr;
	struct switch_record left = {.id = id, .out = true};
	uint64_t next;

	if (!id || !field.bytes || !stages->switch_shape.tid ||
	    !read_field(raw_sample_payload(&stages->switch_shape, records.ptr), field, &next))
		return;
	memcpy(&left.tid, sample + tid_offset, sizeof(left.tid));
	left.names_next = stages->params.all_tasks || waits_has(stages->waits, (uint32_t)next);
	ret->len += switch_record_bytes(stages, (struct span){sample + ret->len, records.len - ret->len}, &left,
					&ret->last_ns);
	if (!left.names_next)
		return;
	const struct switch_record runs = {.id = id, .tid = (uint32_t)next, .names_next = true};
	ret->len += switch_record_bytes(stages, (struct span){sample + ret->len, records.len - ret->len}, &runs,
					&ret->last_ns);
}

static int look_at(void *ctx, struct span records, const struct perf_event_header *header, struct ordered_seen *ret)
{
	struct off_cpu_stages *stages = ctx;
	const struct ring_record seen = ring_events_look(&stages->events, records.ptr, header);
	const struct source source = source_of(stages, seen.id);
	struct ring_state *ring = ring_of(stages, source);
	int look = ORDERED_PASS;

	ret->time_ns = ret->last_ns = seen.time_ns;
	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		look = look_at_sample(stages, records.ptr, header->size, source);
		if (look == TAKE)
			join_switch_records(stages, records, seen.id, ret);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: look = TAKE; break;
	case PERF_RECORD_LOST:
		look = note_lost(stages, records.ptr, seen.time_ns, ring);
		if (look < 0)
			return look;
		break;
	default: break;
	}
	if (ring && ret->last_ns)
		ring->came_ns = ret->last_ns;
	return look;
}

/* The order of time stands above memory: a copy is taken in its turn. What would be removed then, is now. */
static bool give_up(void *ctx, struct ordered_record *record)
{
	const struct off_cpu_stages *stages = ctx;

	for (const uint8_t *end = record->bytes + record->len; record->bytes < end;) {
		const struct perf_event_header header = *(const struct perf_event_header *)record->bytes;
		const bool is_switch = header.type == PERF_RECORD_SWITCH || header.type == PERF_RECORD_SWITCH_CPU_WIDE;
		if (header.type == PERF_RECORD_SAMPLE || (is_switch && !stages->params.keeps_switch_records))
			ordered_record_shorten(record, header.size, 0);
		record->bytes += header.size;
	}
	return true;
}

/*
 * Where no record came after those that were lost last. Without the counts of rings it is not known in which, and from
 * when on.
 */
static int all_came(void *ctx)
{
	struct off_cpu_stages *stages = ctx;
	int err = place_losses(stages, UINT64_MAX, stages->end_ns);

	return err || stages->nr_lost_in_all <= stages->nr_lost ? err : add_gap(stages, NULL, stages->end_ns);
}

static int end(void *ctx, struct ordered_record *place, bool last)
{
	struct off_cpu_stages *stages = ctx;

	stages->place = place;
	if (!stages->end_ns) /* the outputs that follow, whose records come behind these, describe them once more */
		hash_table_clear(&stages->wakers);
	if (!last)
		return 0;
	int err = switch_until(stages, stages->end_ns);
	return err ? err : waits_stop(stages->waits, stages->end_ns);
}

static const struct ordered_ops ops = {
	.name = "off-cpu",
	.look_at = look_at,
	.take = take,
	.give_up = give_up,
	.before_take = before_take,
	.before_pass = describe_wakers,
	.all_came = all_came,
	.end = end,
};

static int make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret)
{
	if (((struct off_cpu_stages *)maker)->params.in_snapshots) {
		*ret = NULL;
		return 0;
	}
	return ordered_stages_make(((struct off_cpu_stages *)maker)->ordered, output, ret);
}

/* Which tasks there were. */
static int take_initial_state(struct stage_maker *maker, struct span records)
{
	struct off_cpu_stages *stages = (struct off_cpu_stages *)maker;
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;
	int err = 0;

	for (size_t at = 0; at < records.len && !err; at += header.size) {
		struct task_event event;
		if (records.len - at < sizeof(header))
			return -EBADMSG;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at)
			return -EBADMSG;
		if (header.type == PERF_RECORD_COMM &&
		    task_event_decode(&header, bytes + at, stages->events.trailer_bytes, &event) > 0)
			err = waits_know(stages->waits, event.pid, event.tid);
	}
	return err;
}

/* Sums, for `report --loss`. */
static int account(struct stage_maker *maker, struct ledger *ledger)
{
	struct off_cpu_stages *stages = (struct off_cpu_stages *)maker;
	const struct off_cpu_counts *now = &stages->counts, *before = &stages->in_ledger;
	int err = 0;

	ordered_stages_lock(stages->ordered);
	const struct {
		const char *name;
		uint64_t value;
	} costs[] = {
		{"waits", now->nr_waits - before->nr_waits},
		{"wait ns", now->wait_ns - before->wait_ns},
		{"short waits", now->nr_short - before->nr_short},
		{"short wait ns", now->short_ns - before->short_ns},
		{"unknown waits", now->nr_unknown - before->nr_unknown},
		{"unknown wait ns", now->unknown_ns - before->unknown_ns},
		{"waits without stack", now->nr_no_room - before->nr_no_room},
	};
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]) && !err; i++)
		if (costs[i].value)
			err = ledger_add_cost(ledger, costs[i].name, costs[i].value);
	stages->in_ledger = *now;
	ordered_stages_unlock(stages->ordered);
	return err;
}

static struct waits *make_waits(struct off_cpu_stages *stages)
{
	const struct waits_params params = {.min_ns = stages->params.min_ns,
					    .forks_known = stages->params.in_snapshots,
					    .states_known = stages->params.fields.state.bytes,
					    .emit = emit,
					    .ctx = stages};
	return waits_new(&params);
}

int off_cpu_stages_new(const struct off_cpu_params *params, struct off_cpu_stages **ret)
{
	struct off_cpu_stages *stages = calloc(1, sizeof(*stages));
	const struct event_desc *event = &params->events[params->switches];

	if (!stages)
		return -ENOMEM;
	stages->maker = (struct stage_maker){
		.make = make, .initial_state = params->in_snapshots ? NULL : take_initial_state, .account = account};
	stages->params = *params;
	stages->switch_shape = raw_sample_shape(&event->attr);
	if (params->wake_ups < params->nr_events)
		stages->wake_up_shape = raw_sample_shape(&params->events[params->wake_ups].attr);
	stages->waits = make_waits(stages);
	stages->on = !params->starts_later;
	off_cpu_put_blank(&event->attr, event->nr_ids ? event->ids[0] : 0, &stages->blank);
	int err = ring_events_init(&stages->events, params->events, params->nr_events);
	if (stages->waits && stages->on && !params->in_snapshots) /* each snapshot has its own start */
		waits_start(stages->waits, 0);
	if (!err)
		err = stages->waits && !stages->blank.failed ? ordered_stages_new(&ops, stages, &stages->ordered)
							     : -ENOMEM;
	if (err) {
		off_cpu_stages_free(stages);
		return err;
	}
	*ret = stages;
	return 0;
}

int off_cpu_add_ring(struct off_cpu_stages *stages, uint64_t event_id, size_t ring, int cpu)
{
	const size_t bytes = (ring + 1) * sizeof(struct ring_state);

	if (bytes > stages->rings.len && !buf_extend(&stages->rings, bytes - stages->rings.len))
		return -ENOMEM;
	((struct ring_state *)stages->rings.data)[ring].cpu = cpu;
	const uint64_t event_number = hash_table_find_number(&stages->events.ids, event_id);
	const struct source source = {.ring_number = (uint32_t)ring + 1,
				      .event = event_number ? (uint32_t)event_number - 1 : 0};
	uint64_t number;
	memcpy(&number, &source, sizeof(number));
	return hash_table_add_number(&stages->sources, event_id, number);
}

_Atomic uint64_t *off_cpu_full_ns(struct off_cpu_stages *stages)
{
	return &stages->full_ns;
}

void off_cpu_stages_free(struct off_cpu_stages *stages)
{
	if (!stages)
		return;
	ordered_stages_free(stages->ordered);
	waits_free(stages->waits);
	ring_events_fini(&stages->events);
	time_queue_fini(&stages->switched);
	hash_table_fini(&stages->wakers);
	buf_fini(&stages->new_wakers);
	hash_table_fini(&stages->sources);
	buf_fini(&stages->rings);
	buf_fini(&stages->counts_of_rings);
	buf_fini(&stages->found);
	buf_fini(&stages->left);
	buf_fini(&stages->blank);
	buf_fini(&stages->copy);
	free(stages);
}

struct stage_maker *off_cpu_maker(struct off_cpu_stages *stages)
{
	return &stages->maker;
}

static void note_switched(struct off_cpu_stages *stages, void *how, uint64_t now_ns)
{
	const struct time_entry entry = {.time_ns = now_ns, .item = how};

	if (!stages)
		return;
	ordered_stages_lock(stages->ordered);
	(void)!time_queue_put(&stages->switched, &entry); /* out of memory: the recording is about to end */
	stages->pending = true;
	ordered_stages_unlock(stages->ordered);
}

void off_cpu_switch(struct off_cpu_stages *stages, bool on, uint64_t now_ns)
{
	note_switched(stages, on ? &turned_on : &turning_off, now_ns);
}

void off_cpu_all_off(struct off_cpu_stages *stages, uint64_t now_ns)
{
	note_switched(stages, &all_off, now_ns);
}

int off_cpu_found(struct off_cpu_stages *stages, const struct off_cpu_task *task)
{
	ordered_stages_lock(stages->ordered);
	bool is_known = task->is_target && !stages->params.in_snapshots;
	int err = is_known ? waits_know(stages->waits, task->pid, task->tid) : 0;
	if (!err) {
		buf_put(&stages->found, task, sizeof(*task));
		stages->pending = true;
		err = buf_status(&stages->found);
	}
	ordered_stages_unlock(stages->ordered);
	return err;
}

void off_cpu_list_unseen(struct off_cpu_stages *stages, struct buf *ret_tids)
{
	if (stages->params.all_tasks || stages->params.in_snapshots)
		return;
	ordered_stages_lock(stages->ordered);
	waits_list_unseen(stages->waits, ret_tids);
	ordered_stages_unlock(stages->ordered);
}

/* Those of the window; later ones are of the next. */
static int take_all_found(struct off_cpu_stages *stages, struct off_cpu_window window)
{
	struct buf *found = &stages->found;
	struct off_cpu_task task;
	size_t kept = 0;
	int err = 0;

	for (size_t at = 0; at < found->len && !err; at += sizeof(task)) {
		memcpy(&task, found->data + at, sizeof(task));
		if (task.time_ns > window.to_ns) {
			memcpy(found->data + kept, &task, sizeof(task));
			kept += sizeof(task);
		} else if (task.time_ns >= window.from_ns) {
			err = waits_know(stages->waits, task.pid, task.tid);
			take_found(stages, &task);
		}
	}
	found->len = kept;
	return err;
}

/*
 * Of a record that the events of --off-cpu asked for, and that takes no place in the file, as look_at(); of another
 * one ORDERED_PASS. Of switches and tasks others may have asked as well: the same ones, in another ring or in this one.
 */
static int look_at_own(struct off_cpu_stages *stages, const uint8_t *bytes, const struct ring_record *seen)
{
	const struct perf_event_header *record = (const void *)bytes;

	switch (record->type) {
	case PERF_RECORD_SAMPLE: return look_at_sample(stages, bytes, record->size, source_of(stages, seen->id));
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: break;
	default: return ORDERED_PASS;
	}
	return hash_table_find_number(&stages->events.ids, seen->id) == stages->params.switches + 1 ? TAKE
												    : ORDERED_PASS;
}

/* Takes what tells of waits, in the order of time, and appends to `kept` what stays. */
static int take_snapshot(struct off_cpu_stages *stages, struct off_cpu_window window, const struct buf *records,
			 struct buf *kept)
{
	struct time_queue queue = {0};
	int err = 0;

	for (size_t at = 0; at < records->len && !err; at += ((struct perf_event_header *)(records->data + at))->size) {
		const struct perf_event_header *record = (const void *)(records->data + at);
		const struct ring_record seen = ring_events_look(&stages->events, records->data + at, record);
		const int look = look_at_own(stages, records->data + at, &seen);
		const struct time_entry entry = {
			.time_ns = seen.time_ns,
			.item = records->data + at,
			.look = (uint32_t)look,
			.len = record->size,
		};
		if (look == ORDERED_PASS)
			buf_put(kept, record, record->size);
		else if (seen.time_ns >= window.from_ns && seen.time_ns <= window.to_ns)
			err = time_queue_put(&queue, &entry);
	}
	const struct time_entry *entries;
	for (size_t nr; !err && (nr = time_queue_first_run(&queue, UINT64_MAX, &entries));) {
		for (size_t i = 0; i < nr && !err; i++) {
			struct ordered_record record = {.time_ns = entries[i].time_ns,
							.bytes = entries[i].item,
							.len = entries[i].len,
							.look = entries[i].look};
			err = take(stages, &record);
		}
		time_queue_drop_run(&queue, nr);
	}
	time_queue_fini(&queue);
	return err;
}

/* What was told of the switching before a snapshot: on or off. */
static void switch_before(struct off_cpu_stages *stages, uint64_t from_ns)
{
	const struct time_entry *first;

	while ((first = time_queue_first(&stages->switched)) && first->time_ns <= from_ns) {
		stages->on = first->item == &turned_on;
		time_queue_drop_first(&stages->switched);
	}
	if (stages->on)
		waits_start(stages->waits, from_ns);
}

int off_cpu_snapshot(struct off_cpu_stages *stages, struct off_cpu_window *window, struct buf *records)
{
	AUTO_BUF struct buf kept = {0};

	if (!stages || !stages->params.in_snapshots)
		return 0;
	ordered_stages_lock(stages->ordered);
	if (stages->end_ns && window->to_ns > stages->end_ns)
		window->to_ns = stages->end_ns;
	stages->snapshot = &kept;
	hash_table_clear(&stages->wakers);
	switch_before(stages, window->from_ns);
	int err = take_all_found(stages, *window);
	err = err ? err : take_snapshot(stages, *window, records, &kept);
	err = err ? err : switch_until(stages, window->to_ns);
	err = err ? err : waits_stop(stages->waits, window->to_ns);
	/* The next one knows nothing of what was between the two. */
	waits_free(stages->waits);
	stages->waits = make_waits(stages);
	stages->snapshot = NULL;
	err = err ? err : describe_wakers(stages, &kept);
	if (!err)
		err = stages->waits ? buf_status(&kept) : -ENOMEM;
	ordered_stages_unlock(stages->ordered);
	buf_fini(records);
	*records = kept;
	kept = (struct buf){0};
	return err ? err : 1;
}

void off_cpu_stop(struct off_cpu_stages *stages, uint64_t end_ns, uint64_t nr_lost)
{
	if (!stages)
		return;
	ordered_stages_lock(stages->ordered);
	stages->end_ns = end_ns;
	stages->nr_lost_in_all = nr_lost;
	/* Out of memory: it is told where one can be, all of the time. */
	if (stages->params.count_lost && nr_lost > stages->nr_lost)
		(void)!count_losses(stages);
	ordered_stages_unlock(stages->ordered);
	ordered_stages_last_outputs(stages->ordered);
}

struct off_cpu_counts off_cpu_counts(struct off_cpu_stages *stages)
{
	struct off_cpu_counts counts = {0};

	if (!stages)
		return counts;
	ordered_stages_lock(stages->ordered);
	counts = stages->counts;
	ordered_stages_unlock(stages->ordered);
	return counts;
}
