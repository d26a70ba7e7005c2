/* SPDX-License-Identifier: MIT */
#include "base/escape.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { PIECE_BYTES = 12 /* "\u{10ffff}" */ };

static bool raw_wanted;

void escape_set_raw(bool raw)
{
	raw_wanted = raw;
}

/* Bytes of the sequence that its first one begins; 0: none can. The range of the second one: RFC 3629, section 4. */
static size_t sequence_bytes(unsigned char first, unsigned char *ret_low, unsigned char *ret_high)
{
	*ret_low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*ret_high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

size_t escape_utf8_bytes(const char *bytes, size_t len)
{
	const unsigned char *at = (const unsigned char *)bytes;
	unsigned char low, high;
	size_t nr = len ? sequence_bytes(at[0], &low, &high) : 0;

	if (nr > len || (nr > 1 && (at[1] < low || at[1] > high)))
		return 0;
	for (size_t i = 2; i < nr; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return nr;
}

uint32_t escape_code_point(const char *character, size_t len)
{
	const unsigned char *at = (const unsigned char *)character;
	uint32_t code = len == 1 ? at[0] : at[0] & (0xffu >> (len + 1));

	for (size_t i = 1; i < len; i++)
		code = code << 6 | (at[i] & 0x3f);
	return code;
}

/* Source of the ranges: Unicode 15, general category Cc, Zl and Zp, property Bidi_Control. */
static bool is_printable(uint32_t code)
{
	return !(code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x61c || code == 0x200e || code == 0x200f ||
		 (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069));
}

bool escape_is_printable(const char *character, size_t len)
{
	return is_printable(escape_code_point(character, len));
}

/*
 * What stands for the first character, or the first byte that is none. Returns its bytes; *ret_len: how many are
 * written.
 */
static size_t escape_one(const char *bytes, size_t len, char piece[PIECE_BYTES], size_t *ret_len)
{
	size_t taken = escape_utf8_bytes(bytes, len);
	uint32_t code = taken ? escape_code_point(bytes, taken) : (unsigned char)*bytes;
	int written;

	if (taken && code != '\\' && is_printable(code)) {
		memcpy(piece, bytes, taken);
		*ret_len = taken;
		return taken;
	}
	if (code == '\n' || code == '\t' || code == '\\')
		written = snprintf(piece, PIECE_BYTES, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : '\\');
	else if (taken > 1)
		written = snprintf(piece, PIECE_BYTES, "\\u{%x}", code);
	else
		written = snprintf(piece, PIECE_BYTES, "\\x%02x", code);
	*ret_len = (size_t)written;
	return taken ? taken : 1;
}

size_t escape_take(struct span *left, char *to, size_t room)
{
	size_t len = 0;

	while (left->len) {
		char piece[PIECE_BYTES];
		size_t piece_len, taken = escape_one(left->ptr, left->len, piece, &piece_len);
		if (piece_len > room - len)
			break;
		memcpy(to + len, piece, piece_len);
		len += piece_len;
		*left = (struct span){(const char *)left->ptr + taken, left->len - taken};
	}
	return len;
}

bool escape_needed_slow(const char *bytes, size_t len)
{
	while (len && !raw_wanted) {
		size_t taken = escape_utf8_bytes(bytes, len);
		if (!taken || *bytes == '\\' || !escape_is_printable(bytes, taken))
			return true;
		bytes += taken;
		len -= taken;
	}
	return false;
}

void escape_put(struct buf *buf, const char *bytes, size_t len)
{
	struct span left = {bytes, len};

	if (!escape_needed(bytes, len)) {
		buf_put(buf, bytes, len);
		return;
	}
	char *to = buf_room(buf, len * ESCAPE_GROWTH);
	if (to)
		buf->len += escape_take(&left, to, len * ESCAPE_GROWTH);
}

void escape_put_text(struct buf *buf, const char *text)
{
	escape_put(buf, text, strlen(text));
}

struct escaped escaped_bytes(const char *bytes, size_t len)
{
	struct span left = {bytes, len < INT_MAX / ESCAPE_GROWTH ? len : INT_MAX / ESCAPE_GROWTH};
	struct escaped escaped = {.text = bytes, .len = (int)left.len};

	if (!escape_needed(bytes, left.len))
		return escaped;
	size_t room = left.len * ESCAPE_GROWTH;
	escaped.owned = malloc(room + 1);
	if (!escaped.owned)
		return (struct escaped){.text = "?", .len = 1}; /* without memory: not known */
	size_t written = escape_take(&left, escaped.owned, room);
	escaped.owned[written] = '\0';
	escaped.text = escaped.owned;
	escaped.len = (int)written;
	return escaped;
}

struct escaped escaped_text(const char *text)
{
	return escaped_bytes(text, strlen(text));
}

void escaped_fini(struct escaped *escaped)
{
	free(escaped->owned);
}

int escaped_cut(const char *text, int width)
{
	int len = (int)strnlen(text, (size_t)width);

	if (raw_wanted || !text[len])
		return len;
	while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return len;
}
