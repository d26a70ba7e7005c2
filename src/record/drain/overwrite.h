/* SPDX-License-Identifier: MIT */
/*
 * overwrite: the rings of the overwrite channel (`--overwrite`), whose oldest records the kernel overwrites, and
 * snapshots of them. Owned by the recording; one thread at a time.
 *
 * Each place (see plan.h) has two rings. A snapshot redirects the events to the other ring (PERF_EVENT_IOC_SET_OUTPUT)
 * and then reads the filled one: there is no gap, and between two snapshots no record is lost as long as all fit into
 * one ring. Where memory does not suffice for two rings, or the kernel refuses to redirect the events, there is one
 * ring, which is paused while it is copied; the length of that gap is measured.
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
	uint64_t nr_pauses, paused_ns, longest_pause_ns; /* times without recording; 0 with two rings */
	uint64_t nr_overwritten; /* rings, in all snapshots, of which records were overwritten */
	uint64_t nr_broken;      /* rings with a damaged record header; never seen */
};

/*
 * To be called after eventset_open() and before any event is enabled. *ret is NULL when the plan has no overwrite
 * channel; all functions accept NULL and do nothing. -errno, with cause and remedy in the diag.
 */
int overwrite_open(const struct eventset *set, struct ring_sizes sizes, struct overwrite **ret, struct diag *reterr);
void overwrite_free(struct overwrite *overwrite); /* before eventset_close(); NULL is fine */

/*
 * Starts a snapshot: new records go to the other rings, and the filled rings do not change until overwrite_collect().
 * Takes some milliseconds for each event and CPU (the kernel waits for RCU), so it must not be called on a thread that
 * drains. 0; -EBUSY: the rings of the last call have not been collected yet; -errno of an ioctl(2): no record is lost,
 * but the snapshot may hold fewer records than it should.
 */
int overwrite_freeze(struct overwrite *overwrite);

/*
 * When the ring of a slot was paused by the last overwrite_freeze(), by CLOCK_MONOTONIC; 0, 0: it was not paused,
 * because its place has two rings.
 */
struct overwrite_pause {
	uint64_t from_ns, to_ns;
};
struct overwrite_pause overwrite_pause_of(const struct overwrite *overwrite, size_t slot);

/*
 * Appends the records of the frozen rings, ring after ring, each in the order of time. 0 or -ENOMEM. *ret_whole_from_ns
 * (NULL: not wanted), by the clock of the records: of those written since the last call, all from this time on are in
 * `out`; 0: all of them are.
 */
int overwrite_collect(struct overwrite *overwrite, struct buf *out, uint64_t *ret_whole_from_ns);

/* At the end, after the events were disabled: appends what all rings hold, in the same order; results as above. */
int overwrite_end(struct overwrite *overwrite, struct buf *out, uint64_t *ret_whole_from_ns);
int overwrite_end_into(struct overwrite *overwrite, struct writer *writer); /* the same into a writer */

/* NULL: all 0. */
struct overwrite_counters overwrite_counters(const struct overwrite *overwrite);
