/* SPDX-License-Identifier: MIT */
/*
 * rbtree: a red-black tree, used only where perf's output depends on the shape of its own red-black tree, that is on
 * the order of insertions and removals. The same operations here give the same shape, and so the same output. There are
 * two such cases. Symbols may overlap, and perf searches them by their start alone. And some of perf's comparisons of
 * rows are not transitive: those by the distance of addresses, and those by the depth of chains, which are made within
 * one task only.
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

/* Inserts the node into an empty slot, which is &up->left or &up->right, or `root` itself when up is NULL. */
void rb_insert(struct rb_node **root, struct rb_node **slot, struct rb_node *up, struct rb_node *node);
void rb_remove(struct rb_node **root, struct rb_node *node);

/* Negative: `a` is ordered before `b`; else behind it. `ctx`: as given to insertion_sort(). */
typedef int insertion_compare(const void *a, const void *b, const void *ctx);

/*
 * Sorts the items as if they were inserted one after the other into a red-black tree: a stable sort when the comparison
 * is transitive. 0 or -ENOMEM.
 */
int insertion_sort(void **items, size_t nr, insertion_compare *compare, const void *ctx);
