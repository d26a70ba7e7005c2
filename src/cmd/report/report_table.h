/* SPDX-License-Identifier: MIT */
/* report_table: a table that is printed, and its parts. Private to the room; one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/report/report.h"

/* What a table is about: an event, or a group of them, whose hists are linked, the leader first. */
struct table_subject {
	struct hist *const *hists; /* the leader's is not NULL */
	unsigned nr;
	bool plural; /* "events" */
	const char *name;
};

struct table {
	FILE *to;
	const struct table_options *options;
	const struct table_subject *subject;
	struct hist_entry *const *entries; /* sorted */
	size_t nr;
	uint64_t *periods;   /* what is 100 %, of each hist of the subject */
	uint64_t *latencies; /* likewise, of HIST_LATENCY */
	uint64_t nr_samples;
	size_t width[HIST_COLUMNS]; /* of numbers: of each member's */
	bool has_field[HIST_FIELDS];
	struct hierarchy_level levels[HIST_KEYS]; /* of a hierarchy, its columns */
	unsigned nr_levels;
};

/* The columns one by one, from *at on: those that are shown. false: no more. */
bool table_next_column(const struct table *table, unsigned *at, enum hist_column *ret);

const char *table_title(const struct table *table, enum hist_column column);
unsigned table_column_width(const struct table *table, enum hist_column column); /* for all members of a group */
double table_percent(const struct table *table, unsigned member, uint64_t period);
void table_print_dots(FILE *to, size_t nr);

/* The text of a key; the numbers of a column, of all members. Both return the columns taken, as fprintf(3). */
int table_print_key(const struct table *table, enum hist_column key, const struct hist_entry *entry);
unsigned table_print_numbers(const struct table *table, enum hist_column column, const struct hist_entry *entry);

struct hierarchy_node;

/* --hierarchy: titles and entries. graph NULL: none. 0 or -ENOMEM. */
void hierarchy_print_titles(const struct table *table);
int hierarchy_print(const struct table *table, const struct hierarchy_node *first, struct graph *graph);
