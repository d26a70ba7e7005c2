/* SPDX-License-Identifier: MIT */
/*
 * index_builder: extents of a file without an index, found while its records go by or are read back: the same index, so
 * that readers leave out what they do not need. Records that samples in other extents may need (task events) get
 * extents of their own.
 *
 * Its memory is fixed: with more records extents become longer. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"

struct perf_event_header;

struct index_builder {
	struct extent_fields now; /* nr_records 0: none */
	uint64_t now_end;
	bool now_packed; /* COMPRESSED records */
	uint64_t unit_bytes,
		least_bytes;          /* an extent is not longer; is not cut by a change of kind while it is shorter */
	struct extent_fields *fields; /* heap */
	size_t nr;
	bool full; /* cannot be kept: there is no index then */
};

int index_builder_new(struct index_builder **ret);            /* 0 or -ENOMEM */
void index_builder_free(struct index_builder *index_builder); /* NULL is fine */

/* What comes next is of that part, as in the index. */
void index_builder_part(struct index_builder *index_builder, uint32_t part);

/* A record at that offset of the file, which has header.size readable bytes. time_ns 0: it has no time. */
void index_builder_record(struct index_builder *index_builder, uint64_t offset, const uint8_t *record,
			  uint64_t time_ns);

/*
 * The same for samples with a time, of which there are many: how many bytes behind `offset` may be the first of such a
 * one that goes where the last records went; 0: none, it has to be told alone.
 */
static inline uint64_t index_builder_room(const struct index_builder *index_builder, uint64_t offset)
{
	const struct extent_fields *now = &index_builder->now;
	bool goes_on = now->bytes && !now->nr_others && !index_builder->now_packed && offset == index_builder->now_end;

	return goes_on && now->bytes < index_builder->unit_bytes ? index_builder->unit_bytes - now->bytes : 0;
}

/* `nr` samples, the first bytes of which lie within index_builder_room(). */
static inline void index_builder_samples(struct index_builder *index_builder, uint64_t bytes, uint64_t nr,
					 uint64_t first_ns, uint64_t last_ns)
{
	struct extent_fields *now = &index_builder->now;

	now->nr_records += nr;
	now->first_ns = first_ns < now->first_ns ? first_ns : now->first_ns;
	now->last_ns = last_ns > now->last_ns ? last_ns : now->last_ns;
	now->packed_bytes = now->bytes += bytes;
	index_builder->now_end += bytes;
}

/*
 * A COMPRESSED record; frame_bytes: what a frame that it starts says it holds. 0: it goes on. UINT64_MAX: without end.
 */
void index_builder_packed(struct index_builder *index_builder, uint64_t offset, uint16_t size, uint64_t frame_bytes);
/* A record that came out of it. */
void index_builder_unpacked(struct index_builder *index_builder, const uint8_t *record, uint64_t time_ns);

/* Adds what was found. 0 or -ENOMEM. */
int index_builder_list(struct index_builder *index_builder, struct extent_list *list);
