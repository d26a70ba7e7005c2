/* SPDX-License-Identifier: MIT */
/*
 * lanes: what streams share that drain into one output, each with a thread of its own: when a round is due, and when
 * it is whole. Owned by that output.
 *
 * A mark promises that what follows is not older than what stood before the mark that came before it. So a round is
 * whole when each lane has visited all its rings in a pass that began behind the last mark, and what it found has its
 * place in the output. No thread waits: the last one puts the mark.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lanes_params {
	size_t nr;            /* lanes that have rings */
	uint64_t round_bytes; /* a round is due when so many have come since the last mark; 0: never */
	uint64_t hurry_bytes; /* and so many are worth waking lanes that have nothing to do */
};

struct lanes {
	struct lanes_params params;
	_Atomic uint64_t epoch;          /* counts marks; the first is 1 */
	_Atomic uint64_t unmarked_bytes; /* about */
	atomic_size_t nr_missing;        /* of the present epoch: lanes that have not reported a pass */
	atomic_bool hurried;             /* in the present epoch */
	_Atomic uint64_t told_bytes;     /* lanes_tell() */
};

void lanes_init(struct lanes *lanes, const struct lanes_params *params);

/* Before the first ring of a pass is read. */
uint64_t lanes_epoch(struct lanes *lanes);

/* Is a round due, now that a pass has brought `bytes`? With `end`, any byte is reason enough. */
bool lanes_due(struct lanes *lanes, uint64_t bytes, bool end);
/* Counts them, when they have their place in the output. */
void lanes_count(struct lanes *lanes, uint64_t bytes);

/* A lane's pass of this epoch, once. true: it was the last one, puts the mark and then calls lanes_marked(). */
bool lanes_report(struct lanes *lanes);
void lanes_marked(struct lanes *lanes, uint64_t bytes_before);

/* Should the others be woken? true once for each round. */
bool lanes_hurry(struct lanes *lanes);

/* What is stored in the output: by how much it is more than any lane has told yet. */
uint64_t lanes_tell(struct lanes *lanes, uint64_t stored);
