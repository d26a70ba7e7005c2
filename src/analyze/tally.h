/* SPDX-License-Identifier: MIT */
/*
 * tally: the samples of one event, those that are alike in everything that is asked for counted together. What it
 * takes grows with the places and call chains that there are, not with the samples. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "analyze/hist.h"
#include "analyze/interned.h"

/* As it is put together for who asks. */
struct tally_cell {
	struct hist_place place;
	uint32_t chain; /* in the stacks; 0: none */
	struct hist_amount amount;
};

/*
 * Most cells share their task with thousands of others, and their function with some: a cell is three numbers and its amount,
 * 28 bytes, and six to eleven to be found by.
 */
struct tally {
	struct interned tasks, functions, cells; /* of the structs in tally.c */
	struct hist_amount *amounts;             /* of the cells, as they first came */
	uint32_t nr, room;
};

void tally_fini(struct tally *tally);

/* The cell of exactly that place and chain, made when there is none. Fields that nobody asks for must be zero. 0 or -ENOMEM. */
int tally_find(struct tally *tally, const struct hist_place *place, uint32_t chain, uint32_t *ret_cell);

/* cell < tally->nr */
struct tally_cell tally_cell(const struct tally *tally, uint32_t cell);

/* Amounts that a thread counts beside the tally: of each of its cells, to be added to them. */
struct tally_share {
	struct hist_amount *amounts;
	uint32_t room;
};

void tally_share_fini(struct tally_share *share); /* zeroed is fine */

/* Room for all cells that there are now; those that came since the last time are zero. 0 or -ENOMEM. */
int tally_share_fit(struct tally_share *share, const struct tally *tally);

/* Adds it, and frees it: there may be another one. */
void tally_join(struct tally *tally, struct tally_share *share);
