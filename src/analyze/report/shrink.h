/* SPDX-License-Identifier: MIT */
/*
 * shrink: frees what has no samples any more, for recordings that are shown while they run, and decay. One owner, one
 * thread.
 */
#pragma once

#include <stddef.h>

#include "analyze/report/tally.h"

struct machine;
struct stacks;

/* The tallies of all events, and of each what is shown of it: the amounts of its cells, as far as it has any. */
struct shrink {
	struct machine *machine;
	struct stacks *stacks;
	struct tally *const *tallies, *const *shown;
	size_t nr;
};

/*
 * Forgets the cells without samples, neither new nor shown; then the call chains that no cell needs, and tasks that
 * have ended. Cells and chains have other numbers afterwards. 0; -ENOMEM: all may still be there, and is whole.
 */
int shrink_tallies(const struct shrink *shrink);
