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
	KNOWN_BITS = 12,
	FEW_CHAINS = 1 << 15 /* nodes for all of them take 1.5 MiB */
};

/* The node of the innermost frame of a chain, without its first `skip` frames; 0: no frame is left. */
struct calltree_known {
	uint32_t chain, skip, age, node; /* age: of the tree; 0: nothing */
	uint64_t in;                     /* see weigh_in() */
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
	tree->known = calloc(1 << KNOWN_BITS, sizeof(*tree->known));
	tree->weights = calloc(NR_WEIGHTS, sizeof(*tree->weights));
	tree->weighed = calloc(MOST_WEIGHED, sizeof(*tree->weighed));
	if (!tree->path || !tree->nodes || !tree->known || !tree->weights || !tree->weighed) {
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
	free(tree->known);
	free(tree->weights);
	free(tree->weighed);
	*tree = (struct calltree){0};
}

/* More frames may have become known. Without memory for their hashes these are made each time. */
static void make_room_for_hashes(struct calltree *tree)
{
	const uint32_t nr = stacks_end_frame(tree->stacks);

	if (nr <= tree->nr_hashes)
		return;
	uint32_t *hashes = reallocarray(tree->hashes, nr, sizeof(*hashes));
	if (!hashes)
		return;
	memset(hashes + tree->nr_hashes, 0, (nr - tree->nr_hashes) * sizeof(*hashes));
	tree->hashes = hashes;
	tree->nr_hashes = nr;
}

void calltree_clear(struct calltree *tree, uint64_t least)
{
	make_room_for_hashes(tree);
	/* Most entries have few chains. */
	if (tree->nr_weighed == MOST_WEIGHED)
		memset(tree->weights, 0, NR_WEIGHTS * sizeof(*tree->weights));
	else
		for (uint32_t i = 0; i < tree->nr_weighed; i++)
			tree->weights[tree->weighed[i]] = 0;
	tree->nr_weighed = 0;
	tree->least = stacks_end_chain(tree->stacks) > FEW_CHAINS ? least : 0;
	tree->age++;
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

void calltree_weigh(struct calltree *tree, struct calltree_chain chain, enum calltree_direction direction,
		    uint64_t period)
{
	uint32_t nr = take_path(tree, chain.chain);
	uint64_t in = 0;

	for (uint32_t i = chain.skip; i < nr; i++) {
		in = weigh_in(in, frame_hash(tree, tree->path[direction == CALLTREE_CALLEE ? i : nr - 1 - i]));
		uint16_t which = in % NR_WEIGHTS;
		tree->weights[which] += period;
		if (tree->nr_weighed < MOST_WEIGHED)
			tree->weighed[tree->nr_weighed++] = which;
	}
}

static struct calltree_known *known_slot(const struct calltree *tree, struct calltree_chain chain)
{
	return &tree->known[(chain.chain + chain.skip) * 0x9e3779b9u >> (32 - KNOWN_BITS)];
}

/* NULL: the chain was not added to this tree, or others were since. */
static const struct calltree_known *find_known(const struct calltree *tree, struct calltree_chain chain)
{
	const struct calltree_known *known = known_slot(tree, chain);

	return known->age == tree->age && known->chain == chain.chain && known->skip == chain.skip ? known : NULL;
}

/* Counts are those of the chains that end at a node, or below it in nodes that are not made. */
static int add_caller(struct calltree *tree, struct calltree_chain chain, const struct calltree_count *count)
{
	const struct calltree_known *known = NULL;
	struct calltree_chain at = chain;
	struct calltree_known here = {.skip = chain.skip, .age = tree->age};
	uint32_t nr = 0;

	for (; at.chain && nr < tree->path_room && !(known = find_known(tree, at));
	     at.chain = stacks_outer(tree->stacks, at.chain))
		tree->path[nr++] = at.chain;
	if (known) {
		here = *known;
	} else if (nr <= chain.skip) {
		return 0;
	} else if (chain.skip) {
		nr -= chain.skip;
		here.chain = tree->path[nr];
		*known_slot(tree, (struct calltree_chain){here.chain, chain.skip}) = here;
	}
	if (!here.node && !nr)
		return 0;
	while (nr) {
		if (here.node && tree->least && tree->weights[here.in % NR_WEIGHTS] < tree->least) {
			tree->nodes[here.node].children_period += count->period;
			tree->nodes[here.node].children_nr += count->nr;
			return 0;
		}
		here.chain = tree->path[--nr];
		uint32_t frame = stacks_frame(tree->stacks, here.chain), hash = frame_hash(tree, frame);
		if (find_child(tree, here.node, frame, hash, &here.node))
			return -ENOMEM;
		here.in = weigh_in(here.in, hash);
		*known_slot(tree, (struct calltree_chain){here.chain, chain.skip}) = here;
	}
	tree->nodes[here.node].period += count->period;
	tree->nodes[here.node].nr += count->nr;
	return 0;
}

/* Likewise. Chains share their outer frames, so that there is little to know. */
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

int calltree_add(struct calltree *tree, struct calltree_chain chain, enum calltree_direction direction,
		 const struct calltree_count *count)
{
	return direction == CALLTREE_CALLER ? add_caller(tree, chain, count) : add_callee(tree, chain, count);
}

void calltree_sum_up(struct calltree *tree)
{
	/* Children come behind their parents. */
	for (uint32_t i = tree->nr; i-- > 1;) {
		const struct calltree_node *node = &tree->nodes[i];
		struct calltree_node *parent = &tree->nodes[node->parent];
		parent->children_period += calltree_period(node);
		parent->children_nr += node->nr + node->children_nr;
	}
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
