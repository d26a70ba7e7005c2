/* SPDX-License-Identifier: MIT */
/*
 * page_tree: the call chains of one or more recordings by the names of their functions, objects and kinds. One owner,
 * one thread.
 */
#pragma once

#include <stdint.h>

#include "base/hash_table.h"
#include "base/pool.h"

struct page_times;
struct page_wait;
struct page_waits;
struct stacks;
struct tally;

enum page_kind {
	PAGE_USER,
	PAGE_KERNEL,
	PAGE_JIT,
	PAGE_INLINED,
	PAGE_INTERPRETER, /* a function of an interpreted program, or the loop that runs them */
	PAGE_UNKNOWN,     /* no function is known: the name is the object's */
	PAGE_TASK,        /* no function: a command, process or thread at the base */
	PAGE_KINDS,
};

/* The lowest level of the graph. */
enum page_base {
	PAGE_BASE_AUTO /* commands, if there is more than one */,
	PAGE_BASE_NONE,
	PAGE_BASE_COMMAND,
	PAGE_BASE_PROCESS,
	PAGE_BASE_THREAD
};

struct page_name {
	const char *text, *object;
	enum page_kind kind;
};

struct page_node {
	uint32_t parent; /* smaller than its own number; 0 is the root */
	uint32_t name;
};

struct page_thread {
	const char *comm;
	uint32_t pid, tid;
	uint64_t nr; /* samples */
};

/* Samples of a thread in a node, without its children, in one interval. */
struct page_weight {
	uint32_t series, thread, node, bin;
	uint64_t period, nr;
};

/* A time off the CPU, with the node of where the thread waited. */
struct page_stretch {
	uint32_t thread, node;
	const struct page_wait *wait;
};

struct page_tree {
	enum page_base base;
	struct page_node *nodes;
	struct page_name *names;
	struct page_thread *threads;
	struct page_weight *weights;    /* once finished: by series, thread, node, bin */
	struct page_stretch *stretches; /* once finished: by thread, and then as they began */
	size_t nr_weights, weights_room, nr_stretches;
	uint32_t nr_nodes, nr_names, nr_threads;
	uint64_t nr_samples, nr_cut; /* samples; those of a branch that was cut off */
	/* private: */
	uint32_t nodes_room, names_room, threads_room;
	struct hash_table by_name, by_parent, by_thread;
	struct pool pool;
};

/* A recording that was read: events[i] is the tally of its event i, and the series first_series + i of the page. */
struct page_recording {
	const struct tally *const *events;
	uint32_t nr_events, first_series;
	const struct stacks *stacks;
	const struct page_times *times;
	const struct page_waits *waits; /* of one recording at most; NULL: none */
};

/* As many as a browser can show without a long delay. */
enum { PAGE_MOST_NODES = 1500000, PAGE_MOST_THREADS = 200 };

struct page_limits {
	uint32_t nodes, threads;
};

/* Adds a recording; tree->base must be set before, and not to AUTO. 0 or -ENOMEM; page_tree_fini() in any case. */
int page_tree_add(struct page_tree *tree, const struct page_recording *recording);

/* Samples by name, as a store has them. */
struct page_row {
	const char *base;   /* what stands at the base; with PAGE_BASE_NONE: nothing does */
	const char *thread; /* what the page can select by, and its number; valid until page_tree_fini() */
	uint32_t number;
	const char *const *frames;     /* outermost first; "[object]": no function is known */
	unsigned nr_frames, nr_kernel; /* nr_kernel: so many of the last frames are in the kernel */
	uint32_t series, bin;
	uint64_t period, nr;
};

/* Adds a row of a store, instead of page_tree_add(). The same errors. */
int page_tree_add_row(struct page_tree *tree, const struct page_row *row);

/* After the last one: sorts the nodes as they are drawn, and cuts off what exceeds the limits. 0 or -ENOMEM. */
int page_tree_finish(struct page_tree *tree, const struct page_limits *limits);
void page_tree_fini(struct page_tree *tree);
