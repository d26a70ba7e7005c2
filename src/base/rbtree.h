/* SPDX-License-Identifier: MIT */
/*
 * rbtree: a red-black tree, where perf's output depends on the shape of its own tree, that is on the order of
 * insertions and removals: the same operations on this tree give the same output. Symbols may overlap, and perf
 * searches them in a tree without intervals; and some of its comparisons of rows are not transitive (by the distance of
 * addresses; by the depth of chains, but within a task only).
 *
 * Insertion and removal are the textbook algorithms (Cormen et al., "Introduction to Algorithms", red-black trees; the
 * kernel's rbtree yields the same shapes).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The caller's memory. */
struct rb_node {
	struct rb_node *left, *right, *up;
	bool red;
};

/* Into an empty slot, &up->left or &up->right; up NULL: `root` itself. */
void rb_insert(struct rb_node **root, struct rb_node **slot, struct rb_node *up, struct rb_node *node);
void rb_remove(struct rb_node **root, struct rb_node *node);

/* Negative: a stands before b; else behind it. */
typedef int insertion_compare(const void *a, const void *b, const void *ctx);

/*
 * The items in the order of a tree into which they were inserted one after the other: a stable sort, if the comparison
 * is transitive. 0 or -ENOMEM.
 */
int insertion_sort(void **items, size_t nr, insertion_compare *compare, const void *ctx);
