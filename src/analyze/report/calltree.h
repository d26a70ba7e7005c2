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

enum calltree_direction {
	CALLTREE_CALLEE, /* the innermost frame is the root */
	CALLTREE_CALLER,
};

enum calltree_key { CALLTREE_FUNCTION, CALLTREE_ADDRESS, CALLTREE_SRCLINE };

/* Texts for CALLTREE_SRCLINE: the line of a frame, as long as the tree lives. NULL: not known, its function counts. */
struct calltree_lines {
	const char *(*line)(void *ctx, uint32_t frame);
	void *ctx;
};

/* How calltree_sort() orders branches by their counts, and which small ones it leaves out. */
enum calltree_sort {
	CALLTREE_ABSOLUTE, /* the limit is a period, the same for all branches */
	CALLTREE_RELATIVE, /* the limit is a share of the period of all children of the parent */
	CALLTREE_ENDS, /* chains instead of branches, by the period of the node where they end; see calltree_end() */
};

/*
 * A frame, or, once sorted, a run of frames without a branch, of which this is the first. Nodes are identified by
 * numbers; 0: none.
 */
struct calltree_node {
	uint32_t parent, child, next; /* first child, next sibling */
	uint32_t frame;               /* in the stacks */
	uint32_t last;                /* of its run, once sorted */
	uint32_t nr, children_nr;     /* numbers of chains: that end here; that have further frames */
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
	uint32_t *path; /* frames or links of the chain that is added */
	unsigned path_room;
	uint32_t *hashes; /* of frames, by their numbers; 0: not known yet. As many as there were when it was cleared */
	uint32_t nr_hashes;
	enum calltree_direction direction;
	uint64_t least;
	struct calltree_branch *branches; /* of CALLTREE_CALLER: what was added */
	uint32_t nr_branches, branches_room;
	uint32_t *branch_of; /* chains, by their numbers, as many as there were when it was cleared */
	uint32_t nr_chains;
	struct calltree_level *levels; /* [1 to path_room] */
	bool weighs;
	uint64_t *weights; /* see calltree_weigh() */
	uint16_t *weighed; /* the first of them that were added to */
	uint32_t nr_weighed;
};

/* 0 or -ENOMEM. lines: needed for CALLTREE_SRCLINE, else NULL; copied. */
int calltree_init(struct calltree *tree, const struct stacks *stacks, enum calltree_key key,
		  const struct calltree_lines *lines);
void calltree_fini(struct calltree *tree); /* NULL is fine, and a tree for which calltree_init() failed */

/*
 * Empties the tree for the next entry, for chains that the stacks have now. least: branches with a smaller period may
 * be left out; 0: none. Sets tree->weighs.
 */
void calltree_clear(struct calltree *tree, enum calltree_direction direction, uint64_t least);

struct calltree_count {
	uint64_t period;
	uint32_t nr;
};

/* A chain of the stacks without its first `skip` frames in the direction of the tree. */
struct calltree_chain {
	uint32_t chain, skip;
};

/*
 * Only if tree->weighs: to be called for each chain that will be added, before the first calltree_add(). Then
 * calltree_add() makes no nodes below a branch whose period is less than `least`. The periods are summed in a table of
 * fixed size, where several branches may share a sum: so some small branches get nodes, but no branch with the least
 * period or more lacks them.
 */
void calltree_weigh(struct calltree *tree, struct calltree_chain chain, uint64_t period);

/* 0 or -ENOMEM */
int calltree_add(struct calltree *tree, struct calltree_chain chain, const struct calltree_count *count);

/* Once, behind the last calltree_add(): then the nodes are there, with their counts. 0 or -ENOMEM */
int calltree_sum_up(struct calltree *tree);

/*
 * limit: for ABSOLUTE and ENDS a period, not less than `least`; for RELATIVE a share, from 0 to 1. Afterwards no chain
 * can be added. 0 or -ENOMEM.
 */
int calltree_sort(struct calltree *tree, enum calltree_sort how, double limit);

/* After CALLTREE_ENDS: the node in which chain number `which` ends; which < tree->nr_ends. */
uint32_t calltree_end(const struct calltree *tree, uint32_t which);

static inline uint64_t calltree_period(const struct calltree_node *node)
{
	return node->period + node->children_period;
}
