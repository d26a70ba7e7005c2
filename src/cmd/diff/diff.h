/* SPDX-License-Identifier: MIT */
/* diff: joins entries of several recordings by their names, and prints the table of their differences. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/report/hist.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "cmd/report/report_read.h"

struct event_desc;
struct json_writer;

enum diff_compute { DIFF_DELTA, DIFF_DELTA_ABS, DIFF_RATIO, DIFF_WDIFF };

struct diff_options {
	enum diff_compute compute;
	int64_t weight_baseline, weight_data; /* of DIFF_WDIFF */
	uint64_t order;                       /* the file that rows are sorted by; 0: the baseline */
	bool baseline_only, periods, formula, quiet, relative;
	bool hidden[HIST_KEYS]; /* columns of keys whose filter leaves one name */
	bool dso_list;          /* objects are chosen by name */
	char separator;         /* 0: two blanks */
	const enum hist_column *keys;
	unsigned nr_keys;
};

enum { DIFF_FILES_MAX = 32 };

/* The recordings, the baseline first, and what was read of them. */
struct diff_files {
	struct reading readings[DIFF_FILES_MAX];
	const char *paths[DIFF_FILES_MAX];
	unsigned nr;
};

/* What a file has of events[event] of the baseline; NULL: no samples. As in perf, cpu-clock and cpu-clock:u count as
 * one. */
const struct event_samples *diff_find_event(const struct diff_files *files, unsigned file, size_t event);

/* What one file has for a row; `has` false: nothing. */
struct diff_cell {
	uint64_t period;
	bool has;
};

struct diff_row {
	struct hist_place place; /* of the first file that has it */
	unsigned file;           /* that one */
	const char *text;        /* identifies the place, and is the last sort key */
	struct diff_cell *cells; /* by file */
	bool filtered;           /* not shown: it only counts in the total of --baseline-only */
};

/* The rows of one event. */
struct diff_rows {
	struct diff_row **rows; /* heap */
	size_t nr, room;
	unsigned nr_files;
	uint64_t *totals;  /* of each file: what is 100 %; heap */
	uint64_t baseline; /* the same for the column of the baseline; after diff_rows_sort() */
	struct hash_table by_text;
	struct pool pool;
};

int diff_rows_init(struct diff_rows *rows, unsigned nr_files);
void diff_rows_fini(struct diff_rows *rows); /* zeroed is fine */

/* Adds the entries of a file. NULL: it has none. 0 or -ENOMEM. */
int diff_rows_add(struct diff_rows *rows, unsigned file, struct hist *hist, const struct diff_options *options);

/* After the last file: in the order of the table, and without what --baseline-only leaves out. */
void diff_rows_sort(struct diff_rows *rows, const struct diff_options *options);

/* The share of which differences are made. 0: there is none. */
double diff_percent(const struct diff_rows *rows, const struct diff_row *row, unsigned file);
/* The share that is shown of the baseline; after diff_rows_sort(). */
double diff_baseline_percent(const struct diff_rows *rows, const struct diff_row *row);

/* The value that is compared, of a cell that is there; ratio: only where the baseline has the row, too. */
double diff_value(const struct diff_rows *rows, const struct diff_row *row, unsigned file,
		  const struct diff_options *options);

/* Errors of `to` are left to the caller. */
void diff_table_print(const struct diff_rows *rows, const char *event, const char *const *files,
		      const struct diff_options *options, FILE *to);

/* An event of the array of events. Errors are left in the writer. */
void diff_json_put(struct json_writer *json, const struct diff_rows *rows, const struct event_desc *event,
		   const struct diff_options *options);

/* The rows of all events on the terminal, with call trees, until the user leaves. 0 or -errno. */
int diff_view_run(const struct diff_files *files, const struct diff_options *options, struct diag *reterr);
