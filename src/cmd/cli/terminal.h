/* SPDX-License-Identifier: MIT */
/*
 * terminal: standard output, and what is only for people: a pager on it, coloured shares. There is one pager in the
 * process.
 * Called by the main thread; pager_open() before there are other threads.
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
 * "cat") forbid it, standard output becomes a pipe to a pager, which starts when there is something to show. From then
 * on a signal ends this process only after the pager has ended; when the pager ends first, this process ends with exit
 * status 0. Without a pager, or when none can be started, nothing happens.
 */
void pager_open(const struct pager_options *options);

/* Is standard output a terminal, or was it one before pager_open()? */
bool pager_terminal(void);

/*
 * Ends the output and waits until the pager has ended. 0, or an exit status: the pager could not be started, so nothing
 * was shown. Async-signal-safe.
 */
int pager_close(void);

/* Flushes standard output. 0, or -errno when that or an earlier write failed, which is printed once. */
int standard_output_flush(void);

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
