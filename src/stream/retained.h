/* SPDX-License-Identifier: MIT */
/*
 * retained: extents that are not written but kept, the last of some time and size: what a pipeline has in front of
 * it as long as it has no output. Private to the stage; under its pool's lock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"

struct batch_job;

/* One extent and what stands plain behind it. */
struct retained_extent {
	struct retained_extent *next;
	struct extent_info info;
	uint64_t came_ns;              /* CLOCK_MONOTONIC: nothing in it is newer */
	size_t len, out_len, tail_len; /* of records as they came; as packed; behind it */
	uint8_t bytes[];               /* out_len + tail_len */
};

struct retained_limits {
	uint64_t duration_ns; /* what came longer ago is dropped */
	size_t bytes;         /* and the oldest when it is more than that */
};

struct retained {
	struct retained_limits limits;
	uint64_t asked_ns; /* when a snapshot was requested: time goes no further; 0: none was */
	struct retained_extent *first, *last;
	size_t bytes;        /* held */
	uint64_t dropped_ns; /* the newest record that is gone: since then all are there; 0: none is gone */
	uint64_t dropped_bytes, dropped_tail_bytes; /* of extents, of what stood behind them */
};

/* NULL: out of memory. Takes over job->info. */
struct retained_extent *retained_extent_new(struct batch_job *job);
void retained_extent_free(struct retained_extent *piece); /* NULL is fine */

/* Owns the piece; drops what is too old or too much. */
void retained_add(struct retained *hold, struct retained_extent *piece);
void retained_drop(struct retained *hold);

/* The oldest, which is the caller's then. NULL: none. */
struct retained_extent *retained_take(struct retained *hold);

/* The times of the records that are held; UINT64_MAX, 0: none is. */
uint64_t retained_first_ns(const struct retained *hold);
uint64_t retained_last_ns(const struct retained *hold);
void retained_fini(struct retained *hold);
