/* SPDX-License-Identifier: MIT */
#include "analyze/report/calltree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/rbtree.h"

enum {
	FIRST_NODES = 64,
	NR_WEIGHTS = 1 << 15,
	MOST_WEIGHED = 1 << 12,
	FEW_CHAINS = 1 << 15, /* nodes for all of them take 1.5 MiB */
	MOST_BRANCHES = UINT32_MAX / 4,
};

/*
 * A chain without its first `skip` frames, for CALLTREE_CALLER: many of them become one node. Its number is higher than
 * that of its parent, and than those of all that were added before it. [0] is the root.
 */
struct calltree_branch {
	uint32_t chain, skip;
	uint32_t parent, next; /* next: of the same depth */
	union {
		uint32_t depth; /* while chains are added */
		uint32_t node;  /* then; 0: it has none */
	};
	uint32_t nr; /* like period: of what ends here, then also of what is below */
	uint64_t period;
};

/* Branches of one depth, in the order of their numbers. */
struct calltree_level {
	uint32_t first, last; /* 0: none */
};

int calltree_init(struct calltree *tree, const struct stacks *stacks, enum calltree_key key,
		  const struct calltree_lines *lines)
{
	*tree = (struct calltree){.stacks = stacks, .key = key};
	if (lines)
		tree->lines = *lines;
	tree->path_room = stacks_depth(stacks);
	tree->path = calloc(tree->path_room + 1, sizeof(*tree->path));
	tree->nodes = calloc(FIRST_NODES, sizeof(*tree->nodes));
	tree->levels = calloc(tree->path_room + 1, sizeof(*tree->levels));
	tree->weights = calloc(NR_WEIGHTS, sizeof(*tree->weights));
	tree->weighed = calloc(MOST_WEIGHED, sizeof(*tree->weighed));
	if (!tree->path || !tree->nodes || !tree->levels || !tree->weights || !tree->weighed) {
		calltree_fini(tree);
		return -ENOMEM;
	}
	tree->room = FIRST_NODES;
	tree->nr = 1;
	return 0;
}

void calltree_fini(struct calltree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	hash_table_fini(&tree->children);
	free(tree->order);
	free(tree->ends);
	free(tree->path);
	free(tree->hashes);
	free(tree->levels);
	free(tree->branches);
	free(tree->branch_of);
	free(tree->weights);
	free(tree->weighed);
	*tree = (struct calltree){0};
}

/* More frames and chains may have become known: zeroes for them. Without memory the array stays as it is. */
static void extend(uint32_t **array, uint32_t *nr, uint32_t wanted)
{
	uint32_t *extended = wanted > *nr ? reallocarray(*array, wanted, sizeof(*extended)) : NULL;

	if (!extended)
		return;
	memset(extended + *nr, 0, (wanted - *nr) * sizeof(*extended));
	*array = extended;
	*nr = wanted;
}

static void clear_weights(struct calltree *tree)
{
	/* Most entries have few chains. */
	if (tree->nr_weighed == MOST_WEIGHED)
		memset(tree->weights, 0, NR_WEIGHTS * sizeof(*tree->weights));
	else
		for (uint32_t i = 0; i < tree->nr_weighed; i++)
			tree->weights[tree->weighed[i]] = 0;
	tree->nr_weighed = 0;
}

void calltree_clear(struct calltree *tree, enum calltree_direction direction, uint64_t least)
{
	/* Without memory for them hashes are made each time, and chains cannot be added. */
	extend(&tree->hashes, &tree->nr_hashes, stacks_end_frame(tree->stacks));
	tree->direction = direction;
	if (direction == CALLTREE_CALLER) {
		extend(&tree->branch_of, &tree->nr_chains, stacks_end_chain(tree->stacks));
		memset(tree->levels, 0, (tree->path_room + 1) * sizeof(*tree->levels));
		tree->nr_branches = 0;
		tree->least = least;
		tree->weighs = false;
	} else {
		clear_weights(tree);
		tree->weighs = least && stacks_end_chain(tree->stacks) > FEW_CHAINS;
		tree->least = tree->weighs ? least : 0;
	}
	hash_table_clear(&tree->children);
	tree->nodes[0] = (struct calltree_node){0};
	tree->nr = 1;
	tree->nr_ends = 0;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Objects are ordered as they became known: perf does it by their addresses in memory. */
static int compare_in_dso(const struct location *a, uint64_t at_a, const struct location *b, uint64_t at_b)
{
	if (a->dso != b->dso)
		return compare_u64(a->dso ? a->dso->age : 0, b->dso ? b->dso->age : 0);
	return compare_u64(at_a, at_b);
}

static const char *frame_line(const struct calltree *tree, uint32_t frame)
{
	return tree->key == CALLTREE_SRCLINE ? tree->lines.line(tree->lines.ctx, frame) : NULL;
}

static uint32_t make_frame_hash(const struct calltree *tree, uint32_t frame)
{
	const char *line = frame_line(tree, frame);

	if (line)
		return (uint32_t)(hash_text(line) >> 32);
	return tree->key == CALLTREE_ADDRESS ? (uint32_t)(hash_mix(1, stacks_location(tree->stacks, frame)->ip) >> 32)
					     : stacks_frame_hash(tree->stacks, frame);
}

/* Alike for frames that are equal. */
static uint32_t frame_hash(const struct calltree *tree, uint32_t frame)
{
	if (frame >= tree->nr_hashes)
		return make_frame_hash(tree, frame);
	if (!tree->hashes[frame])
		tree->hashes[frame] = make_frame_hash(tree, frame);
	return tree->hashes[frame];
}

static int compare_frames(const struct calltree *tree, uint32_t left, uint32_t right)
{
	if (left == right)
		return 0;
	const char *a_line = frame_line(tree, left), *b_line = frame_line(tree, right);
	if (a_line && b_line)
		return a_line == b_line ? 0 : strcmp(a_line, b_line);
	const struct location *a = stacks_location(tree->stacks, left), *b = stacks_location(tree->stacks, right);
	if (tree->key == CALLTREE_ADDRESS || !a->symbol || !b->symbol)
		return compare_in_dso(a, a->ip, b, b->ip);
	/* Functions that were inlined into one have all its range. */
	if (a->symbol->inlined || b->symbol->inlined || a->symbol->by_name || b->symbol->by_name)
		return strcmp(a->symbol->name, b->symbol->name);
	return compare_in_dso(a, a->symbol->start, b, b->symbol->start);
}

static int find_child(struct calltree *tree, uint32_t parent, uint32_t frame, uint32_t hash, uint32_t *ret)
{
	uint64_t key = (uint64_t)parent << 32 | hash;

	for (struct hash_slot *slot = hash_table_find(&tree->children, key); slot;
	     slot = hash_table_next(&tree->children, slot)) {
		*ret = (uint32_t)slot->number;
		if (compare_frames(tree, tree->nodes[*ret].frame, frame) == 0)
			return 0;
	}
	if (array_room_up_to(tree->nodes, tree->nr, tree->room, UINT32_MAX / 4))
		return -ENOMEM;
	if (hash_table_add_number(&tree->children, key, tree->nr))
		return -ENOMEM;
	uint32_t new = tree->nr++;
	tree->nodes[new] = (struct calltree_node){.parent = parent, .frame = frame, .next = tree->nodes[parent].child};
	tree->nodes[parent].child = *ret = new;
	return 0;
}

/* The frames of a chain into tree->path, the innermost first. Returns how many. */
static uint32_t take_path(struct calltree *tree, uint32_t chain)
{
	return stacks_frames(tree->stacks, chain, tree->path, tree->path_room);
}

/* The sum that a branch is weighed in, from that of the branch it is on. */
static uint64_t weigh_in(uint64_t in, uint32_t hash)
{
	uint64_t value = (in ^ hash) * 0x9e3779b97f4a7c15ull;

	return value ^ value >> 32;
}

void calltree_weigh(struct calltree *tree, struct calltree_chain chain, uint64_t period)
{
	uint32_t nr = take_path(tree, chain.chain);
	uint64_t in = 0;

	for (uint32_t i = chain.skip; i < nr; i++) {
		in = weigh_in(in, frame_hash(tree, tree->path[i]));
		uint16_t which = in % NR_WEIGHTS;
		tree->weights[which] += period;
		if (tree->nr_weighed < MOST_WEIGHED)
			tree->weighed[tree->nr_weighed++] = which;
	}
}

/*
 * 0: there is none. What a chain was before says nothing after calltree_clear(); of several branches of one chain, with
 * other frames left out, the newest is known: others are made again, and become the same nodes.
 */
static uint32_t find_branch(const struct calltree *tree, uint32_t chain, uint32_t skip)
{
	const uint32_t branch = tree->branch_of[chain];

	if (branch >= tree->nr_branches || tree->branches[branch].chain != chain || tree->branches[branch].skip != skip)
		return 0;
	return branch;
}

/* Becomes the number of a branch below *branch. */
static int add_branch(struct calltree *tree, uint32_t chain, uint32_t skip, uint32_t *branch)
{
	if (array_room_up_to(tree->branches, tree->nr_branches, tree->branches_room, MOST_BRANCHES))
		return -ENOMEM;
	const uint32_t new = tree->nr_branches++, depth = tree->branches[*branch].depth + 1;
	struct calltree_level *level = &tree->levels[depth];
	tree->branches[new] = (struct calltree_branch){.chain = chain, .skip = skip, .parent = *branch, .depth = depth};
	if (level->last)
		tree->branches[level->last].next = new;
	else
		level->first = new;
	level->last = new;
	tree->branch_of[chain] = *branch = new;
	return 0;
}

static int add_root(struct calltree *tree)
{
	if (array_room_up_to(tree->branches, tree->nr_branches, tree->branches_room, MOST_BRANCHES))
		return -ENOMEM;
	tree->branches[tree->nr_branches++] = (struct calltree_branch){0};
	return 0;
}

/* Chains share their outer frames: only those that no other one had are new. Nodes are made of all in the end. */
static int add_caller(struct calltree *tree, struct calltree_chain chain, const struct calltree_count *count)
{
	uint32_t nr = 0, branch = 0;

	if (chain.chain >= tree->nr_chains || (!tree->nr_branches && add_root(tree)))
		return -ENOMEM;
	for (uint32_t at = chain.chain; at && nr < tree->path_room; at = stacks_outer(tree->stacks, at)) {
		branch = find_branch(tree, at, chain.skip);
		if (branch)
			break;
		tree->path[nr++] = at;
	}
	if (!branch && nr <= chain.skip)
		return 0;
	nr -= branch ? 0 : chain.skip;
	while (nr && tree->branches[branch].depth < tree->path_room)
		if (add_branch(tree, tree->path[--nr], chain.skip, &branch))
			return -ENOMEM;
	tree->branches[branch].period += count->period;
	tree->branches[branch].nr += count->nr;
	return 0;
}

/* Chains share their outer frames, so that there is little to know. */
static int add_callee(struct calltree *tree, struct calltree_chain chain, const struct calltree_count *count)
{
	uint32_t at = 0, nr = take_path(tree, chain.chain);
	uint64_t in = 0;

	if (nr <= chain.skip)
		return 0;
	for (uint32_t i = chain.skip; i < nr; i++) {
		if (at && tree->least && tree->weights[in % NR_WEIGHTS] < tree->least) {
			tree->nodes[at].children_period += count->period;
			tree->nodes[at].children_nr += count->nr;
			return 0;
		}
		uint32_t hash = frame_hash(tree, tree->path[i]);
		if (find_child(tree, at, tree->path[i], hash, &at))
			return -ENOMEM;
		in = weigh_in(in, hash);
	}
	tree->nodes[at].period += count->period;
	tree->nodes[at].nr += count->nr;
	return 0;
}

int calltree_add(struct calltree *tree, struct calltree_chain chain, const struct calltree_count *count)
{
	return tree->direction == CALLTREE_CALLER ? add_caller(tree, chain, count) : add_callee(tree, chain, count);
}

static void sum_up_branches(struct calltree *tree)
{
	for (uint32_t i = tree->nr_branches; i-- > 1;) {
		const struct calltree_branch *branch = &tree->branches[i];
		tree->branches[branch->parent].period += branch->period;
		tree->branches[branch->parent].nr += branch->nr;
	}
}

/*
 * A branch below those that have nodes. Only where the parent's period, which is known now, reaches the least one, or
 * for its parent: so nodes are few, and as they would be in the order in which chains were added.
 */
static int make_node(struct calltree *tree, struct calltree_branch *branch)
{
	const uint32_t parent = tree->branches[branch->parent].node;

	branch->node = 0;
	if (branch->parent && (!parent || calltree_period(&tree->nodes[parent]) < tree->least))
		return 0;
	const uint32_t frame = stacks_frame(tree->stacks, branch->chain);
	if (find_child(tree, parent, frame, frame_hash(tree, frame), &branch->node))
		return -ENOMEM;
	tree->nodes[branch->node].period += branch->period;
	tree->nodes[branch->node].nr += branch->nr;
	return 0;
}

/* One depth after the other, as what is to be known of a node is the sum of all its branches. */
static int make_nodes(struct calltree *tree)
{
	for (uint32_t depth = 1; depth <= tree->path_room; depth++) {
		const uint32_t end = tree->nr;
		for (uint32_t at = tree->levels[depth].first; at; at = tree->branches[at].next)
			if (make_node(tree, &tree->branches[at]))
				return -ENOMEM;
		if (tree->nr == end)
			break;
	}
	for (uint32_t i = tree->nr; i-- > 1;) {
		const struct calltree_node *node = &tree->nodes[i];
		struct calltree_node *parent = &tree->nodes[node->parent];
		const uint64_t period = calltree_period(node);
		const uint32_t nr = node->nr + node->children_nr;
		if (node->parent) {
			parent->period -= period;
			parent->nr -= nr;
		}
		parent->children_period += period;
		parent->children_nr += nr;
	}
	return 0;
}

static void sum_up_nodes(struct calltree *tree)
{
	/* Children come behind their parents. */
	for (uint32_t i = tree->nr; i-- > 1;) {
		const struct calltree_node *node = &tree->nodes[i];
		struct calltree_node *parent = &tree->nodes[node->parent];
		parent->children_period += calltree_period(node);
		parent->children_nr += node->nr + node->children_nr;
	}
}

int calltree_sum_up(struct calltree *tree)
{
	if (tree->direction == CALLTREE_CALLEE) {
		sum_up_nodes(tree);
		return 0;
	}
	sum_up_branches(tree);
	return tree->nr_branches ? make_nodes(tree) : 0;
}

/* perf's first tree of siblings: backwards. */
static int compare_first(const void *left, const void *right, const void *ctx)
{
	const struct calltree_node *a = left, *b = right;

	return compare_frames(ctx, b->frame, a->frame);
}

/* Larger first; equals in the order in which perf comes across them. */
static int compare_size(const void *left, const void *right, const void *ctx)
{
	const struct calltree_node *a = left, *b = right;

	(void)ctx;
	return compare_u64(calltree_period(b), calltree_period(a));
}

static int compare_end(const void *left, const void *right, const void *ctx)
{
	const struct calltree_node *a = left, *b = right;

	(void)ctx;
	return compare_u64(b->period, a->period);
}

/* The end of the run that begins with a node: where chains part or end. */
static uint32_t run_end(const struct calltree *tree, uint32_t node)
{
	const struct calltree_node *nodes = tree->nodes;

	while (!nodes[node].nr && nodes[node].child && !nodes[nodes[node].child].next)
		node = nodes[node].child;
	return node;
}

static void link_children(struct calltree *tree, uint32_t parent, void *const children[], uint32_t nr)
{
	uint32_t *link = &tree->nodes[parent].child;

	for (uint32_t i = 0; i < nr; i++) {
		struct calltree_node *child = children[i];
		*link = (uint32_t)(child - tree->nodes);
		link = &child->next;
	}
	*link = 0;
}

/* The children of a node in perf's first order, and then, if `by_size`, those that reach the limit by size. */
static int sort_children(struct calltree *tree, uint32_t parent, uint64_t limit, bool by_size)
{
	uint32_t nr = 0, left = 0;
	void **children = tree->order;

	for (uint32_t child = tree->nodes[parent].child; child; child = tree->nodes[child].next)
		children[nr++] = &tree->nodes[child];
	for (uint32_t i = 0; i < nr / 2; i++) { /* the newest was in front */
		void *swap = children[i];
		children[i] = children[nr - 1 - i];
		children[nr - 1 - i] = swap;
	}
	int err = insertion_sort(children, nr, compare_first, tree);
	for (uint32_t i = 0; i < nr; i++)
		if (calltree_period(children[i]) >= limit)
			children[left++] = children[i];
	if (!err && by_size)
		err = insertion_sort(children, left, compare_size, tree);
	link_children(tree, parent, children, left);
	return err;
}

static int sort_branches(struct calltree *tree, uint32_t node, enum calltree_sort how, double limit)
{
	uint32_t last = node ? run_end(tree, node) : 0;
	double least = how == CALLTREE_RELATIVE ? ceil((double)tree->nodes[last].children_period * limit) : limit;
	int err = sort_children(tree, last, (uint64_t)least, true);

	tree->nodes[node].last = last;
	for (uint32_t child = tree->nodes[last].child; child && !err; child = tree->nodes[child].next)
		err = sort_branches(tree, child, how, limit);
	return err;
}

/* In the order of a walk that ends with the parent. */
static int collect_ends(struct calltree *tree, uint32_t node, uint64_t limit)
{
	int err = sort_children(tree, node, 0, false);

	for (uint32_t child = tree->nodes[node].child; child && !err; child = tree->nodes[child].next)
		err = collect_ends(tree, child, limit);
	if (node && tree->nodes[node].period && tree->nodes[node].period >= limit)
		tree->ends[tree->nr_ends++] = &tree->nodes[node];
	return err;
}

int calltree_sort(struct calltree *tree, enum calltree_sort how, double limit)
{
	void **order = reallocarray(tree->order, tree->nr, sizeof(*order));

	if (!order)
		return -ENOMEM;
	tree->order = order;
	if (how != CALLTREE_ENDS)
		return sort_branches(tree, 0, how, limit);
	void **ends = reallocarray(tree->ends, tree->nr, sizeof(*ends));
	if (!ends)
		return -ENOMEM;
	tree->ends = ends;
	int err = collect_ends(tree, 0, (uint64_t)limit);
	return err ? err : insertion_sort(ends, tree->nr_ends, compare_end, tree);
}

uint32_t calltree_end(const struct calltree *tree, uint32_t which)
{
	return (uint32_t)((struct calltree_node *)tree->ends[which] - tree->nodes);
}
