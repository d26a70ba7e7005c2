/* SPDX-License-Identifier: MIT */
/* report_table: the table of one event, laid out as by perf report --stdio. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyze/hist.h"
#include "cmd/report_columns.h"

struct graph;

struct table_options {
	struct column_list columns; /* from left to right */
	bool children;          /* callers are counted */
	bool hidden[HIST_KEYS]; /* columns of keys that are sorted by but not shown */
	bool relative;          /* shares of what is shown, not of all samples */
	bool nanoseconds;       /* times have nine digits */
	bool coloured;          /* shares by their size */
	bool self_named;        /* the own share is called Self */
	char separator;         /* between columns, and nowhere in them: it becomes a dot; 0: two blanks */
	const char *widths;     /* of the columns, "8,0,20"; 0 or missing: as wide as needed. NULL: all are */
	bool headless;          /* -q: only the lines of entries */
	bool dso_list;          /* --dsos was given: the column is not made wide for unknown symbols */
	double percent_limit;   /* entries below are left out */
};

/* What a table is about: an event, or a group of them, whose hists are linked, the leader first. */
struct table_subject {
	struct hist *const *hists; /* the leader's is not NULL */
	unsigned nr;
	bool plural;               /* "events" */
	const char *name;
};

/* graph: prints one below each entry; NULL: none. 0 or -ENOMEM; errors of `to` are left to the caller (ferror). */
int table_print(FILE *to, const struct table_subject *subject, const struct table_options *options, struct graph *graph);
