/* SPDX-License-Identifier: MIT */
/*
 * pager: standard output through a pager, when it is a terminal. One for the process: standard output and the handlers
 * of signals are. Called by the main thread, before there are others.
 */
#pragma once

#include <stdbool.h>

struct pager_options {
	bool off;
};

/* Its row in the table of a command whose struct `type` has a struct pager_options `field`. */
#define PAGER_OPTIONS(type, field) \
	{.name = "no-pager", \
	 .help = "Print to the terminal itself; else what PERF_PAGER or PAGER names, or less, shows it page by page", \
	 .set = option_set_flag, \
	 .offset = offsetof(type, field.off)}

/*
 * When standard output is a terminal, and neither the options nor the environment (PERF_PAGER, then PAGER: empty or
 * "cat") speak against it, standard output becomes a pipe to a pager, which starts when there is something to show. From
 * then on a signal that ends the process ends it when the pager has ended, and the end of the pager ends it with success.
 * Without a pager, or when none can be started, nothing happens.
 */
void pager_open(const struct pager_options *options);

/* Was the terminal there, before pager_open() or without it? For what is only for people. */
bool pager_terminal(void);

/* At the end: no more output; waits until the pager has ended. Safe in a handler of signals. */
void pager_close(void);
