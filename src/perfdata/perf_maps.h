/* SPDX-License-Identifier: MIT */
/*
 * perf_maps: the payload of FEATURE_PERF_MAPS: copies of the files /tmp/perf-PID.map, which name the functions that
 * were compiled at run time, as they were when the recording ended. Entries follow each other: the fields before
 * `stored`, the stored bytes, zeroes up to a multiple of 8. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct buf;
struct cursor;

enum { PERF_MAP_MAX_BYTES = 1 << 29 }; /* of one file, not compressed */

struct kept_perf_map {
	uint32_t pid;       /* of the process, as in the records */
	uint32_t missing;   /* 1: the process had no such file, or it could not be read */
	uint64_t bytes;     /* of the text; at most PERF_MAP_MAX_BYTES */
	struct span stored; /* a zstd frame if it is shorter than `bytes`; else the text */
};

void perf_map_put(const struct kept_perf_map *map, struct buf *out);
bool perf_map_next(struct cursor *at, struct kept_perf_map *ret); /* false: the end, or a truncated entry */
