/* SPDX-License-Identifier: MIT */
/*
 * flame_tree: the call chains of all samples as one tree of names, small enough for a page: branches with few samples
 * are cut off, and their samples counted where they were cut. One owner, one thread.
 */
#pragma once

#include <stdint.h>

#include "analyze/machine.h"

struct samples;
struct stacks;

struct flame_node {
	uint32_t parent; /* smaller than its own number; 0 is the root */
	uint32_t name;
};

struct flame_name {
	const char *text; /* of a function; NULL: only the object is known */
	const struct dso *dso;
	bool kernel, inlined;
};

/* What a thread had in a node itself. */
struct flame_weight {
	uint32_t event, thread, node;
	uint64_t period, nr;
};

struct flame_thread {
	const struct task *task; /* NULL: all that are left out */
	const struct comm *comm;
	uint32_t tid;
	uint64_t nr; /* samples */
};

struct flame_tree {
	struct flame_node *nodes;
	struct flame_name *names;
	struct flame_weight *weights; /* by event, thread, node */
	struct flame_thread *threads;
	uint32_t nr_nodes, nr_names, nr_weights, nr_threads;
	uint64_t nr_samples, nr_cut; /* samples whose chain was cut */
};

struct flame_limits {
	uint32_t nodes, threads;
};

/* Samples that were all taken. 0 or -ENOMEM; *ret needs flame_tree_fini() in any case. */
int flame_tree_make(const struct samples *samples, const struct flame_limits *limits, struct flame_tree *ret);
void flame_tree_fini(struct flame_tree *tree);
