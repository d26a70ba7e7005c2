/* SPDX-License-Identifier: MIT */
/*
 * callers: functions of call chains that are chosen by regular expressions: the options --parent and --ignore-callees
 * of report. One owner (callers_fini), one thread.
 */
#pragma once

#include <regex.h>
#include <stdbool.h>

#include "analyze/machine/machine.h"

struct diag;

struct callers {
	regex_t parent, ignored;
	bool has_parent, has_ignored;
};

/* The regular expression for parents if --parent gives none, as in perf. */
#define CALLERS_DEFAULT_PARENT "^sys_|^do_page_fault"

/* Extended regular expressions; NULL: none. 0, or -EINVAL and why. */
int callers_init(struct callers *callers, const char *parent, const char *ignored, struct diag *reterr);
void callers_fini(struct callers *callers); /* zeroed is fine */

/*
 * The index of a frame that the parent's expression matches. The innermost frame has index 0; `outermost`: the search
 * begins with the outermost frame. nr: no frame matches.
 */
unsigned callers_parent(const struct callers *callers, const struct location frames[], unsigned nr, bool outermost);

/*
 * How many of the innermost frames --ignore-callees removes: those that were called by the outermost function that its
 * expression matches. 0: none.
 */
unsigned callers_ignored(const struct callers *callers, const struct location frames[], unsigned nr);
