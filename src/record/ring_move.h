/* SPDX-License-Identifier: MIT */
/*
 * ring_move: rings on their way from the reader that drains them to another, while events flow; of one reader at a time. Owned
 * by the recording, shared with the readers: whose turn it is may touch what it is about.
 *
 * A reader lets go of rings between two of its passes, when it has visited them; it gives away their fds, and either the rings
 * alone, where streams share an output (stream_gate), or each with its stream and file, of a data directory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/polls.h"

struct balance_move;
struct reader;
struct reader_control;
struct stream;

enum ring_move_step {
	RING_MOVE_NONE,    /* main thread: order one */
	RING_MOVE_ORDERED, /* reader `from`: let go of them */
	RING_MOVE_POSTED,  /* reader `to`: take them before the next pass */
	RING_MOVE_STEPS,
};

struct ring_move {
	_Atomic size_t turn;   /* step and reader together, who else would look at the one when the other has changed */
	size_t *rings;         /* heap; of the plan; of its data channel. From RING_MOVE_POSTED on those that go */
	size_t nr_rings;
	size_t from, to;       /* readers, by index */
	struct stream **streams; /* heap; by the same index: goes along; NULL: `to` has one for all its rings */
	struct polls polls;    /* their fds, on their way */
	uint64_t done_ns;      /* CLOCK_MONOTONIC; when the last one was taken */
};

int ring_move_init(struct ring_move *move, size_t nr_rings, size_t nr_fds); /* for so many. 0 or -ENOMEM */
void ring_move_fini(struct ring_move *move);               /* zeroed is fine */

static inline size_t ring_move_turn_of(enum ring_move_step step, size_t reader)
{
	return step + RING_MOVE_STEPS * reader;
}

/* Of that reader; of RING_MOVE_NONE 0. NULL: rings stay. */
static inline bool ring_move_is(const struct ring_move *move, enum ring_move_step step, size_t reader)
{
	/* Pairs with the release of whoever made it our turn. */
	return move && atomic_load_explicit(&move->turn, memory_order_acquire) == ring_move_turn_of(step, reader);
}

/* For the main thread, when nothing is under way. Reader `from` has the rings, and is woken. */
void ring_move_order(struct ring_move *move, const struct reader_control *control, const struct balance_move *wanted);

/* For readers whose turn it is. What is being exchanged for a larger one stays; while that is all, so does the turn. */
void ring_move_let_go(struct ring_move *move, struct reader *reader);
void ring_move_take(struct ring_move *move, struct reader *reader);
