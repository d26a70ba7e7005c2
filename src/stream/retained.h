/* SPDX-License-Identifier: MIT */
/*
 * retained: the retained history (--flight): the newest extents, limited by time and size, which a pipeline without an
 * output keeps in memory. Private to the pipeline; protected by its pool's lock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"

struct batch_job;

/* One extent, and the uncompressed records behind it. */
struct retained_extent {
	struct retained_extent *next;
	struct extent_info info;
	uint64_t came_ns; /* CLOCK_MONOTONIC: no record in it is newer */
	/* bytes of its records; as they are stored in `bytes`; of the records behind it */
	size_t len, out_len, tail_len;
	size_t producer_number; /* as in batch_job.h */
	uint64_t came_end;
	uint8_t bytes[]; /* out_len + tail_len */
};

struct retained_limits {
	uint64_t duration_ns; /* older extents are dropped */
	size_t bytes;         /* the oldest extents are dropped when all take more than this */
};

struct retained {
	struct retained_limits limits;
	uint64_t requested_ns; /* when a snapshot was requested: age is counted up to then; 0: none was requested */
	struct retained_extent *first, *last;
	size_t bytes;        /* held */
	uint64_t dropped_ns; /* the time of the newest dropped record: all later ones are held; 0: none was dropped */
	uint64_t dropped_bytes, dropped_tail_bytes; /* dropped: bytes of extents, and of the records behind them */
	uint64_t *dropped; /* heap; of each producer: its ring bytes up to the end of its last dropped extent */
	size_t nr_producers, room_producers;
};

/* NULL: out of memory. Takes over job->info. */
struct retained_extent *retained_extent_new(struct batch_job *job);
void retained_extent_free(struct retained_extent *extent); /* NULL is fine */

/* To be called for each producer, in the order of their numbers. 0 or -ENOMEM. */
int retained_add_producer(struct retained *hold);

/* Takes ownership of the extent; drops extents that exceed the limits. */
void retained_add(struct retained *hold, struct retained_extent *extent);
void retained_drop(struct retained *hold);

/* Removes the oldest extent, which the caller then owns. NULL: there is none. */
struct retained_extent *retained_take(struct retained *hold);

/* The oldest and the newest time of the records that are held; UINT64_MAX and 0: there are none. */
uint64_t retained_first_ns(const struct retained *hold);
uint64_t retained_last_ns(const struct retained *hold);
void retained_fini(struct retained *hold);
