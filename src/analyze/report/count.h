/* SPDX-License-Identifier: MIT */
/*
 * count: converts the cells of a tally to entries of a hist, also for their callers, and makes the call tree of one
 * entry. One thread at a time for a tally.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/machine/stacks.h"
#include "analyze/report/calltree.h"
#include "analyze/report/hist.h"
#include "analyze/report/tally.h"

/* What the caller decides about cells and callers. Each may be NULL. */
struct count_rules {
	/* Is the cell counted at all? NULL: all are. */
	bool (*counts)(const void *ctx, const struct tally_cell *cell);
	/* Of a cell whose place is filtered: is it hidden whatever its symbol, so that its callers are hidden, too? */
	bool (*hides_sample)(const void *ctx, const struct hist_place *place);
	bool (*hides_symbol)(const void *ctx, const struct symbol *symbol);
	/* The details of a caller. NULL: out of memory. Called for places with details only. */
	const struct hist_details *(*caller_details)(const void *ctx, const struct hist_details *callee,
						     const struct location *at);
	/*
	 * What callers of samples with these details have in common: where it is the same, caller_details() depends on
	 * the place alone. NULL: the details themselves are; if it returns NULL: out of memory.
	 */
	const void *(*caller_common)(const void *ctx, const struct hist_details *callee);
	const void *ctx;
};

struct count_options {
	struct hist_options hist;          /* children: callers are counted; by_depth is filled in */
	bool uses;                         /* note where entries occur: there will be call trees */
	enum calltree_direction direction; /* in which callers are counted */
	struct count_rules rules;
};

/* *ret: hist_free(). Cells without samples are left out. 0 or -ENOMEM. */
int count_cells(const struct tally *tally, const struct stacks *stacks, const struct count_options *options,
		struct hist **ret);

/* Makes a hist with the options of count_cells(), but without entries. 0 or -ENOMEM. */
int count_nothing(const struct count_options *options, struct hist **ret);

/* An entry with uses, and the tally that it was counted of. */
struct count_part {
	const struct tally *tally;
	const struct hist_entry *entry;
};

/*
 * Makes the call tree of an entry, or of equal entries of several tallies with common stacks together, before
 * calltree_sort(). Branches with a period below `least` may be left out; 0: none. 0 or -ENOMEM.
 */
int count_tree(const struct count_part parts[], unsigned nr, enum calltree_direction direction, uint64_t least,
	       struct calltree *tree);
