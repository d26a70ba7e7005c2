/* SPDX-License-Identifier: MIT */
/*
 * text: numbers as text, faster than printf(3), for output with millions of numbers; messages of limited length; and
 * how similar two words are. Pure functions. digits_put_*() write no NUL.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	DIGITS_ROOM = 20,      /* bytes of the longest number; each call may overwrite so many bytes from `to` on */
	HUNDREDTHS_ROOM = 320, /* likewise, of the longest one with two decimals */
};

/* How many digits the number has. */
static inline unsigned digits_of_hex(uint64_t number)
{
	return number ? (67 - (unsigned)__builtin_clzll(number)) / 4 : 1;
}

/*
 * The eight hexadecimal digits of a number as ASCII, the first digit in the lowest byte; computed together, without a
 * loop.
 */
static inline uint64_t digits_hex8(uint32_t number)
{
	uint64_t nibbles = __builtin_bswap32(number);

	nibbles = (nibbles | nibbles << 16) & 0x0000ffff0000ffffull;
	nibbles = (nibbles | nibbles << 8) & 0x00ff00ff00ff00ffull;
	nibbles = (nibbles & 0x000f000f000f000full) << 8 | (nibbles >> 4 & 0x000f000f000f000full);
	uint64_t letters = (nibbles + 0x0606060606060606ull) >> 4 & 0x0101010101010101ull;
	return nibbles + 0x3030303030303030ull + letters * ('a' - '0' - 10);
}

/*
 * Hexadecimal, lower case, without leading zeroes. Returns the end of the digits; up to DIGITS_ROOM bytes are
 * overwritten.
 */
static inline char *digits_put_hex(char *to, uint64_t number)
{
	unsigned nr = digits_of_hex(number);
	uint64_t first = number << (64 - 4 * nr) % 64; /* the first digit on top */
	uint64_t text = digits_hex8((uint32_t)(first >> 32));

	memcpy(to, &text, sizeof(text));
	if (nr > 8) {
		text = digits_hex8((uint32_t)first);
		memcpy(to + 8, &text, sizeof(text));
	}
	return to + nr;
}

static inline unsigned digits_of_decimal(uint64_t number)
{
	static const uint64_t powers[] = {
		0,
		10,
		100,
		1000,
		10000,
		100000,
		1000000,
		10000000,
		100000000,
		1000000000,
		10000000000,
		100000000000,
		1000000000000,
		10000000000000,
		100000000000000,
		1000000000000000,
		10000000000000000,
		100000000000000000,
		1000000000000000000,
		10000000000000000000ull,
	};
	unsigned about = (64 - (unsigned)__builtin_clzll(number | 1)) * 1233 >> 12; /* log10(2) = 1233 / 4096 */

	return about + (number >= powers[about]);
}

/* Exactly `nr` digits, the last ones of the number, with zeroes in front. */
static inline void digits_put_last(char *to, uint64_t number, unsigned nr)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";

	for (; nr > 1; number /= 100)
		memcpy(to + (nr -= 2), pairs + number % 100 * 2, 2);
	if (nr)
		*to = (char)('0' + number % 10);
}

/* Returns the end of the digits; writes at most DIGITS_ROOM bytes. */
static inline char *digits_put_decimal(char *to, uint64_t number)
{
	unsigned nr = digits_of_decimal(number);

	digits_put_last(to, number, nr);
	return to + nr;
}

/* As "%.2f" of printf(3). Returns the end; up to HUNDREDTHS_ROOM bytes are overwritten. */
char *digits_put_hundredths(char *to, double number);

/*
 * vsnprintf(3), but where the text has `room` bytes or more "..." stands for its middle: a message begins with a path
 * that may be long, and ends with the reason. room: at least 8.
 */
void text_format(char *to, size_t room, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* What ends a noun behind a number: "1 sample", "2 samples". */
static inline const char *text_s(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

/*
 * The edit distance: the number of letters to insert, delete, change or swap with their neighbour to turn `a` into `b`.
 * Only the first 63 letters count.
 */
unsigned edit_distance(const char *a, const char *b);

/* Whether `word` is a likely misspelling of `known`, or the beginning of it. */
bool edit_distance_is_close(const char *word, const char *known);
