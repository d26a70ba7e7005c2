/* SPDX-License-Identifier: MIT */
/*
 * hierarchy: the entries of a hist as a tree. The entries at the top differ by the keys of the first level, those below
 * them by the keys of the next level, and so on; the leaves are the entries of the hist. One owner (hierarchy_free),
 * one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyze/report/hist.h"

struct hierarchy;

struct hierarchy_node {
	struct hist_entry *entry;            /* of a leaf: an entry of the hist; else the sum of all leaves below */
	struct hierarchy_node *above;        /* NULL: at the top */
	struct hierarchy_node *below, *next; /* siblings are in the order of the hist */
	unsigned level;                      /* 0 at the top */
	bool is_leaf, is_shown;              /* shown: the entry, or a leaf below, is not filtered */
	bool is_open, is_chosen;             /* false at first; for the use of the view */
};

/* The keys of one level. */
struct hierarchy_level {
	enum hist_column keys[HIST_KEYS];
	unsigned nr;
};

/*
 * Makes the tree of a hist, and sorts the hist, whose group members must be linked (hist_link()) and which must outlive
 * the tree. All keys of the levels are keys of the hist. For keys of the hist that are in no level, all shown entries
 * of a leaf must be equal. 0 or -ENOMEM.
 */
int hierarchy_new(struct hist *leaves, const struct hierarchy_level levels[], unsigned nr, struct hierarchy **ret);
void hierarchy_free(struct hierarchy *hierarchy); /* NULL is fine */

static inline void hierarchy_cleanup(struct hierarchy **hierarchy)
{
	hierarchy_free(*hierarchy);
}
#define AUTO_HIERARCHY __attribute__((cleanup(hierarchy_cleanup)))

struct hierarchy_node *hierarchy_first(const struct hierarchy *hierarchy); /* NULL: there are no entries */
size_t hierarchy_nr(const struct hierarchy *hierarchy);                    /* all nodes */

/*
 * The node of that level that counts a place, which may come from another tree with the same levels; NULL: there is
 * none.
 */
struct hierarchy_node *hierarchy_find(const struct hierarchy *hierarchy, const struct hist_place *place,
				      unsigned level);
