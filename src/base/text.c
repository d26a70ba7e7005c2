/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 63 };

void text_format(char *to, size_t room, const char *format, va_list args)
{
	static const char gap[] = "...";
	char whole[2 * PATH_MAX] = "";
	int made = vsnprintf(whole, sizeof(whole), format, args);
	size_t len = strlen(whole), half = (room - sizeof(gap)) / 2;

	if (made < 0 || len < room) {
		memcpy(to, whole, len < room ? len + 1 : 1);
		return;
	}
	memcpy(to, whole, half);
	memcpy(to + half, gap, sizeof(gap) - 1);
	memcpy(to + half + sizeof(gap) - 1, whole + len - half, half + 1);
}

/*
 * Below the limit a product is wrong by less than 2e-7: whether it is rounded up is certain but near the middle, where
 * printf(3), which is exact, has to tell.
 */
char *digits_put_hundredths(char *to, double number)
{
	static const double limit = 1e9, near = 1e-6;
	const double product = number * 100;

	if (signbit(number) || !(product < limit))
		return to + snprintf(to, HUNDREDTHS_ROOM, "%.2f", number);
	uint64_t hundredths = (uint64_t)product;
	const double rest = product - (double)hundredths;
	if (fabs(rest - 0.5) < near)
		return to + snprintf(to, HUNDREDTHS_ROOM, "%.2f", number);
	hundredths += rest > 0.5;
	to = digits_put_decimal(to, hundredths / 100);
	*to++ = '.';
	digits_put_last(to, hundredths % 100, 2);
	return to + 2;
}

static unsigned min2(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Optimal string alignment: rows[i % 3][j] is the distance of the first i letters of a from the first j of b.
 */
unsigned edit_distance(const char *a, const char *b)
{
	size_t len_a = strnlen(a, WORD_MAX), len_b = strnlen(b, WORD_MAX);
	unsigned rows[3][WORD_MAX + 1];

	for (unsigned j = 0; j <= len_b; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= len_a; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3];

		row[0] = i;
		for (unsigned j = 1; j <= len_b; j++) {
			row[j] = min2(above[j], row[j - 1]) + 1;
			row[j] = min2(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min2(row[j], rows[(i - 2) % 3][j - 2] + 1);
		}
	}
	return rows[len_a % 3][len_b];
}

bool edit_distance_is_close(const char *word, const char *known)
{
	size_t len = strlen(word);

	if (len >= 2 && strncmp(word, known, len) == 0)
		return true;
	return edit_distance(word, known) <= (len <= 2 ? 0 : len <= 7 ? 1 : 2 + (len > 11));
}
