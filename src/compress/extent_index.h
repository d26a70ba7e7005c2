/* SPDX-License-Identifier: MIT */
/*
 * extent_index: where the extents of a recording are, and what each holds: the private section
 * FEATURE_EXTENT_INDEX. Reading all extents gives the same information, so the section is optional.
 *
 * Payload: u32 version (1), u32 number of extents, then for each: struct extent_fields, and as many pairs of u32 event
 * (its place in EVENT_DESC) and u32 number of its samples as extent_fields.nr_counts says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;

enum { EXTENT_INDEX_VERSION = 1 };

/* As stored. */
struct extent_fields {
	uint64_t offset;            /* of its first record in the file */
	uint64_t packed_bytes;      /* its size in the file */
	uint64_t bytes;             /* size of its records; equal to packed_bytes: it is not compressed */
	uint64_t first_ns, last_ns; /* times of its records; 0, UINT64_MAX: some have no time */
	uint64_t lost;              /* sum of its LOST records */
	uint32_t nr_records;
	uint32_t nr_others; /* of those: neither SAMPLE nor LOST nor THROTTLE: samples of other extents may need them */
	uint32_t part;      /* 0: the file itself, N + 1: data.N of its directory */
	uint32_t nr_counts;
};
_Static_assert(sizeof(struct extent_fields) == 64, "as stored");

struct extent_count {
	uint32_t event, nr;
};

struct extent_info {
	struct extent_fields fields;
	struct extent_count *counts; /* heap */
	uint64_t came_bytes; /* not stored: size of its records in the rings, before stacks were cut; 0: unknown */
};

struct extent_list {
	struct extent_info *infos; /* heap; ascending by offset within a part */
	size_t nr, room;
};

void extent_list_fini(struct extent_list *list); /* zeroed is fine */
#define AUTO_EXTENTS __attribute__((cleanup(extent_list_fini)))
/* Takes ownership of info->counts, also when it fails. 0 or -ENOMEM. */
int extent_list_add(struct extent_list *list, struct extent_info *info);
/* Moves the extents of `from`, which is empty then, to `list`, as extents of `part`. 0 or -ENOMEM. */
int extent_list_join(struct extent_list *list, struct extent_list *from, uint32_t part);
/* Ascending by part and offset. */
void extent_list_sort(struct extent_list *list);
/* The start of the extent of `part` that has `offset` inside; the offset itself when there is none. */
uint64_t extent_list_start(const struct extent_list *list, uint32_t part, uint64_t offset);

/* Appends the payload to `out`, without extents of part 0 that end after offset `end`. */
void extent_index_encode(const struct extent_list *list, uint64_t end, struct buf *out);

/* Reads a payload, which must stay, one extent at a time: extent_reader_next() gives 1, 0 at the end, or -EBADMSG. */
struct extent_reader {
	struct cursor at;
	uint32_t left;
};
int extent_reader_open(struct span payload, struct extent_reader *ret); /* -EBADMSG: not whole, or another version */
int extent_reader_next(struct extent_reader *reader, struct extent_fields *ret, struct span *ret_counts);
