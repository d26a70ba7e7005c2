/* SPDX-License-Identifier: MIT */
/*
 * shrink: frees cells, call chains and tasks that have no samples any more. For `top`, which shows a recording while it
 * runs, and forgets old samples. One owner, one thread.
 */
#pragma once

#include <stddef.h>

#include "analyze/report/tally.h"

struct machine;
struct stacks;

/*
 * The tallies of all events, and for each the tally whose amounts are shown, with the same cells or only the first of
 * them.
 */
struct shrink {
	struct machine *machine;
	struct stacks *stacks;
	struct tally *const *tallies, *const *shown;
	size_t nr;
};

/*
 * Removes the cells that have samples in neither tally; then call chains that no cell uses, and tasks that have ended.
 * Cells and chains have other numbers afterwards. 0; -ENOMEM: some may not be removed, but all data is consistent.
 */
int shrink_tallies(const struct shrink *shrink);
