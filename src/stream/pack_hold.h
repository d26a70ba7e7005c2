/* SPDX-License-Identifier: MIT */
/*
 * pack_hold: extents that are not written but kept, the last of some time and size: what a pack stage has in front of
 * it as long as it has no output. Private to the stage; under its pool's lock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"

struct pack_job;

/* One extent and what stands plain behind it. */
struct pack_piece {
	struct pack_piece *next;
	struct extent_info info;
	uint64_t came_ns;              /* CLOCK_MONOTONIC: nothing in it is newer */
	size_t len, out_len, tail_len; /* of records as they came; as packed; behind it */
	uint8_t bytes[];               /* out_len + tail_len */
};

struct pack_hold_limits {
	uint64_t duration_ns; /* what came longer ago is dropped */
	size_t bytes;         /* and the oldest when it is more than that */
};

struct pack_hold {
	struct pack_hold_limits limits;
	uint64_t asked_ns; /* when somebody asked for what is held: time goes no further; 0: nobody has */
	struct pack_piece *first, *last;
	size_t bytes;        /* held */
	uint64_t dropped_ns; /* the newest record that is gone: since then all are there; 0: none is gone */
	uint64_t dropped_bytes, dropped_tail_bytes; /* of extents, of what stood behind them */
};

/* NULL: out of memory. Takes over job->info. */
struct pack_piece *pack_piece_new(struct pack_job *job);
void pack_piece_free(struct pack_piece *piece); /* NULL is fine */

/* Owns the piece; drops what is too old or too much. */
void pack_hold_add(struct pack_hold *hold, struct pack_piece *piece);
void pack_hold_drop(struct pack_hold *hold);

/* The oldest, which is the caller's then. NULL: none. */
struct pack_piece *pack_hold_take(struct pack_hold *hold);

/* The times of the records that are held; UINT64_MAX, 0: none is. */
uint64_t pack_hold_first_ns(const struct pack_hold *hold);
uint64_t pack_hold_last_ns(const struct pack_hold *hold);
void pack_hold_fini(struct pack_hold *hold);
