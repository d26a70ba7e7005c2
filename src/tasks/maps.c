/* SPDX-License-Identifier: MIT */
#include "tasks/maps.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash_table.h"

/*
 * A treap: a tree that is ordered by address, and where the priority of a node, a random number, is not lower than
 * those of the nodes below it; so its depth grows as the logarithm of the number of maps, whatever their order. Parts
 * of it are in the trees of several sets: of a parent and its children. Only a node that is in one tree is changed.
 */
struct node {
	struct node *left, *right; /* maps at lower and at higher addresses */
	struct map map;
	uint32_t refs; /* how many nodes and sets point here */
	uint32_t priority;
};

/* The nodes of a set and of all sets that were cloned from it, and from those. */
struct node_memory {
	unsigned nr_sets;
	size_t nr_nodes;     /* of all chunks */
	struct node *unused; /* each points to the next one with `left` */
	struct node_chunk *chunks;
};

struct node_chunk {
	struct node_chunk *next;
	struct node nodes[];
};

struct maps {
	unsigned refs;
	uint32_t nr_marked; /* see maps_mark_former() */
	struct node *root;  /* NULL: empty */
	uint64_t generation;
	struct node_memory *memory; /* NULL: it had no node so far */
};

/* Over all sets, so that a generation stands for one state of one set, also after that set is gone. */
static uint64_t next_generation(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void memory_free(struct node_memory *memory)
{
	while (memory->chunks) {
		struct node_chunk *chunk = memory->chunks;
		memory->chunks = chunk->next;
		free(chunk);
	}
	free(memory);
}

static int memory_grow(struct node_memory *memory)
{
	const size_t nr = memory->nr_nodes / 2 + 8;
	struct node_chunk *chunk = malloc(sizeof(*chunk) + nr * sizeof(chunk->nodes[0]));

	if (!chunk)
		return -ENOMEM;
	chunk->next = memory->chunks;
	memory->chunks = chunk;
	memory->nr_nodes += nr;
	for (size_t i = nr; i-- > 0;) {
		chunk->nodes[i].left = memory->unused;
		memory->unused = &chunk->nodes[i];
	}
	return 0;
}

/* Not initialized. NULL: out of memory. */
static struct node *node_take(struct node_memory *memory)
{
	if (!memory->unused && memory_grow(memory))
		return NULL;
	struct node *node = memory->unused;
	memory->unused = node->left;
	return node;
}

static void node_free(struct node_memory *memory, struct node *node)
{
	if (!node)
		return;
	node->left = memory->unused;
	memory->unused = node;
}

static struct node *node_ref(struct node *node)
{
	if (node)
		node->refs++;
	return node;
}

static void node_unref(struct node_memory *memory, struct node *node)
{
	while (node && --node->refs == 0) {
		struct node *right = node->right;
		node_unref(memory, node->left);
		node_free(memory, node);
		node = right;
	}
}

/* To be put into this set, whose generation is a new one. NULL: out of memory. */
static struct node *node_new(struct maps *maps, const struct map *map)
{
	if (!maps->memory) {
		maps->memory = calloc(1, sizeof(*maps->memory));
		if (!maps->memory)
			return NULL;
		maps->memory->nr_sets = 1;
	}
	struct node *node = node_take(maps->memory);
	uint64_t random = hash_mix(maps->generation, map->start);
	if (node)
		*node = (struct node){.map = *map, .refs = 1, .priority = (uint32_t)(random >> 32)};
	return node;
}

/* Where the maps from the address on, or those before it, go on below a node. */
static struct node **node_branch(struct node *node, uint64_t address)
{
	return node->map.start < address ? &node->right : &node->left;
}

/* Copies those of the nodes that tree_split() at the address changes which other trees have, too. 0 or -ENOMEM. */
static int tree_own(struct maps *maps, uint64_t address)
{
	for (struct node **at = &maps->root; *at; at = node_branch(*at, address)) {
		struct node *shared = *at;
		if (shared->refs == 1)
			continue;
		struct node *own = node_take(maps->memory);
		if (!own)
			return -ENOMEM;
		*own = *shared;
		own->refs = 1;
		node_ref(own->left);
		node_ref(own->right);
		shared->refs--;
		*at = own;
	}
	return 0;
}

/* Maps that start before the address, and those that start there or behind. */
static void tree_split(struct node *tree, uint64_t address, struct node **ret_before, struct node **ret_behind)
{
	while (tree) {
		struct node **branch = node_branch(tree, address);
		if (branch == &tree->right) {
			*ret_before = tree;
			ret_before = branch;
		} else {
			*ret_behind = tree;
			ret_behind = branch;
		}
		tree = *branch;
	}
	*ret_before = *ret_behind = NULL;
}

/* What tree_split() has split. */
static struct node *tree_join(struct node *before, struct node *behind)
{
	struct node *tree, **at = &tree;

	while (before && behind) {
		struct node **upper = before->priority > behind->priority ? &before : &behind;
		*at = *upper;
		at = upper == &before ? &before->right : &behind->left;
		*upper = *at;
	}
	*at = before ? before : behind;
	return tree;
}

/* No map of the tree overlaps it, and tree_own() was called. */
static void tree_put(struct node **at, struct node *new)
{
	while (*at && (*at)->priority > new->priority)
		at = node_branch(*at, new->map.start);
	tree_split(*at, new->map.start, &new->left, &new->right);
	*at = new;
}

/* A map that has an address of those from `first` to `last`. NULL: none. */
static inline const struct map *tree_find(const struct node *tree, uint64_t first, uint64_t last)
{
	while (tree) {
		if (last < tree->map.start)
			tree = tree->left;
		else if (first >= tree->map.end)
			tree = tree->right;
		else
			return &tree->map;
	}
	return NULL;
}

/* Nothing is in [start, end) any more; parts of maps before and behind stay. 0 or -ENOMEM. */
static int maps_cut(struct maps *maps, uint64_t start, uint64_t end)
{
	const struct map *last = tree_find(maps->root, end - 1, end - 1);
	struct node *rest = NULL, *before, *between, *behind;

	if (last && last->end > end) {
		struct map map = *last;
		map.pgoff += end - map.start;
		map.start = end;
		rest = node_new(maps, &map);
		if (!rest)
			return -ENOMEM;
	}
	if (tree_own(maps, start) || tree_own(maps, end)) {
		node_free(maps->memory, rest);
		return -ENOMEM;
	}
	tree_split(maps->root, start, &before, &between);
	tree_split(between, end, &between, &behind);
	node_unref(maps->memory, between);
	for (struct node *node = before; node; node = node->right)
		if (node->map.end > start) /* the last one */
			node->map.end = start;
	maps->root = tree_join(before, behind);
	if (rest)
		tree_put(&maps->root, rest);
	return 0;
}

struct maps *maps_new(void)
{
	struct maps *maps = calloc(1, sizeof(*maps));

	if (maps)
		maps->refs = 1;
	return maps;
}

struct maps *maps_ref(struct maps *maps)
{
	maps->refs++;
	return maps;
}

void maps_unref(struct maps *maps)
{
	if (!maps || --maps->refs)
		return;
	if (maps->memory && --maps->memory->nr_sets == 0)
		memory_free(maps->memory);
	else
		node_unref(maps->memory, maps->root);
	free(maps);
}

struct maps *maps_clone(struct maps *maps)
{
	struct maps *clone = maps_new();

	if (clone && maps->root) {
		clone->generation = maps->generation; /* it has the same maps */
		clone->nr_marked = maps->nr_marked;
		clone->root = node_ref(maps->root);
		clone->memory = maps->memory;
		clone->memory->nr_sets++;
	}
	return clone;
}

void maps_clear(struct maps *maps)
{
	node_unref(maps->memory, maps->root);
	maps->root = NULL;
	maps->generation = next_generation();
}

void maps_mark_former(struct maps *maps)
{
	if (!maps->root)
		return;
	maps->nr_marked++;
	maps->generation = next_generation();
}

bool maps_is_former(const struct maps *maps, const struct map *map)
{
	return map->nr_marked != maps->nr_marked;
}

int maps_insert(struct maps *maps, const struct map *map)
{
	if (map->start >= map->end)
		return 0;
	maps->generation = next_generation();
	struct node *new = node_new(maps, map);
	if (!new)
		return -ENOMEM;
	new->map.nr_marked = maps->nr_marked;
	int err = tree_find(maps->root, map->start, map->end - 1) ? maps_cut(maps, map->start, map->end)
								  : tree_own(maps, map->start);
	if (err)
		node_free(maps->memory, new);
	else
		tree_put(&maps->root, new);
	return err;
}

int maps_remove(struct maps *maps, uint64_t address)
{
	const struct map *map = maps_find(maps, address);

	if (!map)
		return 0;
	maps->generation = next_generation();
	return maps_cut(maps, map->start, map->end);
}

const struct map *maps_find(const struct maps *maps, uint64_t address)
{
	return tree_find(maps->root, address, address);
}

static void tree_visit(const struct node *tree, void (*visit)(const struct map *map, void *ctx), void *ctx)
{
	for (; tree; tree = tree->right) {
		tree_visit(tree->left, visit, ctx);
		visit(&tree->map, ctx);
	}
}

void maps_visit(const struct maps *maps, void (*visit)(const struct map *map, void *ctx), void *ctx)
{
	tree_visit(maps->root, visit, ctx);
}

unsigned maps_users(const struct maps *maps)
{
	return maps->refs;
}

void maps_distinguish(struct maps *maps)
{
	maps->generation = next_generation();
}

uint64_t maps_generation(const struct maps *maps)
{
	return maps->generation;
}
