/* SPDX-License-Identifier: MIT */
#include "analyze/report/hierarchy.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "base/pool.h"

struct hierarchy {
	struct hist *leaves; /* borrowed */
	struct hist **sums;  /* heap; of all levels but the last */
	unsigned nr_sums;
	struct pool pool;        /* the nodes */
	struct hash_table nodes; /* of all entries, by their address */
	struct hierarchy_node *first;
};

void hierarchy_free(struct hierarchy *hierarchy)
{
	if (!hierarchy)
		return;
	for (unsigned i = 0; i < hierarchy->nr_sums; i++)
		hist_free(hierarchy->sums[i]);
	free(hierarchy->sums);
	hash_table_fini(&hierarchy->nodes);
	pool_fini(&hierarchy->pool);
	free(hierarchy);
}

struct hierarchy_node *hierarchy_first(const struct hierarchy *hierarchy)
{
	return hierarchy->first;
}

size_t hierarchy_nr(const struct hierarchy *hierarchy)
{
	return hierarchy->nodes.nr;
}

struct hierarchy_node *hierarchy_find(const struct hierarchy *hierarchy, const struct hist_place *place, unsigned level)
{
	struct hist *hist = level < hierarchy->nr_sums ? hierarchy->sums[level] : hierarchy->leaves;
	const struct hist_entry *entry = hist_entry_of(hist, place);

	return entry ? hash_table_find_item(&hierarchy->nodes, (uintptr_t)entry) : NULL;
}

static int make_sums(struct hierarchy *hierarchy, const struct hist *leaves, const struct hierarchy_level levels[])
{
	enum hist_column keys[HIST_KEYS];
	unsigned nr_keys = 0;

	for (unsigned level = 0; level < hierarchy->nr_sums; level++) {
		for (unsigned i = 0; i < levels[level].nr && nr_keys < HIST_KEYS; i++)
			keys[nr_keys++] = levels[level].keys[i];
		int err = hist_new_sums(leaves, keys, nr_keys, &hierarchy->sums[level]);
		if (err)
			return err;
	}
	return 0;
}

/* NULL: out of memory. */
static struct hierarchy_node *node_of(struct hierarchy *hierarchy, struct hist_entry *entry,
				      struct hierarchy_node *above)
{
	struct hierarchy_node *node = hash_table_find_item(&hierarchy->nodes, (uintptr_t)entry);

	if (node)
		return node;
	node = pool_take(&hierarchy->pool, sizeof(*node));
	if (!node || hash_table_add(&hierarchy->nodes, (uintptr_t)entry, node))
		return NULL;
	*node = (struct hierarchy_node){.entry = entry, .above = above, .level = above ? above->level + 1 : 0};
	return node;
}

/* The nodes above a leaf, made where there are none yet, and its own. */
static int add_leaf(struct hierarchy *hierarchy, struct hist_entry *leaf)
{
	struct hierarchy_node *above = NULL;

	for (unsigned level = 0; level < hierarchy->nr_sums; level++) {
		above = node_of(hierarchy, hist_entry_of(hierarchy->sums[level], &leaf->place), above);
		if (!above)
			return -ENOMEM;
		above->is_shown |= !leaf->place.filtered;
	}
	struct hierarchy_node *node = node_of(hierarchy, leaf, above);
	if (!node)
		return -ENOMEM;
	node->is_leaf = true;
	node->is_shown = !leaf->place.filtered;
	return 0;
}

/* Sorted siblings come before those that were linked already. */
static void link_level(struct hierarchy *hierarchy, struct hist_entry *const entries[], size_t nr)
{
	for (size_t i = nr; i > 0; i--) {
		struct hierarchy_node *node = hash_table_find_item(&hierarchy->nodes, (uintptr_t)entries[i - 1]);
		struct hierarchy_node **first = node->above ? &node->above->below : &hierarchy->first;
		node->next = *first;
		*first = node;
	}
}

static int build(struct hierarchy *hierarchy, struct hist *leaves)
{
	struct hist_entry *const *entries;
	size_t nr;
	int err = hist_sort(leaves, &entries, &nr);

	for (size_t i = 0; i < nr && !err; i++)
		err = add_leaf(hierarchy, entries[i]);
	if (err)
		return err;
	link_level(hierarchy, entries, nr);
	for (unsigned level = 0; level < hierarchy->nr_sums; level++) {
		err = hist_sort(hierarchy->sums[level], &entries, &nr);
		if (err)
			return err;
		link_level(hierarchy, entries, nr);
	}
	return 0;
}

int hierarchy_new(struct hist *leaves, const struct hierarchy_level levels[], unsigned nr, struct hierarchy **ret)
{
	struct hierarchy *hierarchy = calloc(1, sizeof(*hierarchy));
	unsigned nr_sums = nr ? nr - 1 : 0;

	if (!hierarchy)
		return -ENOMEM;
	hierarchy->leaves = leaves;
	hierarchy->sums = calloc(nr_sums + 1ul, sizeof(struct hist *));
	hierarchy->nr_sums = hierarchy->sums ? nr_sums : 0;
	int err = hierarchy->sums ? make_sums(hierarchy, leaves, levels) : -ENOMEM;
	if (!err)
		err = build(hierarchy, leaves);
	if (err) {
		hierarchy_free(hierarchy);
		return err;
	}
	*ret = hierarchy;
	return 0;
}
