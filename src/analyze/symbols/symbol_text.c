/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbol_text.h"

#include <string.h>

#include "base/span.h"

/* Borrowed text taken apart by lines, and lines by fields: symbol lists may be hostile. */

/* Takes one line out of *rest, without its newline. false: nothing is left. */
static bool text_line_next(struct span *rest, struct span *ret)
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

static void text_skip(struct span *line, size_t len)
{
	line->ptr = (const char *)line->ptr + len;
	line->len -= len;
}

/* A hexadecimal number of 1 to 16 digits, "0x" or not. */
static bool text_take_hex(struct span *line, uint64_t *ret)
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
static bool text_take_blank(struct span *line)
{
	if (!line->len || *(const char *)line->ptr != ' ')
		return false;
	text_skip(line, 1);
	return true;
}

bool kallsyms_next(struct span *rest, struct kallsyms_line *ret)
{
	struct span line;

	while (text_line_next(rest, &line)) {
		struct kallsyms_line found = {0};
		if (!text_take_hex(&line, &found.address) || !text_take_blank(&line) || !line.len)
			continue;
		const char *text = line.ptr;
		found.type = text[0];
		if (line.len < 3 || text[1] != ' ')
			continue;
		found.name = text + 2;
		found.name_len = line.len - 2;
		const char *tab = memchr(found.name, '\t', found.name_len);
		if (tab) {
			size_t tail = (size_t)(found.name + found.name_len - tab);
			found.name_len = (size_t)(tab - found.name);
			if (tail > 3 && tab[1] == '[' && tab[tail - 1] == ']') {
				found.module = tab + 2;
				found.module_len = tail - 3;
			}
		}
		if (!found.name_len)
			continue;
		*ret = found;
		return true;
	}
	return false;
}

bool perfmap_next(struct span *rest, struct perfmap_line *ret)
{
	struct span line;

	while (text_line_next(rest, &line)) {
		struct perfmap_line found;
		if (!text_take_hex(&line, &found.start) || !text_take_blank(&line) ||
		    !text_take_hex(&line, &found.size) || !text_take_blank(&line) || !line.len)
			continue;
		found.name = line.ptr;
		found.name_len = line.len;
		if (memchr(found.name, '\0', found.name_len))
			continue;
		*ret = found;
		return true;
	}
	return false;
}
