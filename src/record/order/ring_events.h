/* SPDX-License-Identifier: MIT */
/*
 * ring_events: finds the event of a record in a ring, and its time. Any thread may use it after ring_events_init().
 * Here in the header: each record passes through them several times, and a call takes as long as they do.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash_table.h"
#include "perfdata/sample.h"

struct event_desc;

struct ring_events {
	const struct event_desc *events; /* borrowed; with the attrs of the records in the rings */
	size_t nr_events;
	struct hash_table ids; /* of the events: index + 1 */
	int id_offset, id_distance, time_offset, time_distance;
	int tid_distance, cpu_distance; /* likewise; -1: records have none */
	size_t trailer_bytes;           /* of sample_id */
};

/* *events is zeroed. 0; -ENOMEM; -EINVAL: records have no time. */
int ring_events_init(struct ring_events *events, const struct event_desc *descs, size_t nr);
void ring_events_fini(struct ring_events *events);

/* The index of the event of a sample; 0 when its id is unknown. */
size_t ring_events_index(const struct ring_events *events, const uint8_t *sample, size_t size);

/* Private: where the sample_id ends. As sample_id_end(), but for most records without a look at them. */
static inline int ring_events_trailer_end(const struct ring_events *events, const uint8_t *record,
					  const struct perf_event_header *header)
{
	switch (header->type) {
	case PERF_RECORD_KSYMBOL:
	case PERF_RECORD_BPF_EVENT:
	case PERF_RECORD_TEXT_POKE: return (int)sample_id_end(record, events->trailer_bytes);
	default: return header->size;
	}
}

/* Private. 0: the record does not have it. */
static inline uint64_t ring_events_word(const uint8_t *record, int size, int place)
{
	uint64_t word;

	if (place < (int)sizeof(struct perf_event_header) || place > size - (int)sizeof(word))
		return 0;
	memcpy(&word, record + place, sizeof(word));
	return word;
}

/* The id of the event of a sample, or of a record with a sample_id, and its time. 0: it has none. */
struct ring_record {
	uint64_t id, time_ns;
};
static inline struct ring_record ring_events_look(const struct ring_events *events, const uint8_t *record,
						  const struct perf_event_header *header)
{
	const int size = header->size;

	if (header->type == PERF_RECORD_SAMPLE)
		return (struct ring_record){.id = ring_events_word(record, size, events->id_offset),
					    .time_ns = ring_events_word(record, size, events->time_offset)};
	const int end = ring_events_trailer_end(events, record, header);
	const int id_place = events->id_distance < 0 ? -1 : end - events->id_distance;
	return (struct ring_record){.id = ring_events_word(record, size, id_place),
				    .time_ns = ring_events_word(record, size, end - events->time_distance)};
}

static inline uint64_t ring_events_time(const struct ring_events *events, const uint8_t *record,
					const struct perf_event_header *header)
{
	return ring_events_look(events, record, header).time_ns;
}

/* The task and the CPU of a record with a sample_id; ~0: not there. false: it is too short for its sample_id. */
struct ring_place {
	uint32_t pid, tid, cpu;
};
static inline bool ring_events_place(const struct ring_events *events, const uint8_t *record,
				     const struct perf_event_header *header, struct ring_place *ret)
{
	const int end = ring_events_trailer_end(events, record, header);
	uint32_t ids[2] = {UINT32_MAX, UINT32_MAX}, cpu = UINT32_MAX;

	if (end < (int)(sizeof(*header) + events->trailer_bytes))
		return false;
	if (events->tid_distance > 0)
		memcpy(ids, record + end - events->tid_distance, sizeof(ids));
	if (events->cpu_distance > 0)
		memcpy(&cpu, record + end - events->cpu_distance, sizeof(cpu));
	*ret = (struct ring_place){.pid = ids[0], .tid = ids[1], .cpu = cpu};
	return true;
}
