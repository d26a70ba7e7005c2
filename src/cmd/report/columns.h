/* SPDX-License-Identifier: MIT */
/* columns: which columns a table has, and what it is sorted by: the options -s and -F of report and top. One thread. */
#pragma once

#include <stdbool.h>

#include "analyze/report/hist.h"
#include "cmd/report/report_samples.h"

struct diag;
struct option;

struct column_list {
	enum hist_column columns[HIST_COLUMNS]; /* each at most once */
	unsigned nr;
};

/* Which columns a table has, and what it is sorted by: -s, -F, and the options that add columns. */
struct column_choice {
	enum samples_mode mode;    /* what the default depends on */
	const char *sort_words;    /* of -s as given; NULL: the default */
	struct column_list sort;   /* -s; empty: the default */
	struct column_list fields; /* -F; empty: numbers, then what is sorted by */
	bool levels, sample_counts, periods;
};

/* The columns from left to right; children: callers are counted. */
void column_choice_shown(const struct column_choice *choice, bool children, struct column_list *ret);

/* The options for hist_new(): keys and order. */
void column_choice_apply(const struct column_choice *choice, struct hist_options *ret);

/* Setter of an option table: the words of -s or -F into a struct column_list. */
int column_list_set(const struct option *option, const char *arg, bool negated, void *column_list, struct diag *reterr);
