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

/* The same for a sample, of which there are many. */
static inline void survey_sample(struct survey *survey, uint64_t offset, const uint8_t *record, uint16_t size, uint64_t time_ns)
{
	struct extent_fields *now = &survey->now;

	if (offset != survey->now_end || now->nr_world || now->bytes >= survey->unit_bytes || !now->bytes || survey->now_packed ||
	    !time_ns) {
		survey_record(survey, offset, record, time_ns);
		return;
	}
	now->nr_records++;
	now->first_ns = time_ns < now->first_ns ? time_ns : now->first_ns;
	now->last_ns = time_ns > now->last_ns ? time_ns : now->last_ns;
	now->packed_bytes = now->bytes += size;
	survey->now_end += size;
}

/* A COMPRESSED record; frame_bytes: what a frame that it starts says it holds. 0: it goes on. UINT64_MAX: without end. */
void survey_packed(struct survey *survey, uint64_t offset, uint16_t size, uint64_t frame_bytes);
/* A record that came out of it. */
void survey_unpacked(struct survey *survey, const uint8_t *record, uint64_t time_ns);

/* Adds what was found. 0 or -ENOMEM. */
int survey_list(struct survey *survey, struct extent_list *list);
