/* SPDX-License-Identifier: MIT */
/* report_columns: which columns a table has, and what it is sorted by: -s, -F, and the options that add columns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyze/hist.h"

struct diag;

struct column_list {
	enum hist_column columns[HIST_COLUMNS]; /* each at most once */
	unsigned nr;
};

struct column_choice {
	struct column_list sort;   /* -s; empty: the default */
	struct column_list fields; /* -F; empty: numbers, then what is sorted by */
	bool levels, sample_counts, periods;
};

/* The words of -s or -F; a beginning is enough, as in perf. -EINVAL and why. */
int column_list_parse(const char *text, struct column_list *ret, struct diag *reterr);

/* The options for hist_new(): keys and order. */
void column_choice_settle(const struct column_choice *choice, struct hist_options *ret);

/* The columns from left to right; children: callers are counted. */
void column_choice_shown(const struct column_choice *choice, bool children, struct column_list *ret);

/* Was a sort order given whose first key is this one? */
bool column_choice_begins_with(const struct column_choice *choice, enum hist_column column);
