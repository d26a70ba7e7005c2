/* SPDX-License-Identifier: MIT */
/*
 * index_builder: makes the index of extents (extent_index.h) of a file that was stored without one: from the records
 * while they are recorded, or when they are read back. With the index, readers skip extents that they do not need.
 * Records that samples in other extents may depend on (task events) get extents of their own.
 *
 * Memory is fixed: with more records the extents become longer. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"

struct perf_event_header;

struct index_builder {
	struct extent_fields now;     /* the present extent; nr_records 0: none */
	uint64_t now_end;             /* file offset of its end */
	bool now_packed;              /* it consists of COMPRESSED records */
	uint64_t unit_bytes;          /* an extent that has this size ends before the next record */
	uint64_t least_bytes;         /* a change between task events and others does not end a shorter extent */
	struct extent_fields *fields; /* heap */
	size_t nr;
	bool full; /* there are too many extents: no index is made */
};

int index_builder_new(struct index_builder **ret);            /* 0 or -ENOMEM */
void index_builder_free(struct index_builder *index_builder); /* NULL is fine */

/* The next records are in that part of the recording (extent_fields.part). EXTENT_NO_PART: in no extent. */
void index_builder_part(struct index_builder *index_builder, uint32_t part);

/* A record at that offset of the file, which has header.size readable bytes. time_ns 0: it has no time. */
void index_builder_record(struct index_builder *index_builder, uint64_t offset, const uint8_t *record,
			  uint64_t time_ns);

/*
 * A faster way for samples with a time, of which there are many: returns how many bytes from `offset` on belong to the
 * present extent. Samples that begin within these bytes may be added with index_builder_samples(). 0: none; call
 * index_builder_record() for the next record.
 */
static inline uint64_t index_builder_room(const struct index_builder *index_builder, uint64_t offset)
{
	const struct extent_fields *now = &index_builder->now;
	const uint64_t most = now->nr_others ? index_builder->least_bytes : index_builder->unit_bytes;
	bool goes_on = now->bytes && !index_builder->now_packed && offset == index_builder->now_end;

	return goes_on && now->bytes < most ? most - now->bytes : 0;
}

/* Adds `nr` samples of `bytes` bytes in all. Each of them begins within index_builder_room(). */
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
 * A COMPRESSED record of `size` bytes. frame_bytes: content size of the zstd frame that begins in the record; 0: the
 * record continues a frame; UINT64_MAX: the frame does not state its size, as in a stream, and gets no extent.
 */
void index_builder_packed(struct index_builder *index_builder, uint64_t offset, uint16_t size, uint64_t frame_bytes);
/* A record that was decompressed from the last COMPRESSED records. */
void index_builder_unpacked(struct index_builder *index_builder, const uint8_t *record, uint64_t time_ns);

/* Ends the last extent, and adds all extents to the list; adds none when there were too many. 0 or -ENOMEM. */
int index_builder_list(struct index_builder *index_builder, struct extent_list *list);
