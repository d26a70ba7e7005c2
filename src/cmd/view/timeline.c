/* SPDX-License-Identifier: MIT */
#include "cmd/view/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/report/time_bins.h"
#include "cmd/view/screen.h"
#include "perfdata/ledger.h"

enum { LABEL_COLUMNS = 22, BARS = 8 };

/* Of a damaged recording it may be more than a uint64_t holds. */
static double length_ns(const struct timeline *timeline)
{
	return (double)(timeline->bins->end_ns - timeline->bins->start_ns) + 1;
}

/* The column in which that time is. */
static int column_of(const struct timeline *timeline, uint64_t time_ns)
{
	uint64_t start = timeline->bins->start_ns;
	uint64_t since = time_ns < start ? 0 : time_ns - start;
	double part = (double)since / length_ns(timeline);

	return part >= 1 ? timeline->columns - 1 : (int)(part * timeline->columns);
}

static void mark_gaps(struct timeline *timeline)
{
	const struct time_bins *bins = timeline->bins;

	memset(timeline->lost, 0, sizeof(timeline->lost));
	for (size_t i = 0; i < timeline->nr_gaps; i++) {
		const struct ledger_entry *gap = &timeline->gaps[i];
		if (gap->to_ns < bins->start_ns || gap->from_ns > bins->end_ns)
			continue;
		int last = column_of(timeline, gap->to_ns);
		for (int column = column_of(timeline, gap->from_ns); column <= last; column++)
			timeline->lost[column] = true;
	}
}

void timeline_fit(struct timeline *timeline, int columns)
{
	const struct time_bins *bins = timeline->bins;

	timeline->columns = columns < TIMELINE_COLUMNS ? columns : TIMELINE_COLUMNS;
	memset(timeline->counts, 0, sizeof(timeline->counts));
	timeline->most = 0;
	if (!bins || !bins->bin_ns || timeline->columns < 1) {
		timeline->columns = 0;
		return;
	}
	for (unsigned bin = 0; bin < TIME_BINS; bin++) {
		if (!bins->counts[bin])
			continue;
		int column = column_of(timeline, bins->start_ns + bin * bins->bin_ns + bins->bin_ns / 2);
		timeline->counts[column] += bins->counts[bin];
		if (timeline->most < timeline->counts[column])
			timeline->most = timeline->counts[column];
	}
	mark_gaps(timeline);
	if (timeline->cursor >= timeline->columns)
		timeline->cursor = timeline->columns - 1;
}

unsigned timeline_bar(const struct timeline *timeline, int column)
{
	uint64_t count = timeline->counts[column];

	return count ? 1 + (unsigned)(count * (BARS - 1) / timeline->most) : 0;
}

struct view_times timeline_times(const struct timeline *timeline, int first, int last)
{
	double each = length_ns(timeline) / timeline->columns;
	uint64_t start = timeline->bins->start_ns;
	struct view_times times = {start + (uint64_t)(each * first), timeline->bins->end_ns};

	if (last + 1 < timeline->columns)
		times.last_ns = start + (uint64_t)(each * (last + 1)) - 1;
	return times;
}

bool timeline_is_chosen(const struct timeline *timeline, int column)
{
	if (timeline->choosing && timeline->mark >= 0) {
		int first = timeline->mark < timeline->cursor ? timeline->mark : timeline->cursor;
		int last = timeline->mark < timeline->cursor ? timeline->cursor : timeline->mark;
		return column >= first && column <= last;
	}
	if (timeline->choosing || !timeline->cut)
		return timeline->choosing && column == timeline->cursor;
	struct view_times at = timeline_times(timeline, column, column);
	return at.last_ns >= timeline->times.first_ns && at.first_ns <= timeline->times.last_ns;
}

static void draw_label(const struct timeline *timeline, int y, int width)
{
	char label[64] = "";
	struct view_times times = {timeline->bins->start_ns, timeline->bins->end_ns};

	if (timeline->choosing)
		times = timeline_times(timeline,
				       timeline->mark >= 0 && timeline->mark < timeline->cursor ? timeline->mark
												: timeline->cursor,
				       timeline->mark > timeline->cursor ? timeline->mark : timeline->cursor);
	else if (timeline->cut)
		times = timeline->times;
	uint64_t from = times.first_ns - timeline->bins->start_ns, to = times.last_ns - timeline->bins->start_ns;
	snprintf(label, sizeof(label), "%9.3f-%.3f s ", (double)from / 1e9, (double)to / 1e9);
	screen_fill(y, 0, width, SCREEN_PLAIN);
	screen_put(y, 0, LABEL_COLUMNS, timeline->cut ? SCREEN_HEADER : SCREEN_DIM, label);
}

void timeline_draw(struct timeline *timeline, int y, int width)
{
	static const char *const utf8[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {" ", ".", ".", ":", ":", "-", "=", "+", "#"};
	const char *const *bars = screen_utf8() ? utf8 : ascii;

	timeline_fit(timeline, width - LABEL_COLUMNS);
	if (!timeline->columns)
		return;
	draw_label(timeline, y, width);
	for (int column = 0; column < timeline->columns; column++) {
		bool lost = timeline->lost[column];
		int style = lost ? SCREEN_GAP : SCREEN_DIM;
		if (timeline_is_chosen(timeline, column))
			style = lost ? SCREEN_GAP + SCREEN_CURSOR : SCREEN_SELECTED;
		screen_put(y, LABEL_COLUMNS + column, 1, style, lost ? "x" : bars[timeline_bar(timeline, column)]);
	}
}
