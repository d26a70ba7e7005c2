/* SPDX-License-Identifier: MIT */
/* report_graph: the call graph below an entry of a table, laid out as by perf report --stdio. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyze/calltree.h"
#include "analyze/hist.h"
#include "analyze/tally.h"

struct diag;

enum graph_mode { GRAPH_ABSOLUTE, GRAPH_FRACTAL, GRAPH_FLAT, GRAPH_FOLDED, GRAPH_NONE };
enum graph_value { GRAPH_PERCENT, GRAPH_PERIOD, GRAPH_COUNT };

struct graph_options {
	enum graph_mode mode;
	enum calltree_direction direction;
	enum calltree_key key;
	enum graph_value value;
	bool wanted;        /* was asked for: a recording without call chains is an error then */
	bool direction_set; /* else CALLER for tables with children */
	double min_percent; /* branches below are left out */
	unsigned max_lines; /* of one level; 0: all */
	bool skip_first;    /* the entry itself, which stands above */
	bool coloured;         /* shares by their size */
	char separator;        /* of folded chains; 0: ';' */
};

/*
 * Words separated by commas as in -g: mode, order, key, value, then numbers for least percentage and most lines. What is
 * not named stays. -EINVAL and why.
 */
int graph_parse(const char *text, struct graph_options *options, struct diag *reterr);

struct graph {
	const struct graph_options *options;
	const struct tally *tally;
	const struct stacks *stacks;
	struct calltree tree;
	uint64_t total; /* what is 100 % */
	uint64_t shown_total; /* what the least percentage of a branch is of: less where a filter makes the table's shares relative */
	FILE *to;
	uint64_t entry_period; /* of the entry that is printed */
};

/* 0 or -ENOMEM; graph_fini() in any case. */
int graph_init(struct graph *graph, const struct graph_options *options, const struct tally *tally,
	       const struct stacks *stacks);
void graph_fini(struct graph *graph);

/* entry_period: its share with children, where they are counted. 0 or -ENOMEM. */
int graph_print(struct graph *graph, const struct hist_entry *entry, uint64_t entry_period);
