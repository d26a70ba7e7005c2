/* SPDX-License-Identifier: MIT */
/*
 * calltree: call chains as a tree, with what was counted for each. Made for one entry of a table, printed and
 * forgotten. One owner, one thread.
 *
 * What makes two frames one node, and the order of branches, are perf 6.1's rules.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/machine/stacks.h"
#include "base/hash_table.h"

enum calltree_key { CALLTREE_FUNCTION, CALLTREE_ADDRESS, CALLTREE_SRCLINE };

/* Texts for CALLTREE_SRCLINE: the line of a frame, as long as the tree lives. NULL: not known, its function counts. */
struct calltree_lines {
	const char *(*line)(void *ctx, uint32_t frame);
	void *ctx;
};

/* Branches that are below a share are left out, and the others ordered by their counts. */
enum calltree_sort {
	CALLTREE_ABSOLUTE, /* min_period is the limit for all */
	CALLTREE_RELATIVE, /* a share of what the parent's children have */
	CALLTREE_ENDS,     /* chains, not branches: by what was counted where they end; see calltree_end() */
};

/* A frame, or rather the run of frames without a branch that begins with it. Numbers are nodes; 0: none. */
struct calltree_node {
	uint32_t parent, child, next; /* first child, next sibling */
	uint32_t frame;               /* in the stacks */
	uint32_t last;                /* of its run, once sorted */
	uint32_t nr, children_nr;     /* chains that end here; that go on */
	uint64_t period, children_period;
};

struct calltree {
	const struct stacks *stacks; /* borrowed */
	enum calltree_key key;
	struct calltree_lines lines; /* for that key */
	struct calltree_node *nodes; /* [0] is the root */
	uint32_t nr, room;
	struct hash_table children; /* nodes, by parent and name of the frame */
	void **order;               /* for sorting siblings */
	void **ends;                /* after CALLTREE_ENDS: the nodes where chains end */
	uint32_t nr_ends;
	uint32_t *path; /* of the chain that is added */
	unsigned path_room;
	uint64_t *weights; /* see calltree_weigh() */
	uint16_t *weighed; /* the first of them that were added to */
	uint32_t nr_weighed;
	uint64_t least;
};

/* 0 or -ENOMEM. lines: NULL but for CALLTREE_SRCLINE; copied. */
int calltree_init(struct calltree *tree, const struct stacks *stacks, enum calltree_key key,
		  const struct calltree_lines *lines);
void calltree_fini(struct calltree *tree); /* NULL is fine, and what calltree_init() failed to make */

/* For the next entry. least: a period; what is below it is of no interest, see calltree_weigh(). 0: everything is. */
void calltree_clear(struct calltree *tree, uint64_t least);

enum calltree_direction {
	CALLTREE_CALLEE, /* the innermost frame is the root */
	CALLTREE_CALLER,
};

struct calltree_count {
	uint64_t period;
	uint32_t nr;
};

/* A chain without its first `skip` frames, in the direction it is seen in. */
struct calltree_chain {
	uint32_t chain, skip;
};

/*
 * Only with a least period: gives the period of each chain that will be added, before the first one is. Branches that
 * are too small then get no branches of their own. What is weighed is a fixed number of sums of some branches each, so
 * some that are too small are taken for larger, but none for smaller.
 */
void calltree_weigh(struct calltree *tree, struct calltree_chain chain, enum calltree_direction direction,
		    uint64_t period);

/* 0 or -ENOMEM */
int calltree_add(struct calltree *tree, struct calltree_chain chain, enum calltree_direction direction,
		 const struct calltree_count *count);

/*
 * limit: a period, not below the least, for ABSOLUTE and ENDS, a share (of 1) for RELATIVE. Afterwards nothing can be
 * added. 0 or -ENOMEM.
 */
int calltree_sort(struct calltree *tree, enum calltree_sort how, double limit);

/* After CALLTREE_ENDS, of tree->nr_ends: the node where a chain ends. */
uint32_t calltree_end(const struct calltree *tree, uint32_t which);

static inline uint64_t calltree_period(const struct calltree_node *node)
{
	return node->period + node->children_period;
}
