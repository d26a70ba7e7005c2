/* SPDX-License-Identifier: MIT */
/* text_line: takes borrowed text apart by lines, and lines by fields; for symbol lists that may be hostile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

/* Takes one line out of *rest, without its newline. false: nothing is left. */
static inline bool text_line_next(struct span *rest, struct span *ret)
{
	const char *text = rest->ptr;

	if (!rest->len)
		return false;
	const char *newline = memchr(text, '\n', rest->len);
	ret->ptr = text;
	ret->len = newline ? (size_t)(newline - text) : rest->len;
	size_t taken = ret->len + (newline ? 1 : 0);
	rest->ptr = text + taken;
	rest->len -= taken;
	return true;
}

static inline void text_skip(struct span *line, size_t len)
{
	line->ptr = (const char *)line->ptr + len;
	line->len -= len;
}

/* A hexadecimal number of 1 to 16 digits, "0x" or not. */
static inline bool text_take_hex(struct span *line, uint64_t *ret)
{
	const char *text = line->ptr;
	size_t at = line->len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0, digits = 0;
	uint64_t value = 0;

	for (; at < line->len; at++, digits++) {
		char c = text[at];
		unsigned digit;
		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'F')
			digit = (unsigned)(c - 'A') + 10;
		else
			break;
		if (digits == 16)
			return false;
		value = value << 4 | digit;
	}
	if (!digits)
		return false;
	*ret = value;
	text_skip(line, at);
	return true;
}

/* Exactly one blank. */
static inline bool text_take_blank(struct span *line)
{
	if (!line->len || *(const char *)line->ptr != ' ')
		return false;
	text_skip(line, 1);
	return true;
}
