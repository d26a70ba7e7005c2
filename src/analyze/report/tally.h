/* SPDX-License-Identifier: MIT */
/*
 * tally: the samples of one event, added up in cells: samples with the same place and call chain are one cell. Its
 * memory grows with the number of cells, not of samples. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/report/hist.h"
#include "base/hash_table.h"

/* The parts of a cell put together. */
struct tally_cell {
	struct hist_place place;
	uint32_t chain; /* in the stacks; 0: none */
	struct hist_amount amount;
};

/* Items of one size, each stored once, and numbered from 0 on in the order in which they first came. */
struct interned {
	uint32_t *items;
	uint32_t nr, room;
	struct hash_table numbers; /* plus 1, by the hash of the item */
};

/*
 * Most cells share their task with thousands of others, and their function with some: a cell is three numbers, its
 * amount and its slot in the hash table.
 */
struct tally {
	struct interned tasks, functions, cells; /* of the structs in tally.c */
	struct hist_amount *amounts;             /* of the cells, as they first came */
	uint32_t nr, room;
};

void tally_fini(struct tally *tally);

/*
 * The cell of exactly that place and chain, made when there is none. Fields that are not needed must be zero. 0 or
 * -ENOMEM.
 */
int tally_find(struct tally *tally, const struct hist_place *place, uint32_t chain, uint32_t *ret_cell);

/* cell < tally->nr */
struct tally_cell tally_cell(const struct tally *tally, uint32_t cell);

/* tally_cell().chain */
uint32_t tally_chain(const struct tally *tally, uint32_t cell);

/* What tally_select() makes of cells. */
struct tally_change {
	const bool *keep;       /* those that are marked; NULL: all */
	const uint32_t *chains; /* their new numbers, see stacks_choose(); NULL: as they are */
	/* Details in place of those of a cell that has some. NULL: as they are; if it returns NULL: out of memory. */
	const struct hist_details *(*details)(void *ctx, const struct hist_details *before);
	void *ctx;
};

/* Another tally with the cells of this one, in their order. Cells that are the same then are one. 0 or -ENOMEM. */
int tally_select(const struct tally *tally, const struct tally_change *change, struct tally *ret);

size_t tally_bytes(const struct tally *tally); /* of memory, about */

/* Amounts that a thread counts for itself, for each cell of a tally; tally_join() adds them to the cells. */
struct tally_share {
	struct hist_amount *amounts;
	uint32_t room;
};

void tally_share_fini(struct tally_share *share); /* zeroed is fine */

/* Makes room for all cells that the tally has now; new ones are zero. 0 or -ENOMEM. */
int tally_share_fit(struct tally_share *share, const struct tally *tally);

/* Adds the share to the tally, and empties it, so that it can be used again. */
void tally_join(struct tally *tally, struct tally_share *share);
