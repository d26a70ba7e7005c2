/* SPDX-License-Identifier: MIT */
/* Numbers as text are what printf(3) makes of them: the edges of every length, and many at random. */
#include <inttypes.h>
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

static void test_random(void **state)
{
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		check(random >> i % 64);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
