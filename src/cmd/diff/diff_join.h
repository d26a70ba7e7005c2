/* SPDX-License-Identifier: MIT */
/*
 * diff_join: samples of several recordings as if they were of one: objects and functions of the same names become the
 * same ones, so that programs may be different builds. Main thread.
 */
#pragma once

#include "analyze/machine/stacks.h"
#include "analyze/report/tally.h"

struct diff_join;

/* NULL: out of memory. Places and chains of it are valid while the machines of all recordings live. */
struct diff_join *diff_join_new(void);
void diff_join_free(struct diff_join *join); /* NULL is fine */

/* Of all recordings. */
const struct stacks *diff_join_stacks(const struct diff_join *join);

/* The samples of one event of a recording whose chains are in `stacks` into an empty tally. 0 or -ENOMEM. */
int diff_join_add(struct diff_join *join, const struct tally *from, const struct stacks *stacks, struct tally *to);
