/* SPDX-License-Identifier: MIT */
/*
 * extent_index: where the extents of a recording are, and what each holds: the private section
 * FEATURE_EXTENT_INDEX. It says
 * nothing that reading the extents would not say, and may be left out.
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
	uint64_t offset;            /* in its file, of its first record */
	uint64_t packed_bytes;      /* that it takes there */
	uint64_t bytes;             /* of the records that it holds; equal to packed_bytes: it is stored plain */
	uint64_t first_ns, last_ns; /* of its records; 0, UINT64_MAX: some have no time */
	uint64_t lost;              /* as its LOST records say */
	uint32_t nr_records;
	uint32_t nr_world; /* of those: neither SAMPLE nor LOST nor THROTTLE: what samples elsewhere may need */
	uint32_t part;     /* 0: the file itself, N + 1: data.N of its directory */
	uint32_t nr_counts;
};
_Static_assert(sizeof(struct extent_fields) == 64, "as stored");

struct extent_count {
	uint32_t event, nr;
};

struct extent_info {
	struct extent_fields fields;
	struct extent_count *counts; /* heap */
	uint64_t came_bytes;         /* not stored: what the rings gave, before stacks were cut; 0: not known */
};

struct extent_list {
	struct extent_info *infos; /* heap; ascending by offset within a part */
	size_t nr, room;
};

void extent_list_fini(struct extent_list *list); /* zeroed is fine */
#define AUTO_EXTENTS __attribute__((cleanup(extent_list_fini)))
/* Takes info->counts in any case. 0 or -ENOMEM. */
int extent_list_add(struct extent_list *list, struct extent_info *info);
/* The extents of `from`, which is left empty, as those of that part. 0 or -ENOMEM. */
int extent_list_join(struct extent_list *list, struct extent_list *from, uint32_t part);
/* Ascending by part and offset. */
void extent_list_sort(struct extent_list *list);
/* Where an extent of the part starts that `offset` lies within; else the offset itself. */
uint64_t extent_list_start(const struct extent_list *list, uint32_t part, uint64_t offset);

/* Without those of part 0 that end behind `end`. */
void extent_index_encode(const struct extent_list *list, uint64_t end, struct buf *out);

/* One after the other: 1, 0 at the end, -EBADMSG. */
struct extent_reader {
	struct cursor at;
	uint32_t left;
};
int extent_reader_open(struct span payload, struct extent_reader *ret); /* -EBADMSG: not whole, or another version */
int extent_reader_next(struct extent_reader *reader, struct extent_fields *ret, struct span *ret_counts);
