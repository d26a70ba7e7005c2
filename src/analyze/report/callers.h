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

/* What parents are matched by unless --parent says otherwise, as in perf. */
#define CALLERS_DEFAULT_PARENT "^sys_|^do_page_fault"

/* Extended regular expressions; NULL: none. 0, or -EINVAL and why. */
int callers_init(struct callers *callers, const char *parent, const char *ignored, struct diag *reterr);
void callers_fini(struct callers *callers); /* zeroed is fine */

/*
 * Of frames with the innermost first: the first one that the parent's expression matches, from the innermost on, or
 * from the outermost. nr: none.
 */
unsigned callers_parent(const struct callers *callers, const struct location frames[], unsigned nr, bool outermost);

/* How many frames the outermost function whose callees are ignored has called: 0, too, when there is none. */
unsigned callers_ignored(const struct callers *callers, const struct location frames[], unsigned nr);
