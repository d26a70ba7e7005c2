/* SPDX-License-Identifier: MIT */
/* near: how close two words are, for "did you mean". */
#pragma once

#include <stdbool.h>

/* The number of letters to insert, delete, change or swap with their neighbour; words past 63 letters are
 * cut. */
unsigned edit_distance(const char *a, const char *b);

/* Whether `word` looks like a slip of the fingers for `known`, or like its beginning. */
bool edit_distance_is_close(const char *word, const char *known);
