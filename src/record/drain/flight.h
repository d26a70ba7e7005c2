/* SPDX-License-Identifier: MIT */
/*
 * flight: the flight channel: rings that the kernel overwrites for ever, and snapshots of what they hold. Owned by the
 * recording; one thread at a time.
 *
 * Each place has two rings. A snapshot sends the live events to the other one (PERF_EVENT_IOC_SET_OUTPUT) and reads the
 * filled one afterwards: no moment is missed, and between two snapshots nothing is lost that fits. Where there is no
 * room for two, or the kernel does not send events to other rings, they are paused while they are copied, and the gap
 * is measured.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "record/setup/eventset.h"

struct buf;
struct diag;
struct flight;
struct writer;

struct flight_counters {
	uint64_t nr_snapshots, nr_records, bytes;
	uint64_t nr_pauses, paused_ns, longest_pause_ns; /* blind time: 0 with swapped rings */
	uint64_t nr_overwritten; /* rings, of all snapshots, that had more to hold than they could */
	uint64_t nr_broken;      /* rings that did not hold what they should; never seen */
};

/*
 * After eventset_open(), before anything is enabled. *ret is NULL when the plan has no flight channel: every function
 * takes that and does nothing. -errno with cause and remedy in the diag.
 */
int flight_open(const struct eventset *set, struct ring_sizes sizes, struct flight **ret, struct diag *reterr);
void flight_free(struct flight *flight); /* before eventset_close(); NULL is fine */

/*
 * The trigger: from here on records go to fresh rings, and what came before stands still until flight_collect(). Takes
 * some milliseconds for each event and CPU (the kernel waits for RCU): not on a thread that drains. -EBUSY: what the
 * last call froze has not been collected yet. -errno of an ioctl: nothing is lost, but what stands still may be short.
 */
int flight_freeze(struct flight *flight);

/* When the ring of a slot was paused by the last flight_freeze(), by CLOCK_MONOTONIC; 0, 0: its rings are swapped. */
struct flight_pause {
	uint64_t from_ns, to_ns;
};
struct flight_pause flight_pause_of(const struct flight *flight, size_t slot);

/*
 * What stands still, ring after ring, each in the order of time. 0 or -ENOMEM. *ret_whole_from_ns, by the clock of
 * records: of what came since the last call, all that is not older is there; 0: all is. NULL: not wanted.
 */
int flight_collect(struct flight *flight, struct buf *out, uint64_t *ret_whole_from_ns);

/* The end: what the rings hold, after the events were disabled, in the same order. */
int flight_end(struct flight *flight, struct buf *out, uint64_t *ret_whole_from_ns);
int flight_end_into(struct flight *flight, struct writer *writer); /* likewise, written at once */

/* NULL: all 0. */
struct flight_counters flight_counters(const struct flight *flight);
