/* SPDX-License-Identifier: MIT */
/*
 * producers: what streams share that drain into one output, each with a thread of its own: when a round is due, and
 * when it is whole. Owned by that output.
 *
 * A mark promises that what follows is not older than what stood before the mark that came before it. So a round is
 * whole when each producer has visited all its rings in a pass that began behind the last mark, and what it found has
 * its place in the output. No thread waits: the last one puts the mark.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct producers_params {
	size_t nr;            /* producers that have rings */
	uint64_t round_bytes; /* a round is due when so many have come since the last mark; 0: never */
	uint64_t wake_bytes;  /* and so many are worth waking producers that have nothing to do */
};

struct producers {
	struct producers_params params;
	_Atomic uint64_t epoch;          /* counts marks; the first is 1 */
	_Atomic uint64_t unmarked_bytes; /* about */
	atomic_size_t nr_missing;        /* of the present epoch: producers that have not reported a pass */
	atomic_bool woken;               /* in the present epoch */
	_Atomic uint64_t reported_bytes; /* producers_report_stored() */
};

void producers_init(struct producers *producers, const struct producers_params *params);

/* Before the first ring of a pass is read. */
uint64_t producers_epoch(struct producers *producers);

/* Is a round due, now that a pass has brought `bytes`? With `end`, any byte is reason enough. */
bool producers_due(struct producers *producers, uint64_t bytes, bool end);
/* Counts them, when they have their place in the output. */
void producers_count(struct producers *producers, uint64_t bytes);

/* A producer's pass of this epoch, once. true: it was the last one, puts the mark and then calls producers_marked(). */
bool producers_report(struct producers *producers);
void producers_marked(struct producers *producers, uint64_t bytes_before);

/* Should the others be woken? true once for each round. */
bool producers_wake_due(struct producers *producers);

/* What is stored in the output: by how much it is more than any producer has told yet. */
uint64_t producers_report_stored(struct producers *producers, uint64_t stored);
