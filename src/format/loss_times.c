/* SPDX-License-Identifier: MIT */
#include "format/loss_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/record.h"
#include "format/sample.h"

static int by_id(const void *a, const void *b)
{
	const struct loss_id *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

/* Rings are told apart by what fills them: samples, or only what the tracking event of a ring of its own tells. */
static bool samples(const struct loss_times *times, const struct loss_id *id)
{
	const struct perf_event_attr *attr = &times->events[id->event].attr;

	return !(attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY);
}

static int by_ring(const void *a, const void *b, void *arg)
{
	const struct loss_times *times = arg;
	const struct loss_id *left = &times->ids[*(const size_t *)a], *right = &times->ids[*(const size_t *)b];

	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	if (left->tid != right->tid)
		return left->tid < right->tid ? -1 : 1;
	return (int)samples(times, left) - (int)samples(times, right);
}

static bool same_place(const struct loss_id *a, const struct loss_id *b)
{
	return a->cpu == b->cpu && a->tid == b->tid;
}

/* Each ring is known by one of its ids. */
static int find_rings(struct loss_times *times)
{
	size_t *order = calloc(times->nr_ids + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < times->nr_ids; i++)
		order[i] = i;
	qsort_r(order, times->nr_ids, sizeof(*order), by_ring, times);
	times->nr_places = 0;
	for (size_t i = 0; i < times->nr_ids; i++) {
		struct loss_id *id = &times->ids[order[i]], *before = i ? &times->ids[order[i - 1]] : NULL;
		id->ring = before && !by_ring(&order[i - 1], &order[i], times) ? before->ring : order[i];
		times->nr_places += !before || !same_place(before, id);
	}
	free(order);
	return 0;
}

/* Where a sample of the one event of a file without ids tells its CPU: perf_event_open(2) for the order of the fields. */
static void find_cpu(struct loss_times *times)
{
	uint64_t type = times->events[0].attr.sample_type;
	const uint64_t before = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_STREAM_ID;

	times->cpu_offset = -1;
	if (type & PERF_SAMPLE_CPU)
		times->cpu_offset = (int)(sizeof(struct perf_event_header) + 8 * (size_t)__builtin_popcountll(type & before));
	times->cpu_distance = times->events[0].attr.sample_id_all && type & PERF_SAMPLE_CPU ? 8 : -1;
}

int loss_times_init(struct loss_times *times, const struct event_desc *events, size_t nr_events)
{
	size_t nr = 0;

	*times = (struct loss_times){.events = events, .nr_events = nr_events, .id_offset = -1, .id_distance = -1};
	if (!nr_events)
		return 0;
	times->id_offset = sample_id_offset(&events[0].attr);
	times->id_distance = sample_id_distance(&events[0].attr);
	for (size_t i = 0; i < nr_events; i++)
		nr += events[i].nr_ids;
	times->ids = calloc(nr + 1, sizeof(*times->ids)); /* the last: of records without an id */
	if (!times->ids)
		return -ENOMEM;
	for (size_t i = 0; i < nr_events; i++)
		for (size_t k = 0; k < events[i].nr_ids; k++)
			times->ids[times->nr_ids++] = (struct loss_id){
				.id = events[i].ids[k], .event = (uint32_t)i, .cpu = -1, .tid = -1};
	qsort(times->ids, times->nr_ids, sizeof(*times->ids), by_id);
	times->ids[times->nr_ids] = (struct loss_id){.cpu = -1, .tid = -1, .ring = times->nr_ids};
	find_cpu(times);
	return 0;
}

void loss_times_fini(struct loss_times *times)
{
	free(times->ids);
	free(times->gaps);
	*times = (struct loss_times){0};
}

static struct loss_id *find_id(struct loss_times *times, uint64_t id)
{
	if (times->last < times->nr_ids && times->ids[times->last].id == id)
		return &times->ids[times->last];
	struct loss_id key = {.id = id};
	struct loss_id *found =
		times->nr_ids ? bsearch(&key, times->ids, times->nr_ids, sizeof(key), by_id) : NULL;
	if (found)
		times->last = (size_t)(found - times->ids);
	return found;
}

static uint64_t u64_at(const uint8_t *record, size_t at, size_t size)
{
	uint64_t value = 0;

	if (at + sizeof(value) <= size)
		memcpy(&value, record + at, sizeof(value));
	return value;
}

/* A file of one event has no ids in its records: the CPU tells which it would be, if that is there. */
static struct loss_id *id_of_cpu(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	bool sample = header->type == PERF_RECORD_SAMPLE;
	int known = sample ? times->cpu_offset : times->cpu_distance;
	struct loss_id *unknown = &times->ids[times->nr_ids];

	if (times->nr_ids == 1)
		return times->ids;
	/* LOST_SAMPLES is made by recorders, who leave the CPU of its trailer 0. */
	if (known < 0 || (size_t)known + sizeof(uint64_t) > header->size || header->type == PERF_RECORD_LOST_SAMPLES)
		return unknown;
	int32_t cpu = (int32_t)u64_at(record, sample ? (size_t)known : header->size - (size_t)known, header->size);
	if (times->last < times->nr_ids && times->ids[times->last].cpu == cpu)
		return &times->ids[times->last];
	for (size_t i = 0; i < times->nr_ids; i++) {
		if (times->ids[i].cpu == cpu) {
			times->last = i;
			return &times->ids[i];
		}
	}
	return unknown;
}

/* Which event's it is. NULL: nobody's. */
static struct loss_id *id_of(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	bool sample = header->type == PERF_RECORD_SAMPLE;
	int known = sample ? times->id_offset : times->id_distance;

	if (known < 0)
		return id_of_cpu(times, record, header);
	if ((size_t)known > header->size)
		return NULL;
	return find_id(times, u64_at(record, sample ? (size_t)known : header->size - (size_t)known, header->size));
}

static uint64_t time_of(const struct loss_times *times, const struct loss_id *id, const uint8_t *record,
			const struct perf_event_header *header)
{
	const struct perf_event_attr *attr = &times->events[id->event].attr;
	bool sample = header->type == PERF_RECORD_SAMPLE;
	int known = sample ? sample_time_offset(attr) : sample_time_distance(attr);

	if (known < 0 || (size_t)known > header->size)
		return 0;
	return u64_at(record, sample ? (size_t)known : header->size - (size_t)known, header->size);
}

/* ID_INDEX: nr, then {id, index, cpu, tid} of 64 bits each. */
static int take_index(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	enum { FRONT = 16, ENTRY = 32 };
	uint64_t nr = u64_at(record, sizeof(*header), header->size);

	for (uint64_t i = 0; i < nr && FRONT + (i + 1) * ENTRY <= header->size; i++) {
		size_t at = FRONT + (size_t)i * ENTRY;
		struct loss_id *id = find_id(times, u64_at(record, at, header->size));
		if (!id)
			continue;
		id->cpu = (int32_t)u64_at(record, at + 16, header->size);
		id->tid = (int32_t)u64_at(record, at + 24, header->size);
		if (id->cpu >= 0)
			id->tid = -1; /* the ring is that of the CPU */
	}
	return find_rings(times);
}

static int add_gap(struct loss_times *times, const struct loss_id *id, enum ledger_cause cause, uint64_t from_ns,
		   uint64_t to_ns, uint64_t count)
{
	if (times->nr_gaps == times->gaps_room) {
		size_t room = times->gaps_room ? times->gaps_room * 2 : 64;
		struct ledger_entry *grown = reallocarray(times->gaps, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		times->gaps = grown;
		times->gaps_room = room;
	}
	times->gaps[times->nr_gaps++] = (struct ledger_entry){
		.event = cause == LEDGER_THROTTLED ? id->event : (uint32_t)LEDGER_NO_EVENT,
		.cause = cause,
		.cpu = id->cpu,
		.tid = id->tid,
		.from_ns = from_ns && from_ns < to_ns ? from_ns : to_ns,
		.to_ns = to_ns,
		.count = count,
	};
	return 0;
}

static int take_lost(struct loss_times *times, struct loss_id *id, const uint8_t *record,
		     const struct perf_event_header *header, uint64_t time_ns)
{
	uint64_t count = u64_at(record, sizeof(*header) + sizeof(uint64_t), header->size);
	struct loss_id *ring = &times->ids[id->ring];
	uint64_t from_ns = ring->last_ns;
	/* A ring that is overwritten is never full. */
	bool overwritten = times->events[id->event].attr.write_backward;
	enum ledger_cause cause = overwritten ? LEDGER_PAUSED : LEDGER_RING_FULL;

	id->lost_records += count;
	if (time_ns)
		ring->last_ns = time_ns;
	return time_ns ? add_gap(times, id, cause, from_ns, time_ns, count) : 0;
}

/* The times of both stand in their bodies: {time, id, stream_id}. */
static int take_throttle(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	uint64_t time_ns = u64_at(record, sizeof(*header), header->size);
	struct loss_id *id = find_id(times, u64_at(record, sizeof(*header) + sizeof(uint64_t), header->size));
	uint64_t from_ns;

	if (!id || !time_ns)
		return 0;
	from_ns = id->throttled_from_ns;
	id->throttled_from_ns = header->type == PERF_RECORD_THROTTLE ? (from_ns ? from_ns : time_ns) : 0;
	if (header->type == PERF_RECORD_THROTTLE || !from_ns)
		return 0;
	return add_gap(times, id, LEDGER_THROTTLED, from_ns, time_ns, 0);
}

void loss_times_reach(struct loss_times *times, uint64_t first_ns, uint64_t last_ns)
{
	if (first_ns && (!times->first_ns || first_ns < times->first_ns))
		times->first_ns = first_ns;
	if (last_ns > times->last_ns)
		times->last_ns = last_ns;
}

int loss_times_take(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header)
{
	uint32_t type = header->type;

	if (!times->ids)
		return 0;
	if (type == RECORD_ID_INDEX)
		return take_index(times, record, header);
	if (type == PERF_RECORD_THROTTLE || type == PERF_RECORD_UNTHROTTLE)
		return take_throttle(times, record, header);
	if (type != PERF_RECORD_SAMPLE && type != PERF_RECORD_LOST && type != PERF_RECORD_LOST_SAMPLES)
		return 0;
	struct loss_id *id = id_of(times, record, header);
	if (!id)
		return 0;
	if (type == PERF_RECORD_LOST_SAMPLES) {
		id->lost_samples += u64_at(record, sizeof(*header), header->size);
		return 0;
	}
	uint64_t time_ns = time_of(times, id, record, header);
	if (type == PERF_RECORD_LOST)
		return take_lost(times, id, record, header, time_ns);
	id->captured++;
	if (!time_ns)
		return 0;
	times->ids[id->ring].last_ns = time_ns;
	loss_times_reach(times, time_ns, time_ns);
	return 0;
}

int loss_times_end(struct loss_times *times, uint64_t end_ns)
{
	int err = 0;

	for (size_t i = 0; times->ids && i < times->nr_ids && !err; i++) {
		struct loss_id *id = &times->ids[i];
		if (id->throttled_from_ns && end_ns > id->throttled_from_ns)
			err = add_gap(times, id, LEDGER_THROTTLED, id->throttled_from_ns, end_ns, 0);
		id->throttled_from_ns = 0;
	}
	return err;
}
