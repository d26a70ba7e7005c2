/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/top_decay.h"

/* Many cells with a sample each decay as one cell with as many samples. */
static void test_many_cells_decay_as_one(void **state)
{
	(void)state;
	enum { PERIOD = 1000, CELLS = 800, UPDATES = 12 };
	struct hist_amount each = {.period = PERIOD, .nr_samples = 1};
	struct hist_amount one = {.period = (uint64_t)PERIOD * CELLS, .nr_samples = CELLS};
	struct decay_rest rest_of_each = {0}, rest_of_one = {0};

	for (unsigned i = 0; i < UPDATES; i++) {
		decay_amount(&each, &rest_of_each, DECAY_LEAST_PARTS);
		decay_amount(&one, &rest_of_one, DECAY_LEAST_PARTS);
		assert_int_equal(each.nr_samples, 1);
		assert_in_range(one.period, each.period * CELLS, (each.period + 1) * CELLS);
		assert_in_range(one.nr_samples, CELLS * 7 / 8 / 8, CELLS * 7 / 8);
	}
	assert_in_range(each.period, 190, 202); /* (7/8)^12 is 0.2014 */
	assert_in_range(one.nr_samples, 160, 162);
}

/* A period of 1, of a tracepoint, is not lost at once either. */
static void test_small_periods(void **state)
{
	(void)state;
	struct hist_amount amount = {.period = 3, .nr_samples = 3};
	struct decay_rest rest = {0};

	decay_amount(&amount, &rest, DECAY_LEAST_PARTS);
	assert_int_equal(amount.period, 2);
	assert_int_equal(rest.period_more, 160); /* 2.625 */
	assert_int_equal(amount.nr_samples, 3);
	assert_int_equal(rest.samples_less, 96);
	amount.period += 5;
	amount.nr_samples += 5;
	decay_amount(&amount, &rest, DECAY_LEAST_PARTS); /* 7.625 */
	assert_int_equal(amount.period, 6);
	assert_int_equal(rest.period_more, 172); /* 6.672 */
	assert_int_equal(amount.nr_samples, 7);
	assert_int_equal(rest.samples_less, 256 - 172);
}

static void test_an_end(void **state)
{
	(void)state;
	struct hist_amount amount = {.period = UINT64_MAX, .nr_samples = 1};
	struct decay_rest rest = {0};
	uint64_t before = amount.period;
	unsigned nr = 0;

	for (; amount.nr_samples; nr++) {
		decay_amount(&amount, &rest, DECAY_LEAST_PARTS);
		assert_in_range(amount.period, 0, before - before / 8);
		before = amount.period;
	}
	assert_in_range(nr, 19, 21); /* (7/8)^21 is 1/16.5 */
	assert_int_equal(amount.period, 0);
	assert_int_equal(rest.period_more, 0);
	assert_int_equal(rest.samples_less, 0);

	amount = (struct hist_amount){.period = 100, .nr_samples = 1};
	decay_amount(&amount, &rest, DECAY_PARTS);
	assert_int_equal(amount.nr_samples, 0);
	assert_int_equal(amount.period, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_cells_decay_as_one),
		cmocka_unit_test(test_small_periods),
		cmocka_unit_test(test_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
