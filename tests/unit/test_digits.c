/* SPDX-License-Identifier: MIT */
/* Numbers as text are what printf(3) makes of them: the edges of every length, and many at random. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

static void check(uint64_t number)
{
	char expected[32], got[DIGITS_ROOM + 1];

	snprintf(expected, sizeof(expected), "%" PRIu64, number);
	*digits_put_decimal(got, number) = '\0';
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "%" PRIx64, number);
	*digits_put_hex(got, number) = '\0';
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "%09" PRIu64, number % 1000000000);
	digits_put_last(got, number, 9);
	assert_memory_equal(got, expected, 9);
}

static void test_edges(void **state)
{
	(void)state;
	check(0);
	for (unsigned base = 10; base <= 16; base += 6)
		for (uint64_t power = 1;; power *= base) {
			for (unsigned i = 0; i < 3; i++)
				check(power - 1 + i);
			if (power > UINT64_MAX / base)
				break;
		}
	check(UINT64_MAX);
}

static uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static void test_random(void **state)
{
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		check(next_random(&random) >> i % 64);
}

static void check_hundredths(double number)
{
	char expected[HUNDREDTHS_ROOM], got[HUNDREDTHS_ROOM + 1];

	snprintf(expected, sizeof(expected), "%.2f", number);
	*digits_put_hundredths(got, number) = '\0';
	assert_string_equal(got, expected);
}

static void test_hundredths_edges(void **state)
{
	static const double edges[] = {0,      -0.0,   0.005,  0.015,  0.025,         0.125, 0.375,   1.005,
				       99.995, 1e7,    1e9,    1e20,   9999999.995,   -1,    -0.001,  0x1p-1074,
				       100,    33.335, 1. / 3, 2. / 3, 1.7976931e308, NAN,   INFINITY};

	(void)state;
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		check_hundredths(edges[i]);
		check_hundredths(nextafter(edges[i], 0));
		check_hundredths(nextafter(edges[i], INFINITY));
	}
}

/* Shares, and what is as near the middle between two hundredths as a number can be, or exactly there. */
static void test_hundredths_random(void **state)
{
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		const double middle = ((double)(next_random(&random) % 1000000) + 0.5) / 100;
		check_hundredths(100.0 * (double)(random % 100000) / (double)(random >> 40 | 1));
		check_hundredths(middle);
		check_hundredths(nextafter(middle, 0));
		check_hundredths(nextafter(middle, INFINITY));
		check_hundredths((double)(random % 100000) / 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_hundredths_edges),
		cmocka_unit_test(test_hundredths_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
