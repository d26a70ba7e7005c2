/* SPDX-License-Identifier: MIT */
/*
 * put_text: parts of lines, which are many, without printf(3), which takes longer than the rest of them. Errors are
 * those of the stream, which one thread uses. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

void put_bytes(FILE *to, const char *bytes, size_t len);
void put_blanks(FILE *to, size_t nr);

/* Escaped, at most `most` wide (-1: however wide it is), and blanks up to `least`. Returns the columns taken. */
int put_padded(FILE *to, const char *text, int least, int most);

/* " %*.2f%%" of printf(3), `width` columns with the first blank and the sign, where that is enough: likewise. */
int put_share(FILE *to, double share, int width);
