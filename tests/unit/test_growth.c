/* SPDX-License-Identifier: MIT */
/* How large the next ring is: a function of sizes alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/ring_growth.h"

enum { KIB = 1024, MIB = 1024 * KIB };

static const struct growth_bounds bounds = {.ring_bytes = 8 * MIB, .all_bytes = 20 * MIB};

static void four_times_as_large(void **state)
{
	(void)state;
	assert_int_equal(growth_size(&bounds, 4 * KIB, 8 * KIB), 16 * KIB);
	assert_int_equal(growth_size(&bounds, 2 * MIB, 2 * MIB), 8 * MIB);
}

static void no_larger_than_one_may_be(void **state)
{
	(void)state;
	assert_int_equal(growth_size(&bounds, 4 * MIB, 4 * MIB), 8 * MIB);
	assert_int_equal(growth_size(&bounds, 8 * MIB, 8 * MIB), 0);
}

/* Both are there until the old one is drained. */
static void no_more_than_all_may_have(void **state)
{
	(void)state;
	assert_int_equal(growth_size(&bounds, 2 * MIB, 12 * MIB), 8 * MIB);
	assert_int_equal(growth_size(&bounds, 2 * MIB, 12 * MIB + 4 * KIB), 4 * MIB);
	assert_int_equal(growth_size(&bounds, 2 * MIB, 16 * MIB), 4 * MIB);
	assert_int_equal(growth_size(&bounds, 2 * MIB, 17 * MIB), 0);
	assert_int_equal(growth_size(&bounds, 2 * MIB, 30 * MIB), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_times_as_large),
		cmocka_unit_test(no_larger_than_one_may_be),
		cmocka_unit_test(no_more_than_all_may_have),
	};
	return cmocka_run_group_tests_name("growth", tests, NULL, NULL);
}
