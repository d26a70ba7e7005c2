/* SPDX-License-Identifier: MIT */
/*
 * timeline: the samples over time as a line of bars, with the times in which records were lost, and the part of it that
 * is chosen. Private to the room; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/view/view.h"

enum { TIMELINE_COLUMNS = 512 };

struct timeline {
	const struct time_bins *bins; /* borrowed; NULL: times are not known */
	const struct ledger_entry *gaps;
	size_t nr_gaps;
	int columns;                       /* that are shown */
	uint64_t counts[TIMELINE_COLUMNS]; /* samples of each */
	bool lost[TIMELINE_COLUMNS];       /* records were lost in it */
	uint64_t most;                     /* of all counts */
	bool choosing;                     /* the user is choosing a part */
	int cursor, mark;                  /* columns; mark -1: not set */
	bool cut;                          /* a part is shown: */
	struct view_times times;
};

/* For a line of so many columns. */
void timeline_fit(struct timeline *timeline, int columns);

/* The bar of a column: 0 (nothing) to 8. */
unsigned timeline_bar(const struct timeline *timeline, int column);

/* The times that columns stand for. */
struct view_times timeline_times(const struct timeline *timeline, int first, int last);

/* Is the column in the part that is shown, or between mark and cursor? */
bool timeline_is_chosen(const struct timeline *timeline, int column);

void timeline_draw(struct timeline *timeline, int y, int width);
