/* SPDX-License-Identifier: MIT */
/*
 * perf_maps: the payload of FEATURE_PERF_MAPS: what /tmp/perf-PID.map said of code that was compiled at run time, as it
 * was when the recording ended. Back to back, for each process: this struct, its bytes, zeroes up to a multiple of 8.
 * Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct buf;
struct cursor;

enum { PERF_MAP_MAX_BYTES = 1 << 29 }; /* of one, not compressed */

struct kept_perf_map {
	uint32_t pid;       /* as in the records */
	uint32_t missing;   /* 1: there was none that could be read */
	uint64_t bytes;     /* of the text; at most PERF_MAP_MAX_BYTES */
	struct span stored; /* a zstd frame if it is shorter than `bytes`; else the text */
};

void perf_map_put(const struct kept_perf_map *map, struct buf *out);
bool perf_map_next(struct cursor *at, struct kept_perf_map *ret); /* false: the end, or cut */
