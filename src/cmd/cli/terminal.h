/* SPDX-License-Identifier: MIT */
/*
 * terminal: what is only for people: a pager on standard output, coloured shares, the progress of long work on standard
 * error. There is one of each in the process. Called by the main thread; pager_open() before there are other threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct diag;
struct option;

struct pager_options {
	bool off;
};

/* Its row in the table of a command whose struct `type` has a struct pager_options `field`. */
#define PAGER_OPTIONS(type, field)                                                                                     \
	{                                                                                                              \
		.name = "no-pager",                                                                                    \
		.help = "Print to the terminal itself; else what PERF_PAGER or PAGER names, or less, shows it page "   \
			"by page",                                                                                     \
		.set = option_set_flag, .offset = offsetof(type, field.off)                                            \
	}

/*
 * When standard output is a terminal, and neither the options nor the environment (PERF_PAGER, then PAGER: empty or
 * "cat") speak against it, standard output becomes a pipe to a pager, which starts when there is something to show.
 * From then on a signal that ends the process ends it when the pager has ended, and the end of the pager ends it with
 * success. Without a pager, or when none can be started, nothing happens.
 */
void pager_open(const struct pager_options *options);

/* Is standard output a terminal, or was it one before pager_open()? */
bool pager_terminal(void);

/* Ends the output and waits until the pager has ended. Async-signal-safe. */
void pager_close(void);

enum colour_when { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

/* Setter of an option table: "always" (also without an argument), "never", "auto". */
int colour_set(const struct option *option, const char *arg, bool negated, void *colour_when, struct diag *reterr);

/* auto: on a terminal, unless NO_COLOR is set or TERM is dumb. */
bool colour_wanted(enum colour_when when, bool terminal);

/* What stands before and behind a share of so many percent; both "" when it has no colour, or `coloured` is not set. */
struct colour_marks {
	const char *on, *off;
};
struct colour_marks colour_of_share(bool coloured, double percent);

/*
 * How far long work is, in the line of log_status(): "reading:  45 % [#########           ] 12.3 M records, 4.1 M/s, 3
 * s left". Without a total only the number of records and their rate.
 */
struct progress {
	const char *what; /* borrowed; NULL: nothing is shown */
	uint64_t nr_records, start_ns, next_ns;
	bool bytes;           /* what is counted are bytes, not records */
	uint64_t done, total; /* in any unit, such as bytes of the input; set by the caller; total 0: not known */
};

/* The first line is shown after a second: what is quicker needs none. */
void progress_start(struct progress *progress, const char *what);

void progress_show(struct progress *progress);

/* The line at that time, of CLOCK_MONOTONIC; behind the start. */
enum { PROGRESS_BYTES = 160 };
void progress_line(const struct progress *progress, uint64_t now_ns, char ret[PROGRESS_BYTES]);

/* After `nr` more records, up to `done` of the total. */
static inline void progress_step(struct progress *progress, uint64_t nr, uint64_t done)
{
	enum { STEP_RECORDS = 1 << 12 }; /* between two looks at the clock */
	uint64_t before = progress->nr_records;

	progress->nr_records += nr;
	progress->done = done;
	if (progress->nr_records / STEP_RECORDS != before / STEP_RECORDS && progress->what)
		progress_show(progress);
}

/* Removes the line. May be called more than once. */
void progress_end(struct progress *progress);
