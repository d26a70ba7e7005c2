/* SPDX-License-Identifier: MIT */
/* columns: which columns a table has, and what it is sorted by: the options -s and -F of report and top. One thread. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyze/report/hierarchy.h"
#include "analyze/report/hist.h"
#include "cmd/report/report_details.h"
#include "cmd/report/report_samples.h"

struct buf;
struct diag;
struct option;
struct session;

/* The words that -s and -F know, one in each line. */
void column_print_words(FILE *to);

struct column_list {
	enum hist_column columns[HIST_COLUMNS]; /* each at most once */
	unsigned levels[HIST_COLUMNS];          /* of --hierarchy: equal for those that were in braces together */
	unsigned nr;
};

enum { FIELD_WORD_MAX = 128 };

/* Which columns a table has, and what it is sorted by: -s, -F, and the options that add columns. */
struct column_choice {
	enum samples_mode mode;    /* what the default depends on */
	const char *sort_words;    /* of -s as given; NULL: the default */
	struct column_list sort;   /* -s; empty: the default */
	struct column_list fields; /* -F; empty: numbers, then what is sorted by */
	/* "-s +KEY": behind the default; "-F +FIELD": between the numbers and what is sorted by. */
	struct column_list more_sort, more_fields;
	bool levels, sample_counts, periods, latency, wall;
	bool parent;    /* the key parent is there, last, whatever the words say */
	bool raw_trace; /* fields of tracepoints by their types */
	/* Before column_choice_fit() the column HIST_FIELD + i is the word i, after it the field i. "": the end. */
	char field_words[HIST_FIELDS][FIELD_WORD_MAX];
	struct trace_field trace_fields[HIST_FIELDS];
};

/* Setters of option tables: the words of -s and of -F into a struct column_choice. */
int column_choice_set_sort(const struct option *option, const char *arg, bool negated, void *choice,
			   struct diag *reterr);
int column_choice_set_fields(const struct option *option, const char *arg, bool negated, void *choice,
			     struct diag *reterr);

/*
 * Adapts the choice to a recording: words that are not keys become fields of its tracepoints; without -s and -F the
 * table is sorted by default_sort (NULL: the default of the mode). To be called once. -EINVAL: a word is not a field of
 * the recording, or belongs to another mode.
 */
int column_choice_fit(struct column_choice *choice, const char *default_sort, const struct session *session,
		      struct diag *reterr);

/* The columns from left to right. children: samples are also counted for callers. */
void column_choice_shown(const struct column_choice *choice, bool children, struct column_list *ret);

/* The levels of a tree of the keys that are sorted by, at most HIST_KEYS of them. Returns how many. */
unsigned column_choice_levels(const struct column_choice *choice, struct hierarchy_level ret[]);

/* The options for hist_new(): keys and order. */
void column_choice_apply(const struct column_choice *choice, struct hist_options *ret);

/* Whether -s was given, -F was not, and this is the first key of -s. */
bool column_choice_begins_with(const struct column_choice *choice, enum hist_column column);

/* What is sorted by, in words: those of -s, or the default. */
void column_choice_sort_words(const struct column_choice *choice, struct buf *out);
