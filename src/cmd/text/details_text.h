/* SPDX-License-Identifier: MIT */
/*
 * details_text: the columns of a report about branches, accesses to memory, transactions and sizes, as perf prints them
 * (facts: tools/perf/util/sort.c and hist.c of perf 6.1). One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyze/report/hist.h"

/* Whether the key is one of these columns; the other functions are for those. */
bool details_text_has(enum hist_column key);

const char *details_text_title(enum hist_column key);

/*
 * The width of the text of a row in the column; 0: the column has a fixed width. unknown_object: the width that perf
 * gives to columns of objects when an object is unknown.
 */
size_t details_text_width(enum hist_column key, const struct hist_details *details, size_t unknown_object);

/* Returns the columns taken. `width`: of the column; 0: as wide as the text. */
int details_text_print(FILE *to, enum hist_column key, const struct hist_place *place, int width);

/*
 * Prints a page size: "4K", "2M", "N/A"; one MB and one GB are printed in the smaller unit, "1024K". Returns the
 * columns taken.
 */
int details_text_page_size(FILE *to, uint64_t bytes, int width);
