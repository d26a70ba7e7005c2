/* SPDX-License-Identifier: MIT */
/* source_text: source lines as report and script print them. One thread. */
#pragma once

#include <stdbool.h>

struct buf;
struct location;
struct srclines;

enum source_flags {
	SOURCE_FULL_PATH = 1, /* else the name of the file alone */
	SOURCE_SYMBOL = 2,    /* of what has no line "symbol+7" is told, where there is a symbol */
};

/*
 * Appends "file.c:7", or "symbol+7", or "object[address]", or "??:0". The buffer may be left without memory (buf.h).
 * Returns whether the line is known.
 */
bool source_text_line(struct srclines *srclines, const struct location *at, unsigned flags, struct buf *out);

/* Appends "file.c"; nothing when it is not known. */
void source_text_file(struct srclines *srclines, const struct location *at, unsigned flags, struct buf *out);
