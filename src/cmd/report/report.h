/* SPDX-License-Identifier: MIT */
/* report: the options of `millrace report`, and what it prints. Private to the room; one thread. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/code/code.h"
#include "analyze/report/calltree.h"
#include "analyze/report/hierarchy.h"
#include "analyze/report/hist.h"
#include "analyze/report/tally.h"
#include "base/buf.h"
#include "base/cpuset.h"
#include "base/pool.h"
#include "cmd/cli/option.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/input.h"
#include "cmd/input/store_input.h"
#include "cmd/report/columns.h"
#include "cmd/report/report_read.h"
#include "cmd/report/report_samples.h"
#include "cmd/text/header_text.h"

struct diag;
struct event_desc;
struct machine;
struct samples;
struct session;

/* How the table of an event looks; the layout is that of perf report --stdio. */
struct table_options {
	struct column_list columns;       /* from left to right */
	bool children;                    /* callers are counted */
	bool hidden[HIST_KEYS];           /* columns of keys that are sorted by but not shown */
	bool relative;                    /* shares of what is shown, not of all samples */
	bool nanoseconds;                 /* times have nine digits */
	bool coloured;                    /* shares by their size */
	bool self_named;                  /* the own share is called Self */
	bool latency;                     /* shares are of the time the program took; HIST_LATENCY has the others */
	char separator;                   /* between columns, and nowhere in them: it becomes a dot; 0: two blanks */
	const char *widths;               /* of the columns, "8,0,20"; 0 or missing: as wide as needed. NULL: all are */
	bool headless;                    /* -q: only the lines of entries */
	bool dso_list;                    /* --dsos was given: the column is not made wide for unknown symbols */
	double percent_limit;             /* entries below are left out */
	const struct trace_field *fields; /* those that are columns; borrowed */
	struct socket_choice socket;      /* shown above */
	struct hierarchy_level levels[HIST_KEYS]; /* --hierarchy */
	unsigned nr_levels;                       /* 0: a flat table */
	const char *title;                        /* in place of the event's name; NULL: that */
	const char *times;                        /* of --time, shown in the title; NULL: all */
	const struct column_choice
		*sorted_by; /* named above the table of accesses to memory; NULL: not of such a table */
};

/* The call graph below an entry of a table. */
enum graph_mode { GRAPH_ABSOLUTE, GRAPH_FRACTAL, GRAPH_FLAT, GRAPH_FOLDED, GRAPH_NONE };
enum graph_value { GRAPH_PERCENT, GRAPH_PERIOD, GRAPH_COUNT };

struct graph_options {
	enum graph_mode mode;
	enum calltree_direction direction;
	enum calltree_key key;
	enum graph_value value;
	bool wanted;        /* by -g: a recording without call chains is an error then */
	bool direction_set; /* else CALLER for tables with children */
	double min_percent; /* branches below are left out */
	unsigned max_lines; /* of one level; 0: all */
	bool full_paths;    /* of source files */
	bool skip_first;    /* the entry itself, which stands above */
	bool coloured;      /* shares by their size */
	char separator;     /* of folded chains; 0: ';' */
};

/* What -g srcline and -g address show of frames, looked up once. Any thread. */
struct frame_lines {
	struct debug_info *info;
	const struct stacks *stacks;
	bool full_paths, offsets;     /* offsets: "+12" where no line is known */
	_Atomic(const char *) *texts; /* by frame; NULL: not looked up; "": not known. NULL: they are not asked for */
	pthread_mutex_t lock;         /* of what follows */
	struct pool pool;
	struct hash_table kept; /* texts, by their hash */
};

/* How the lines of a graph begin. */
struct rails {
	int depth, margin;
	uint32_t mask; /* of the levels that go on */
};

struct graph {
	const struct graph_options *options;
	struct frame_lines *lines; /* borrowed, as all that is const */
	const struct tally *tally;
	const struct stacks *stacks;
	struct calltree tree;
	uint64_t total;       /* what is 100 % */
	uint64_t shown_total; /* what the least percentage of a branch is of: less where a filter makes the table's
				 shares relative */
	FILE *to;
	struct buf text;        /* that is not written yet */
	struct buf levels;      /* the beginning of the last line */
	struct rails levels_of; /* likewise */
	uint64_t entry_period;  /* of the entry that is printed */
};

/* 0 or -ENOMEM; frame_lines_fini() in any case. All samples were taken. */
int frame_lines_init(struct frame_lines *lines, const struct graph_options *options, const struct samples *samples);
void frame_lines_fini(struct frame_lines *lines);

/*
 * 0 or -ENOMEM; graph_fini() in any case. The samples are of this event, and all were taken. A graph is one thread's;
 * others may have graphs of the same.
 */
int graph_init(struct graph *graph, const struct graph_options *options, const struct tally *tally,
	       struct frame_lines *lines);
void graph_fini(struct graph *graph);

/* entry_period: its share with children, where they are counted. 0 or -ENOMEM. */
int graph_print(struct graph *graph, const struct hist_entry *entry, uint64_t entry_period);

enum branch_choice { BRANCHES_AUTO, BRANCHES_YES, BRANCHES_NO };

enum group_tables { GROUPS_RECORDED, GROUPS_ALL /* all events are one where none were recorded */, GROUPS_NONE };

struct report_options {
	struct input_options input;
	struct store_input from;
	struct samples_options samples;
	struct table_options table;
	bool loss, json, raw_text;
	const char *html; /* a page is written there; NULL: none */
	struct graph_options graph;
	struct column_choice columns;
	uint64_t group_sort;
	struct cpuset parallelisms; /* --parallelism */
	struct header_options header;
	struct pager_options pager;
	enum colour_when colour;
	enum group_tables groups;
	enum branch_choice branches; /* are they counted? AUTO: where there are any */
	bool memory;                 /* accesses to memory are counted */
	bool inverted, tasks, mmaps, threads, hierarchy;
	bool raw_threads; /* a line for each value */
	bool stats, raw_dump, stdio, tui;
	enum code_syntax code_syntax;
	int kernel_code_fd; /* /proc/kcore; -1: cannot be read */
	bool quiet;
	int verbose;
};

extern const struct option report_options_table[];

/* Defaults. */
void report_options_init(struct report_options *options);

/* Derives the options that follow from others. */
void report_options_complete(struct report_options *options);

/*
 * Adapts the options to a recording, as perf does: one that has only tracepoints is sorted by their fields; of one with
 * branches, the branches are counted. Then calls report_options_complete(). -EINVAL: the recording lacks what an option
 * needs, or options contradict each other.
 */
int report_options_fit(struct report_options *options, const struct session *session, struct diag *reterr);

/*
 * The same for the rows of a store, which have only command, object, function and host of samples. -EINVAL: the store
 * lacks what an option needs.
 */
int report_options_fit_store(struct report_options *options, struct diag *reterr);

/* What the user can do to get names for samples that have none; the most samples first. */
enum { HINTS_SHOWN = 3, HINTS_MAX = 16 /* with -v */ };
struct hint {
	const struct dso *dso; /* NULL: no map */
	double percent;        /* of all samples; 0: only callers are without names */
	char *text;            /* heap */
};
struct hint_list {
	struct hint at[HINTS_MAX];
	size_t nr;
};

/* After the last sample. 0 or -ENOMEM; hints_fini() in any case. */
int hints_make(const struct samples *samples, struct hint_list *ret);
void hints_print(const struct hint_list *list); /* to standard error, unless -q */
void hints_fini(struct hint_list *list);

/* The events of one table: they follow each other. */
struct report_group {
	size_t first, nr;
	const char *name; /* of a group that has one; NULL: none */
	bool braces;      /* it was recorded as a group */
	bool plural;      /* "events" */
};

/* All of them; the caller frees *ret. 0 or -ENOMEM. */
int report_groups_find(const struct report_options *options, const struct session *session, struct report_group **ret,
		       size_t *ret_nr);

/* "anon group { a, b }", "a, b", "a"; escaped. */
void report_group_put_name(const struct report_group *group, const struct event_desc *events, struct buf *out);

/* The tables in the terminal view until the user leaves. Takes the session, and gives back the path of another
 * recording that is to be shown; heap; NULL: none. */
int report_view_run(struct report_options *options, struct session **session, char **ret_path, struct diag *reterr);

/* Opens what only root may open; to be called before the sandbox forbids it. */
void report_view_prepare(struct report_options *options, bool view);

/* 1: show the view; 0: print text; -ENOTSUP and why: --tui was given, but there can be no view. */
int report_view_wanted(const struct report_options *options, struct diag *reterr);

/* For lost_samples: the number is not known, as for a store. */
#define LOST_UNKNOWN UINT64_MAX

/* The tables of a report: one for each event, or for each group of events. */
struct report_tables {
	struct report_options *options; /* what the table itself must know is filled in */
	struct session *session;
	struct samples *samples; /* after the last record */
	uint64_t lost_samples;
	struct hint_list *hints; /* filled in; hints_fini() in any case */
};

/* 0, or -errno and why; -EINVAL: the recording lacks what an option needs. Errors of `to` are left to the caller. */
int report_tables_print(const struct report_tables *tables, FILE *to, struct diag *reterr);

/* The same tables as JSON; the schema is in millrace-report(1). */
struct report_json_options {
	double percent_limit;
	uint64_t lost_samples; /* LOST_UNKNOWN: null */
	const char *title;     /* of what is counted; NULL: the name of the event */
	const struct hint_list *hints;
};

/* After samples_count(). 0 or -ENOMEM. The caller looks at the errors of `to`. */
int report_json_print(struct samples *samples, const struct event_desc *events, size_t nr_events,
		      const struct report_json_options *options, FILE *to);

/*
 * --html: the page. Takes the session. What was read before an error is in it all the same. 0, or -errno and why.
 */
int report_html_run(struct report_options *options, struct session **session, struct diag *reterr);

/* --loss: what any perf.data file lost, where, when and why. */
struct report_loss_options {
	bool json;
	bool headless; /* the tables alone */
};

/* Reads the whole session, opened with SESSION_FILE_ORDER. What was read before an error is printed all the same. */
int report_loss_print(const struct report_loss_options *options, struct session *session, FILE *to,
		      struct diag *reterr);

/*
 * --tasks: a tree of tasks, with `maps` also what each has mapped. After the machine has processed all records. 0 or
 * -ENOMEM.
 */
int report_tasks_print(FILE *to, const struct machine *machine, bool maps);
