/* SPDX-License-Identifier: MIT */
/* colour: when reports for terminals are coloured, and how shares are. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum colour_when { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

struct diag;
struct option;

/* "always" (also without an argument), "never", "auto"; for an option table. */
int colour_set(const struct option *option, const char *arg, bool negated, void *colour_when, struct diag *reterr);

/* auto: on a terminal, unless NO_COLOR is set or TERM is dumb. */
bool colour_wanted(enum colour_when when, bool terminal);

/* What stands before and behind a share of so many percent; both "" when it has no colour, or `coloured` is not set. */
struct colour_marks {
	const char *on, *off;
};
struct colour_marks colour_of_share(bool coloured, double percent);
