/* SPDX-License-Identifier: MIT */
/*
 * insertion: the order that things get in perf's sorted trees.
 *
 * Some of perf's comparisons go in circles (by the distance of addresses; by the depth of chains, but within a task
 * only). What order comes out then hangs on the shape of the red-black tree, that is on the order of insertions, which
 * is replayed here. With a comparison that is sane this is a stable sort. Textbook algorithm, see symbols_tree.h.
 */
#pragma once

#include <stddef.h>

/* Negative: a stands before b; else behind it. */
typedef int insertion_compare(const void *a, const void *b, const void *of);

/* The items in the order of a tree into which they were inserted one after the other. 0 or -ENOMEM. */
int insertion_sort(void **items, size_t nr, insertion_compare *compare, const void *of);
