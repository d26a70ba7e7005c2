/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/symbol_text.h"

#include <endian.h>
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

/* Of a hexadecimal digit its value and one; 0: it is none. */
static const uint8_t hex_digits[256] = {
	['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
	['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
	['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* A hexadecimal number of 1 to 16 digits, "0x" or not. */
static bool text_take_hex(struct span *line, uint64_t *ret)
{
	const uint8_t *text = line->ptr;
	size_t begin = line->len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0, at = begin;
	size_t end = line->len - begin > 16 ? begin + 16 : line->len;
	uint64_t value = 0;

	for (uint8_t digit; at < end && (digit = hex_digits[text[at]]); at++)
		value = value << 4 | (digit - 1u);
	if (at == begin || (at == end && at < line->len && hex_digits[text[at]]))
		return false;
	*ret = value;
	text_skip(line, at);
	return true;
}

/* Eight digits with lower-case letters, all at once: a nibble in each byte. false: they are none. */
static bool take_digits(const uint8_t *text, uint64_t *ret)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t bytes;

	memcpy(&bytes, text, sizeof(bytes));
	bytes = be64toh(bytes);
	uint64_t values = (bytes & ones * 0x0f) + (bytes >> 6 & ones) * 9;
	uint64_t letters = (values + ones * 6) >> 4 & ones; /* 1 for each that is more than 9 */
	if (values & ones * 0x10 || values + ones * '0' + letters * ('a' - '0' - 10) != bytes)
		return false;
	values = (values | values >> 4) & UINT64_C(0x00ff00ff00ff00ff);
	values = (values | values >> 8) & UINT64_C(0x0000ffff0000ffff);
	*ret = (values | values >> 16) & UINT32_MAX;
	return true;
}

/* As the kernel prints addresses, or any other. */
static bool text_take_address(struct span *line, uint64_t *ret)
{
	enum { DIGITS = 16 };
	const uint8_t *text = line->ptr;
	uint64_t high, low;

	if (line->len <= DIGITS || text[DIGITS] != ' ' || !take_digits(text, &high) ||
	    !take_digits(text + DIGITS / 2, &low))
		return text_take_hex(line, ret);
	*ret = high << 32 | low;
	text_skip(line, DIGITS);
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

static void text_skip_blanks(struct span *line)
{
	const char *text = line->ptr;
	size_t nr = 0;

	while (nr < line->len && (text[nr] == ' ' || text[nr] == '\t'))
		nr++;
	text_skip(line, nr);
}

/* A number of a perf map, which any program writes: more blanks, or tabs, in front, and any one behind it. */
static bool text_take_aligned(struct span *line, uint64_t *ret)
{
	text_skip_blanks(line);
	if (!text_take_hex(line, ret) || !line->len)
		return false;
	const char next = *(const char *)line->ptr;
	text_skip(line, 1);
	return next == ' ' || next == '\t';
}

bool kallsyms_next(struct span *rest, struct kallsyms_line *ret)
{
	struct span line;

	while (text_line_next(rest, &line)) {
		struct kallsyms_line found = {0};
		if (!text_take_address(&line, &found.address) || !text_take_blank(&line) || !line.len)
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
		if (!text_take_aligned(&line, &found.start) || !text_take_aligned(&line, &found.size) || !line.len)
			continue;
		found.name = line.ptr;
		found.name_len = line.len;
		/* One that goes on behind the last address would be the name of all that is above its start. */
		if (memchr(found.name, '\0', found.name_len) || found.start + found.size < found.start)
			continue;
		*ret = found;
		return true;
	}
	return false;
}
