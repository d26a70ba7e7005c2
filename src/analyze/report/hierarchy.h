/* SPDX-License-Identifier: MIT */
/*
 * hierarchy: the entries of a hist as a tree: at the top by the first of its keys, below each by the next ones, and so
 * on; the leaves are the entries themselves. One owner (hierarchy_free), one thread.
 */
#pragma once

#include <stdbool.h>

#include "analyze/report/hist.h"

struct hierarchy;

struct hierarchy_node {
	const struct hist_entry *entry; /* of a leaf, one of the hist; else the sum of all leaves below */
	const struct hierarchy_node *below, *next;
	bool is_leaf, is_shown; /* shown: the entry, or a leaf below, is not filtered */
};

/* Keys that are a level together. */
struct hierarchy_level {
	enum hist_column keys[HIST_KEYS];
	unsigned nr;
};

/*
 * Sorts the hist, whose members are linked, and which outlives the tree. The levels' keys are all among its own; those
 * that are in none must be alike for all entries of a leaf that are shown. 0 or -ENOMEM.
 */
int hierarchy_new(struct hist *leaves, const struct hierarchy_level levels[], unsigned nr, struct hierarchy **ret);
void hierarchy_free(struct hierarchy *hierarchy); /* NULL is fine */

static inline void hierarchy_cleanup(struct hierarchy **hierarchy)
{
	hierarchy_free(*hierarchy);
}
#define AUTO_HIERARCHY __attribute__((cleanup(hierarchy_cleanup)))

/* Siblings are in the order of the hist; NULL: there are no entries. */
const struct hierarchy_node *hierarchy_first(const struct hierarchy *hierarchy);
