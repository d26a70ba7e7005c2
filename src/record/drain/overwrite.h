/* SPDX-License-Identifier: MIT */
/*
 * overwrite: the rings of the overwrite channel (`--overwrite`), whose oldest records the kernel overwrites, and
 * snapshots of them. Owned by the recording; one thread at a time.
 *
 * Each place (see plan.h) has one ring. A snapshot holds what all rings held at one moment: it notes how far each was
 * filled, and copies them while records go on to come. Between two snapshots no record is lost as long as all that
 * comes until the second is copied fits into one ring.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "record/setup/eventset.h"

struct buf;
struct diag;
struct overwrite;
struct writer;

struct overwrite_counters {
	uint64_t nr_snapshots, nr_records, bytes;
	uint64_t nr_overwritten; /* rings, in all snapshots, of which records were overwritten */
	uint64_t nr_emptied;     /* rings of which all records were, while they were copied */
	uint64_t nr_broken;      /* rings with a damaged record header; never seen */
};

/*
 * To be called after eventset_open() and before any event is enabled. *ret is NULL when the plan has no overwrite
 * channel; all functions accept NULL and do nothing. -errno, with cause and remedy in the diag.
 */
int overwrite_open(const struct eventset *set, struct ring_sizes sizes, struct overwrite **ret, struct diag *reterr);

/*
 * For snapshots: starts the thread that waits for writers while overwrite_copy() looks at the rings. It is one thread
 * to the end: --exclude-perf names the threads that there are at the start. If it cannot be started overwrite_copy()
 * waits by itself.
 */
void overwrite_start(struct overwrite *overwrite);
void overwrite_free(struct overwrite *overwrite); /* before eventset_close(); NULL is fine */

/*
 * The moment of a snapshot: it will hold what the rings hold now. Nothing waits. 0; -EBUSY: the last one was not
 * collected yet, and stays as it is.
 */
int overwrite_mark(struct overwrite *overwrite);

/*
 * Copies the rings, right after overwrite_mark(): what comes in between may overwrite the oldest of what they held.
 * Then it waits for writers, some milliseconds, so it must not be called on a thread that drains.
 */
void overwrite_copy(struct overwrite *overwrite);

/*
 * Appends the records of the copies, ring after ring, each in the order of time. 0 or -ENOMEM. *ret_whole_from_ns
 * (NULL: not wanted), by the clock of the records: of those written since the last call, all from this time on are in
 * `out`; 0: all of them are; UINT64_MAX: of some ring there is none.
 */
int overwrite_collect(struct overwrite *overwrite, struct buf *out, uint64_t *ret_whole_from_ns);

/* At the end, after the events were disabled: appends what all rings hold, in the same order; results as above. */
int overwrite_end(struct overwrite *overwrite, struct buf *out, uint64_t *ret_whole_from_ns);
int overwrite_end_into(struct overwrite *overwrite, struct writer *writer); /* the same into a writer */

/* NULL: all 0. */
struct overwrite_counters overwrite_counters(const struct overwrite *overwrite);
