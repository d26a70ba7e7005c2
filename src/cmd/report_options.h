/* SPDX-License-Identifier: MIT */
/* report_options: the command line of `millrace report`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/colour.h"
#include "cmd/header_text.h"
#include "cmd/input.h"
#include "cmd/option.h"
#include "cmd/pager.h"
#include "cmd/report_columns.h"
#include "cmd/report_graph.h"
#include "cmd/report_samples.h"
#include "cmd/report_table.h"

enum group_tables { GROUPS_RECORDED, GROUPS_ALL /* all events are one where none were recorded */, GROUPS_NONE };

struct report_options {
	struct input_options input;
	struct samples_options samples;
	struct table_options table;
	bool loss, json;
	struct graph_options graph;
	struct column_choice columns;
	uint64_t group_sort;
	struct header_options header;
	struct pager_options pager;
	enum colour_when colour;
	enum group_tables groups;
	bool inverted, tasks, mmaps;
	bool stats, raw_dump, stdio;
	bool quiet;
	int verbose;
};

extern const struct option report_options_table[];

/* What is so unless the command line says otherwise. */
void report_options_init(struct report_options *options);

/*
 * As in perf the argument of -g may follow as a word of its own, and may be missing: then an option or the end follows.
 * `ret` has room for argc + 1 words; *ret_joined is for free(), behind the last use of the words. Returns how many.
 */
int report_options_join_call_graph(int argc, char **argv, char **ret, char **ret_joined);

/* What options mean for each other. */
void report_options_settle(struct report_options *options);
