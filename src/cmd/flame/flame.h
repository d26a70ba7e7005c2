/* SPDX-License-Identifier: MIT */
/*
 * flame_tree: the call chains of all samples as one tree of names, small enough for a page: branches with few samples
 * are cut off, and their samples counted where they were cut. One owner, one thread.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "analyze/machine/machine.h"

struct event_desc;
struct ledger_entry;
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

/*
 * timeline: how many samples each CPU had when, in bins whose width grows with the recording, so that its size does
 * not. One owner, one thread.
 */
enum { TIMELINE_BINS = 1024 };

struct timeline_cpu {
	int32_t cpu; /* -1: not recorded */
	uint32_t bins[TIMELINE_BINS];
};

struct timeline {
	uint64_t start_ns, bin_ns; /* bin_ns 0: nothing was added yet */
	uint64_t end_ns;           /* the latest time added */
	struct timeline_cpu *cpus; /* heap; as they came */
	uint32_t nr_cpus, last;
};

/* flame_page: a flame graph and a timeline as one page of HTML that needs nothing else. */
struct flame_page {
	const char *title;
	const struct flame_tree *tree;
	const struct event_desc *events;
	size_t nr_events;
	const struct timeline *timeline; /* settled */
	unsigned nr_bins;
	const struct ledger_entry *gaps; /* where data was lost */
	size_t nr_gaps;
	uint64_t lost; /* samples */
};

/* Errors of `to` are left to the caller (ferror). */
void flame_page_print(const struct flame_page *page, FILE *to);
