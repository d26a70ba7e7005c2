/* SPDX-License-Identifier: MIT */
/* ring_events: finds the event of a record in a ring, and its time. Any thread may use it after ring_events_init(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

struct event_desc;
struct perf_event_header;

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

/* The id of the event of a sample, or of a record with a sample_id. 0: it has none. */
uint64_t ring_events_id(const struct ring_events *events, const uint8_t *record,
			const struct perf_event_header *header);

/* The time of a sample, or of a record with a sample_id. 0: it has none. */
uint64_t ring_events_time(const struct ring_events *events, const uint8_t *record,
			  const struct perf_event_header *header);

/* Both. */
struct ring_record {
	uint64_t id, time_ns;
};
struct ring_record ring_events_look(const struct ring_events *events, const uint8_t *record,
				    const struct perf_event_header *header);

/* The task and the CPU of a record with a sample_id; ~0: not there. false: it is too short for its sample_id. */
struct ring_place {
	uint32_t pid, tid, cpu;
};
bool ring_events_place(const struct ring_events *events, const uint8_t *record, const struct perf_event_header *header,
		       struct ring_place *ret);
