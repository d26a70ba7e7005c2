/* SPDX-License-Identifier: MIT */
/*
 * ring_growth: exchanges rings for larger ones while events flow. A thread of its own opens a carrier with a larger ring and
 * sends the events there one after the other, for each of which the kernel waits; the reader visits both rings meanwhile.
 * Owned by the recording.
 *
 * Each ring takes its steps between the two threads, and whose turn it is may touch what the step is about.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/feature_ledger.h"

struct eventset;
struct ring;

enum growth_step {
	GROWTH_STEADY,   /* reader: ask for a larger one */
	GROWTH_WANTED,   /* grower: make one */
	GROWTH_PREPARED, /* reader: visit it, too, and poll no event that is going to be sent there: poll(2) would wait for that */
	GROWTH_MUTED,    /* grower: send the events there */
	GROWTH_MOVED,    /* reader: poll as ever, and drain the old one to its end */
	GROWTH_LEAVING,  /* reader: the end is not reached yet */
	GROWTH_DRAINED,  /* grower: unmap the old one */
	GROWTH_SPLIT,    /* reader: the kernel refused on the way: both stay. Poll both */
	GROWTH_FIXED,    /* it stays as it is */
};

/* After so many visits that found it nearly full a ring is too small. */
enum { GROWTH_TIGHT_VISITS = 2 };

struct growth_bounds {
	size_t ring_bytes; /* of one ring */
	uint64_t all_bytes; /* of all rings together, also while two are there for one */
};

/* The next size of a ring of `bytes` when all have all_bytes; 0: none. Pure. */
size_t growth_size(const struct growth_bounds *bounds, size_t bytes, uint64_t all_bytes);

struct growing_ring {
	_Atomic(enum growth_step) step;
	int wake_fd; /* borrowed: of the reader */
	struct ring *current, *larger; /* heap, but the first, which is the eventset's; larger: from PREPARED on */
	int larger_fd; /* its carrier */
	size_t bytes; /* of the current one */
	size_t nr_events; /* that are sent to it */
};

struct ring_growth {
	struct eventset *set; /* borrowed; ring_fds of carried rings are the grower's while it runs */
	struct growth_bounds bounds;
	struct growing_ring *rings; /* heap; by drained ring of the plan */
	uint64_t all_bytes;
	int news_fd; /* eventfd(2) */
	atomic_bool quit;
	pthread_t thread;
	bool started;
	struct ledger done; /* its actions alone, with times of CLOCK_MONOTONIC; the grower's while it runs */
};

/* What is sane on this machine. */
struct growth_bounds growth_bounds_here(void);

/* 0 or -errno; a set without carriers has rings that are GROWTH_FIXED, and no thread. */
int ring_growth_open(struct ring_growth *growth, struct eventset *set, const struct growth_bounds *bounds);
int ring_growth_start(struct ring_growth *growth);

/* What is under way is left as it is. Before the readers are stopped, which then drain all there is. Idempotent. */
void ring_growth_stop(struct ring_growth *growth);
void ring_growth_close(struct ring_growth *growth); /* after the readers; zeroed is fine */

/* Tells the ledger what was done. After ring_growth_stop(). 0 or -ENOMEM. */
int ring_growth_account(const struct ring_growth *growth, struct ledger *ledger);

/* For readers. */
enum growth_step ring_growth_step(const struct ring_growth *growth, size_t ring);
void ring_growth_turn(struct ring_growth *growth, size_t ring, enum growth_step step); /* and tells the grower */
