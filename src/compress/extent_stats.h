/* SPDX-License-Identifier: MIT */
/*
 * extent_stats: counts the records of an extent by kind and event, for the index (extent_index.h). After
 * extent_stats_new() many threads may use it at once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "compress/extent_index.h"

struct event_desc;
struct extent_stats;
struct perf_event_header;

/* `events` is only used during the call. 0 or -ENOMEM. */
int extent_stats_new(const struct event_desc *events, size_t nr_events, struct extent_stats **ret);
void extent_stats_free(struct extent_stats *stats); /* NULL is fine */

/*
 * The index of the event that the record belongs to; 0 when the record has no id. All header.size bytes of the record
 * must be readable.
 */
size_t extent_stats_event_of(const struct extent_stats *stats, const uint8_t *record);

/*
 * Sets the fields of *ret that depend on the records alone: all but part, offset and packed_bytes. When memory runs out
 * the counts by event are missing.
 */
void extent_stats_records(const struct extent_stats *stats, struct span records, struct extent_info *ret);

/*
 * The same for who goes through the records anyway and gives them in order: one pass over memory is cheaper than two.
 * Used by one thread at a time; extent_tally_end() releases it.
 */
enum { KNOWN_EVENTS = 16 };

struct extent_tally {
	const struct extent_stats *stats; /* borrowed */
	struct extent_fields fields;
	uint32_t *counts; /* heap, by event; NULL: no memory */
	int id_offset;    /* of the id of samples, bytes from their start; -1: there is one event, or they have none */
	/* Events of ids that came before, by their lowest bits: most records of an extent are of few events and CPUs.
	 */
	struct known_event {
		uint64_t id; /* 0, which is that of no event: none */
		size_t event;
	} known[KNOWN_EVENTS];
};

/* 0; -ENOMEM: only extent_tally_record() may be used, and the counts by event will be missing. */
int extent_tally_begin(struct extent_tally *tally, const struct extent_stats *stats);
void extent_tally_record(struct extent_tally *tally, const uint8_t *record, const struct perf_event_header *header);

/*
 * For samples that all have a time, in place of extent_tally_record(): the event of each one, by its id; and once for
 * all of them extent_tally_samples(), which counts them for the first event when they have no id (id_offset).
 */
void extent_tally_new_id(struct extent_tally *tally, uint64_t id);
static inline void extent_tally_id(struct extent_tally *tally, uint64_t id)
{
	const struct known_event *known = &tally->known[id % KNOWN_EVENTS];

	if (known->id != id)
		extent_tally_new_id(tally, id);
	tally->counts[known->event]++;
}
void extent_tally_samples(struct extent_tally *tally, uint64_t nr, uint64_t first_ns, uint64_t last_ns);

/* `bytes`: of all records. The caller owns ret->counts. */
void extent_tally_end(struct extent_tally *tally, size_t bytes, struct extent_info *ret);

/* For who must not allocate in between; all of tallies that were begun with the same statistics. */
void extent_tally_restart(struct extent_tally *tally);                            /* nothing was counted */
void extent_tally_copy(struct extent_tally *to, const struct extent_tally *from); /* what was counted */
/* As extent_tally_end(), of a tally that goes on: ret->counts is `counts`, room for extent_tally_room() of them. */
size_t extent_tally_room(const struct extent_tally *tally);
void extent_tally_read(const struct extent_tally *tally, size_t bytes, struct extent_count *counts,
		       struct extent_info *ret);
