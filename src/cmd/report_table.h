/* SPDX-License-Identifier: MIT */
/* report_table: the table of one event, laid out as by perf report --stdio. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyze/hist.h"

struct graph;

struct table_options {
	struct hist_options hist;
	bool hidden[HIST_KEYS]; /* columns of keys that are sorted by but not shown */
	bool sample_counts;     /* -n */
	bool periods;           /* --show-total-period */
	bool relative;          /* shares of what is shown, not of all samples */
	char separator;         /* between columns, and nowhere in them: it becomes a dot; 0: two blanks */
	const char *widths;     /* of the columns, "8,0,20"; 0 or missing: as wide as needed. NULL: all are */
	bool headless;          /* -q: only the lines of entries */
	bool dso_list;          /* --dsos was given: the column is not made wide for unknown symbols */
	double percent_limit;   /* entries below are left out */
};

/* graph: prints one below each entry; NULL: none. 0 or -ENOMEM; errors of `to` are left to the caller (ferror). */
int table_print(FILE *to, struct hist *hist, const char *event_name, const struct table_options *options,
		struct graph *graph);
