/* SPDX-License-Identifier: MIT */
/*
 * escape: text that others chose (names of threads, files, symbols, events, fields of records), made safe to print: no
 * byte of it can control a terminal or end a line, and it cannot be mistaken for text that we print ourselves.
 *
 * 	\n \t \\         newline, tab, backslash
 * 	\xNN             another control character of ASCII, DEL, or a byte that is no UTF-8
 * 	\u{NN}           a control character of U+0080 to U+009F, a line separator, a mark or override of the direction
 *
 * All other characters are not changed. Different texts have different escaped texts. The escaped text is at most four
 * times as long.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

struct buf;

enum { ESCAPE_GROWTH = 4 };

/* The length in bytes of the UTF-8 sequence (RFC 3629) at the start of `bytes`; 0: there is no valid one. */
size_t escape_utf8_bytes(const char *bytes, size_t len);

/* The code point of one such sequence, and whether it may be printed as it is. Those that may not are below U+10000. */
uint32_t escape_code_point(const char *character, size_t len);
bool escape_is_printable(const char *character, size_t len);

/*
 * Escapes as much from the front of *left as fits into `room` bytes of `to`, and moves *left behind it. Returns the
 * number of bytes written. Never splits a character or an escape; with a room of 12 bytes or more at least one
 * character is consumed.
 */
size_t escape_take(struct span *left, char *to, size_t room);

/*
 * Switches escaping off (or on again) in the whole process, for output with exactly perf's bytes. Called once by a
 * command with an option for it, before threads start.
 */
void escape_set_raw(bool raw);

/*
 * Sets the top bit of at least one of the eight bytes if any byte of the word is a backslash or not within ' ' to '~'.
 */
static inline uint64_t escape_word_marks(uint64_t word)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t backslash = word ^ ones * '\\';

	/* A borrow or a carry comes only from a byte that is marked itself. */
	return (word - ones * ' ') | (word + ones) | word | ((backslash - ones) & ~backslash);
}

/*
 * A fast first test, since most names need no escape and are printed often. false: there is nothing to escape. true:
 * there may be; escape_needed() tells.
 */
static inline bool escape_is_special(const char *bytes, size_t len)
{
	uint64_t word = UINT64_C(0x2020202020202020), marks = 0;
	uint32_t halves[2];

	if (len >= sizeof(word)) {
		for (size_t at = 0; at < len - sizeof(word); at += sizeof(word)) {
			memcpy(&word, bytes + at, sizeof(word));
			marks |= escape_word_marks(word);
		}
		memcpy(&word, bytes + len - sizeof(word), sizeof(word));
	} else if (len >= sizeof(halves[0])) {
		memcpy(&halves[0], bytes, sizeof(halves[0]));
		memcpy(&halves[1], bytes + len - sizeof(halves[1]), sizeof(halves[1]));
		word = (uint64_t)halves[0] << 32 | halves[1];
	} else {
		for (size_t i = 0; i < len; i++)
			word = word << 8 | (uint8_t)bytes[i];
	}
	return (marks | escape_word_marks(word)) & UINT64_C(0x8080808080808080);
}

/* Whether the text has anything to escape. Always false after escape_set_raw(true). */
bool escape_needed_slow(const char *bytes, size_t len);
static inline bool escape_needed(const char *bytes, size_t len)
{
	return escape_is_special(bytes, len) && escape_needed_slow(bytes, len);
}

void escape_put(struct buf *buf, const char *bytes, size_t len);
void escape_put_text(struct buf *buf, const char *text);

/* An escaped text for printf(3): "%s" of `text`; or, where escaped_bytes() made it, "%.*s" of `len` and `text`. */
struct escaped {
	const char *text; /* the text of the caller, when there was nothing to escape; else `owned` */
	int len;
	char *owned; /* heap; NULL: none */
};

#define AUTO_ESCAPED __attribute__((cleanup(escaped_fini))) struct escaped

struct escaped escaped_text(const char *text);
struct escaped escaped_bytes(const char *bytes, size_t len);
void escaped_fini(struct escaped *escaped);

/*
 * For printf("%.*s") of an escaped or raw text: the largest length up to `width` bytes at which no character is split.
 */
int escaped_cut(const char *text, int width);
