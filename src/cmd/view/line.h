/* SPDX-License-Identifier: MIT */
/* line: a row of the table as pieces of text with their styles: for the screen and for a file. Private to the room. */
#pragma once

#include "base/buf.h"
#include "cmd/view/model.h"

struct line_piece {
	int style;
	size_t from, len; /* bytes of the text */
	bool name;        /* the last one: what is too long can be scrolled */
};

/* Zeroed: empty. */
struct line {
	struct buf text;           /* escaped */
	struct line_piece *pieces; /* heap */
	unsigned nr, room;
};

void line_fini(struct line *line);

/* How wide the columns are, and what is said of frames. */
struct line_style {
	int widths[HIST_KEYS];
	bool dsos; /* of frames of call trees, too */
};

/* Wide enough for the row; but names wider than most are cut, except in the last column. */
void line_style_fit(struct line_style *style, const struct model *model, const struct hist_entry *entry);

void line_of_titles(struct line *line, const struct model *model, const struct line_style *style);
void line_of_row(struct line *line, struct model *model, const struct line_style *style, struct row row);

/* "Samples: 12K of event 'cycles', Event count (approx.): 123456", and what is zoomed into. */
void line_of_table(struct buf *out, const struct model *model);
