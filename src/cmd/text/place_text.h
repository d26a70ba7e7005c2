/* SPDX-License-Identifier: MIT */
/* place_text: the columns of a report for a place, as perf report prints them. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/report/hist.h"

enum {
	PLACE_ADDRESS_DIGITS = 16,
	PLACE_LEVEL_WIDTH = 4, /* "[.] " */
	PLACE_TID_WIDTH = 8,   /* "%7d:" */
};

struct place_style {
	int width;        /* of the column; 0: as wide as the text */
	bool cut;         /* names are made no wider */
	bool nanoseconds; /* times have nine digits */
	uint64_t samples; /* of the place, by which perf multiplies the keys weight and ins_lat; 0: not */
};

/* "libc.so.6"; "[unknown]". */
const char *place_dso_text(const struct hist_place *place);

/* With details: the caller that --parent matched; "[other]": none. */
const char *place_parent_text(const struct hist_place *place);

/* A field of a tracepoint stands at the right of its column. */
static inline bool place_is_field(enum hist_column column)
{
	return column >= HIST_FIELD && column <= HIST_FIELD_LAST;
}

/* key < HIST_KEYS. Names are escaped. Returns the columns taken, as fprintf(3). */
int place_text_print(FILE *to, enum hist_column key, const struct hist_place *place, struct place_style style);

/* The title of a column, also of numbers; "Field" for all fields of tracepoints: the caller knows their names. */
const char *place_column_title(enum hist_column column);
