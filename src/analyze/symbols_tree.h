/* SPDX-License-Identifier: MIT */
/*
 * symbols_tree: the red-black tree that perf looks symbols up in, rebuilt where its shape decides.
 *
 * Symbols may overlap (a local label inside a function, a function with two entries). perf descends a
 * red-black tree that is ordered by start address and knows nothing of intervals, so which of two overlapping
 * symbols it finds, or none, hangs on the shape of the tree, that is on the order of insertions and removals.
 * To give the same answers the same operations are replayed here. Insertion and removal are the textbook
 * algorithms (Cormen et al., "Introduction to Algorithms", red-black trees; the kernel's rbtree yields the
 * same shapes).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A symbol; the caller's memory. start and end are set before it is inserted. */
struct symbols_node {
	struct symbols_node *left, *right, *up;
	uint64_t start, end;
	bool red;
};

struct symbols_tree {
	struct symbols_node *root;
};

/* Behind those of equal start. */
void symbols_tree_insert(struct symbols_tree *tree, struct symbols_node *node);
void symbols_tree_remove(struct symbols_tree *tree, struct symbols_node *node);
struct symbols_node *symbols_tree_find(const struct symbols_tree *tree, uint64_t address); /* NULL: none */
