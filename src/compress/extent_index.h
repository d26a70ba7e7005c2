/* SPDX-License-Identifier: MIT */
/*
 * extent_index: the private section FEATURE_EXTENT_INDEX: the position and the contents of each extent of a recording.
 * A reader that lacks it can get the same information by reading all extents.
 *
 * Payload: u32 version (1), u32 number of extents, then for each extent a struct extent_fields and
 * extent_fields.nr_counts times a struct extent_count: u32 index of the event in EVENT_DESC, u32 number of its samples.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;

enum { EXTENT_INDEX_VERSION = 1 };

/* The part that is called "data.N", as the index counts: N + 1. Of another name ("data.0.bak"): EXTENT_NO_PART. */
#define EXTENT_NO_PART UINT32_MAX
uint32_t extent_part_of(const char *name);

/* As stored. */
struct extent_fields {
	uint64_t offset;       /* of its first record in the file */
	uint64_t packed_bytes; /* its size in the file */
	uint64_t bytes;        /* size of its records; equal to packed_bytes: it is not compressed */
	/* the oldest and the newest time of its records; 0 and UINT64_MAX: some have no time */
	uint64_t first_ns, last_ns;
	uint64_t lost; /* sum of its LOST records */
	uint32_t nr_records;
	/* of those: neither SAMPLE, LOST, THROTTLE nor UNTHROTTLE: samples in other extents may depend on them */
	uint32_t nr_others;
	uint32_t part; /* 0: the file itself, N + 1: data.N of its directory */
	uint32_t nr_counts;
};
_Static_assert(sizeof(struct extent_fields) == 64, "as stored");

struct extent_count {
	uint32_t event, nr;
};

struct extent_info {
	struct extent_fields fields;
	struct extent_count *counts; /* heap */
	/* not stored in the file: size of its records in the rings, before stack dumps were cut; 0: unknown */
	uint64_t came_bytes;
};

struct extent_list {
	struct extent_info *infos; /* heap; ascending by offset within a part */
	size_t nr, room;
};

void extent_list_fini(struct extent_list *list); /* zeroed is fine */
#define AUTO_EXTENTS __attribute__((cleanup(extent_list_fini)))
/* Adds the extent, and takes ownership of info->counts, also when it fails. 0 or -ENOMEM. */
int extent_list_add(struct extent_list *list, struct extent_info *info);
/* Moves all extents of `from` to the end of `list`, as extents of `part`; `from` is empty afterwards. 0 or -ENOMEM. */
int extent_list_join(struct extent_list *list, struct extent_list *from, uint32_t part);
/* Ascending by part and offset. */
void extent_list_sort(struct extent_list *list);
/*
 * The file offset at which the extent of `part` that contains `offset` begins; `offset` itself when no extent contains
 * it.
 */
uint64_t extent_list_start(const struct extent_list *list, uint32_t part, uint64_t offset);

/* Appends the payload to `out`, without extents of part 0 that end after offset `end`. */
void extent_index_encode(const struct extent_list *list, uint64_t end, struct buf *out);

/*
 * Reads a payload one extent at a time. The payload is borrowed as long as the reader is used. extent_reader_next()
 * returns 1, 0 at the end, or -EBADMSG.
 */
struct extent_reader {
	struct cursor at;
	uint32_t left;
};
int extent_reader_open(struct span payload, struct extent_reader *ret); /* -EBADMSG: not whole, or another version */
int extent_reader_next(struct extent_reader *reader, struct extent_fields *ret, struct span *ret_counts);
