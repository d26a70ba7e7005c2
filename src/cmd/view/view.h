/* SPDX-License-Identifier: MIT */
/*
 * view: shows samples on a terminal: a table for each event, call trees below its rows, the code of a function. For
 * `report` on a terminal, and for `top`. Main thread.
 *
 * What is shown is borrowed from a source. A source that changes while it is shown (top) is locked by the view while
 * it is looked at, and unlocked while the view waits for a key.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/code/code.h"
#include "analyze/report/count.h"
#include "analyze/report/hierarchy.h"

struct buf;
struct debug_info;
struct diag;
struct ledger_entry;
struct time_bins;

/* An event, or a group of them of which the first is the leader; or one event of several recordings, see `compared`. */
struct view_event {
	const char *name;             /* escaped */
	struct tally *const *tallies; /* of each member; NULL: it has no samples */
	unsigned nr;
	bool chains; /* call chains were recorded */
};

/* What is shown. Everything is borrowed, and stays while the view runs, but for source->ops->update(). */
struct view_data {
	const char *title; /* the file, or what is recorded; of files that are compared: what, escaped */
	const struct view_event *events;
	size_t nr_events;
	const struct stacks *stacks;
	struct count_options count;             /* how the table is counted at first; the view changes its own copy */
	enum hist_column columns[HIST_COLUMNS]; /* from left to right; HIST_CHILDREN only while callers are counted */
	unsigned nr_columns;
	const struct hierarchy_level *levels;  /* of a tree of keys; without callers, and nothing is compared */
	unsigned nr_levels;                    /* 0: a table */
	const char *field_titles[HIST_FIELDS]; /* of the columns HIST_FIELD and so on */
	bool compared;    /* of each event the first tally is the baseline; others are shown by how much they differ */
	bool self_named;  /* as in the text: the own share is called Self */
	bool nanoseconds; /* times have nine digits */
	bool addresses;   /* tallies have a cell for each address, so that code can be annotated */
	bool relative;    /* shares of what is shown */
	double percent_limit; /* rows below are left out */
	double graph_percent; /* branches below */
	enum code_syntax code_syntax;
	int kernel_code_fd;              /* /proc/kcore; -1: cannot be read */
	struct debug_info *debug_info;   /* NULL: no source lines */
	const char *symfs;               /* NULL: "" */
	const struct time_bins *times;   /* of all samples; NULL: not known */
	const struct ledger_entry *gaps; /* in which records were lost */
	size_t nr_gaps;
	uint64_t lost_samples;
	const char *note; /* shown at first: what the recording lacks; NULL: nothing */
};

/* Nanoseconds on the clock of the samples, both inclusive. */
struct view_times {
	uint64_t first_ns, last_ns;
};

/* Which samples are shown one by one: those that have each of these that is given. Borrowed. */
struct view_samples {
	const char *comm, *dso, *symbol; /* NULL: any; of an object its long name */
	uint32_t tid;                    /* VIEW_ANY_TID: any */
};
#define VIEW_ANY_TID UINT32_MAX

/* The state of a source that is recording, for the first line. */
struct view_live {
	bool paused, disabled, zero, total, ended;
	uint64_t lost, kept_bytes;
	uint64_t not_counted; /* samples for which there was no memory */
};

/* A function is NULL when the source cannot do it. */
struct view_source_ops {
	/* Reads only the samples of those times from now on; NULL: all. source->data may be replaced. */
	int (*cut)(void *ctx, const struct view_times *times, struct diag *reterr);
	/* The wanted samples of those times (NULL: all), a line or more each, and a title; their number is limited. */
	int (*samples)(void *ctx, const struct view_samples *wanted, const struct view_times *times, struct buf *title,
		       struct buf *out, struct diag *reterr);
	/* Saves the samples that are shown as a recording; *ret_path: its name. */
	int (*save)(void *ctx, struct buf *ret_path, struct diag *reterr);
	void (*lock)(void *ctx);
	void (*unlock)(void *ctx);
	/* Called after the interval, locked: counts new samples; false: there were none. */
	bool (*update)(void *ctx);
	void (*live)(void *ctx, struct view_live *ret);
	/* The keys z, D, p, f of top. */
	void (*toggle)(void *ctx, char key);
	void (*header)(void *ctx, struct buf *out); /* what `report --header` prints */
};

struct view_source {
	const struct view_source_ops *ops;
	void *ctx;
	struct view_data *data;
	unsigned interval_ms; /* between updates; 0: it does not change */
};

struct view_options {
	bool colourless;
};

/* What the view writes is in the working directory: a path there, for the sandbox. */
#define VIEW_OUTPUT "perf.hist.0"

enum view_end {
	VIEW_QUIT,
	VIEW_OTHER_FILE, /* path: another recording is to be shown */
};

struct view_result {
	enum view_end end;
	char path[256];
};

/* Whether standard input and output are terminals that a view can be drawn on; false: *ret_why says what is missing. */
bool view_possible(const char **ret_why);

/* Until the user ends it. 0 or -errno. */
int view_run(struct view_source *source, const struct view_options *options, struct view_result *ret,
	     struct diag *reterr);
