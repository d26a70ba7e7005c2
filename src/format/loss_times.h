/* SPDX-License-Identifier: MIT */
/*
 * loss_times: when records of a ring went missing, as the records around the gap tell. Fed with the records of each ring
 * in the order in which the ring gave them; rings may alternate. One owner (loss_times_fini), one thread.
 *
 * A LOST record is written when there is room again: the gap began at some time after the last record before it.
 * A throttled event is told by two records. How many were lost is counted elsewhere (PERF_FORMAT_LOST), where that is
 * there: the counts of LOST records are those of a ring, whatever the event.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "format/event_desc.h"
#include "format/feature_ledger.h"

struct perf_event_header;

struct loss_id {
	uint64_t id;
	uint32_t event;
	int32_t cpu, tid;           /* -1: any */
	uint64_t captured;          /* samples */
	uint64_t lost_samples;      /* by LOST_SAMPLES records */
	uint64_t lost_records;      /* by LOST records that carry this id: of the whole ring */
	uint64_t last_ns;           /* of the last record of the same kind of ring; see loss_times.c */
	uint64_t throttled_from_ns; /* 0: it runs */
	size_t ring;                /* index of the id that keeps `last_ns` for its ring */
};

struct loss_times {
	const struct event_desc *events; /* borrowed */
	size_t nr_events;
	struct loss_id *ids; /* heap; ascending by id, and behind them one for records that tell no id */
	size_t nr_ids;
	size_t nr_places;    /* CPUs, or tasks with a ring each */
	size_t last;         /* index of the last look-up */
	int id_offset, id_distance;
	int cpu_offset, cpu_distance; /* in a file without ids; -1: not there */
	uint64_t first_ns, last_ns; /* of all samples; 0: none has a time */
	struct ledger_entry *gaps;  /* heap; count: of a LOST record, 0 for throttled time */
	size_t nr_gaps, gaps_room;
};

int loss_times_init(struct loss_times *times, const struct event_desc *events, size_t nr_events);
void loss_times_fini(struct loss_times *times); /* zeroed is fine */

/* One whole record (header->size readable bytes, any alignment). What it cannot use it skips. 0 or -ENOMEM. */
int loss_times_take(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header);

/* Samples that were not taken lie between these times. 0, 0: there are none. */
void loss_times_reach(struct loss_times *times, uint64_t first_ns, uint64_t last_ns);

/* At the end: events that are still throttled then are so until `end_ns`. */
int loss_times_end(struct loss_times *times, uint64_t end_ns);
