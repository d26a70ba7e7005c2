/* SPDX-License-Identifier: MIT */
/*
 * survey: extents of a file that nobody packed, found while its records go by or are read back: the same index, so that
 * readers leave out what they do not need. Stretches with records that tell of the world and those without stand apart.
 *
 * Its memory is fixed: with more records extents become longer. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pack/extent_index.h"

struct perf_event_header;

struct survey {
	struct extent_fields now; /* nr_records 0: none */
	uint64_t now_end;
	bool now_packed;   /* COMPRESSED records */
	uint64_t unit_bytes, least_bytes; /* an extent is not longer; is not cut by a change of kind while it is shorter */
	struct extent_fields *fields; /* heap */
	size_t nr;
	bool full;         /* cannot be kept: there is no index then */
};

int survey_new(struct survey **ret); /* 0 or -ENOMEM */
void survey_free(struct survey *survey); /* NULL is fine */

/* What comes next is of that part, as in the index. */
void survey_part(struct survey *survey, uint32_t part);

/* A record at that offset of the file, which has header.size readable bytes. time_ns 0: it has no time. */
void survey_record(struct survey *survey, uint64_t offset, const uint8_t *record, uint64_t time_ns);

/*
 * The same for samples with a time, of which there are many: how many bytes behind `offset` may be the first of such a one
 * that goes where the last records went; 0: none, it has to be told alone.
 */
static inline uint64_t survey_room(const struct survey *survey, uint64_t offset)
{
	const struct extent_fields *now = &survey->now;
	bool goes_on = now->bytes && !now->nr_world && !survey->now_packed && offset == survey->now_end;

	return goes_on && now->bytes < survey->unit_bytes ? survey->unit_bytes - now->bytes : 0;
}

/* `nr` samples, the first bytes of which lie within survey_room(). */
static inline void survey_samples(struct survey *survey, uint64_t bytes, uint64_t nr, uint64_t first_ns, uint64_t last_ns)
{
	struct extent_fields *now = &survey->now;

	now->nr_records += nr;
	now->first_ns = first_ns < now->first_ns ? first_ns : now->first_ns;
	now->last_ns = last_ns > now->last_ns ? last_ns : now->last_ns;
	now->packed_bytes = now->bytes += bytes;
	survey->now_end += bytes;
}

/* A COMPRESSED record; frame_bytes: what a frame that it starts says it holds. 0: it goes on. UINT64_MAX: without end. */
void survey_packed(struct survey *survey, uint64_t offset, uint16_t size, uint64_t frame_bytes);
/* A record that came out of it. */
void survey_unpacked(struct survey *survey, const uint8_t *record, uint64_t time_ns);

/* Adds what was found. 0 or -ENOMEM. */
int survey_list(struct survey *survey, struct extent_list *list);
