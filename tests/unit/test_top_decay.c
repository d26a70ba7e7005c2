/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/top_decay.h"

static bool decay(struct hist_amount *amount, struct decay_rest *rest, uint64_t least_parts)
{
	struct decay_pass pass = {
		.least_parts = least_parts, .period_carried = DECAY_PARTS / 2, .samples_carried = DECAY_PARTS / 2};

	return decay_amount(amount, rest, &pass);
}

/* Many cells with a sample each decay as one cell with as many samples: what is shown of both is the same. */
static void expect_decay(uint64_t period)
{
	enum { CELLS = 800, UPDATES = 12 };
	struct hist_amount cells[CELLS], one = {.period = period * CELLS, .nr_samples = CELLS};
	struct decay_rest rests[CELLS] = {0}, rest_of_one = {0};

	for (unsigned k = 0; k < CELLS; k++)
		cells[k] = (struct hist_amount){.period = period, .nr_samples = 1};
	for (unsigned i = 0; i < UPDATES; i++) {
		struct decay_pass pass = {.least_parts = DECAY_LEAST_PARTS,
					  .period_carried = DECAY_PARTS / 2,
					  .samples_carried = DECAY_PARTS / 2};
		uint64_t nr_samples = 0, sum = 0;
		assert_true(decay(&one, &rest_of_one, DECAY_LEAST_PARTS));
		for (unsigned k = 0; k < CELLS; k++) {
			assert_true(decay_amount(&cells[k], &rests[k], &pass));
			nr_samples += cells[k].nr_samples;
			sum += cells[k].period;
		}
		/* Each loses less than a part at an update. */
		const uint64_t less = CELLS * (i + 1) / DECAY_PARTS + 1;
		assert_in_range(nr_samples, one.nr_samples - less, one.nr_samples + 1);
		assert_in_range(sum, one.period - less, one.period + 1);
	}
	assert_in_range(one.nr_samples, 160, 162); /* (7/8)^12 is 0.2014 */
	assert_in_range(one.period, period * 160, period * 162);
}

static void test_many_cells_decay_as_one(void **state)
{
	(void)state;
	expect_decay(1000);
	expect_decay(1); /* of a tracepoint */
}

/* A period of 1, of a tracepoint, is not lost at once either. */
static void test_small_periods(void **state)
{
	(void)state;
	struct hist_amount amount = {.period = 3, .nr_samples = 3};
	struct decay_rest rest = {0};

	assert_true(decay(&amount, &rest, DECAY_LEAST_PARTS)); /* 2.625 */
	assert_int_equal(amount.period, 3);
	assert_int_equal(rest.period_more, -96);
	assert_int_equal(amount.nr_samples, 3);
	assert_int_equal(rest.samples_more, -96);
	amount.period += 5;
	amount.nr_samples += 4;
	assert_true(decay(&amount, &rest, DECAY_LEAST_PARTS)); /* 7.625, 6.625 */
	assert_int_equal(amount.period, 7);
	assert_int_equal(rest.period_more, 172 - DECAY_PARTS); /* 6.672 */
	assert_int_equal(amount.nr_samples, 6);
	assert_int_equal(rest.samples_more, 204 - DECAY_PARTS); /* 5.797 */
}

static void test_an_end(void **state)
{
	(void)state;
	struct hist_amount amount = {.period = UINT64_MAX, .nr_samples = 1};
	struct decay_rest rest = {0};
	uint64_t before = amount.period;
	unsigned nr = 1;

	for (; decay(&amount, &rest, DECAY_LEAST_PARTS); nr++) {
		assert_in_range(amount.period, 0, before - before / 8);
		before = amount.period;
	}
	assert_in_range(nr, 19, 21); /* (7/8)^21 is 1/16.5 */
	assert_int_equal(amount.nr_samples, 0);
	assert_int_equal(amount.period, 0);
	assert_int_equal(rest.period_more, 0);
	assert_int_equal(rest.samples_more, 0);

	amount = (struct hist_amount){.period = 100, .nr_samples = 1};
	assert_false(decay(&amount, &rest, DECAY_PARTS));
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
