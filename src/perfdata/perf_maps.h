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

enum perf_map_missing {
	PERF_MAP_KEPT,
	PERF_MAP_NONE, /* the process had no such file; earlier recorders did not say more */
	PERF_MAP_OF_ANOTHER_USER,
	PERF_MAP_NO_REGULAR_FILE,
	PERF_MAP_REUSED_PID,
	PERF_MAP_TOO_LARGE,
	PERF_MAP_UNREADABLE,
	PERF_MAP_OLDER,                /* than its process: a former one that had the number left it */
	PERF_MAP_OLDER_THAN_RECORDING, /* and the process was gone before it was looked at */
	PERF_MAP_NEWER_THAN_RECORDING, /* and the process is gone; of a recording that was recovered */
	PERF_MAP_OF_A_PROGRAM,         /* private: no map, but program_ns of the entry before */
	PERF_MAP_OF_UNKNOWN_PROGRAM,   /* the process ran several, and which one wrote it is not known */
};

struct kept_perf_map {
	uint32_t pid;       /* of the process, as in the records */
	uint32_t missing;   /* enum perf_map_missing; other numbers: not known why */
	uint64_t bytes;     /* of the text; at most PERF_MAP_MAX_BYTES */
	struct span stored; /* a zstd frame if it is shorter than `bytes`; else the text */
	/*
	 * The names are those of the program that the process ran from then on: the time of the record of an exec, or
	 * of the fork; 0: what it ran when the recording began.
	 */
	uint64_t program_ns;
	bool program_known; /* false: earlier recorders did not say */
};

void perf_map_put(const struct kept_perf_map *map, struct buf *out);
/* As an end of a sentence: "it belongs to another user". */
const char *perf_map_missing_text(uint32_t missing);
bool perf_map_next(struct cursor *at, struct kept_perf_map *ret); /* false: the end, or a truncated entry */
