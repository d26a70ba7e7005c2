/* SPDX-License-Identifier: MIT */
/* Lanes merged by time: ties, inversions inside and outside the window, lanes that end at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "read/order.h"

/* Times of one input, and how many of them were taken. */
struct input {
	const uint64_t *times;
	size_t nr, at;
};

/* The next entry of all; its offset is its number in its input. */
static bool next(struct merge *merge, struct input *inputs, struct order_entry *ret, size_t *ret_input)
{
	size_t index;

	while (merge_needs_entry(merge, &index)) {
		struct input *input = &inputs[index];
		struct order_entry entry = {.offset = input->at};

		assert_false(merge_pop(merge, ret, ret_input));
		if (input->at == input->nr) {
			merge_end(merge, index);
			continue;
		}
		entry.time_ns = input->times[input->at++];
		assert_int_equal(merge_put(merge, index, &entry), 0);
	}
	return merge_pop(merge, ret, ret_input);
}

static void test_ties_and_small_inversions(void **state)
{
	static const uint64_t a[] = {10, 30, 20, 30, 50}, b[] = {10, 25, 30, 60};
	static const struct {
		uint64_t time_ns, offset;
		size_t input;
	} expected[] = {{10, 0, 0}, {10, 0, 1}, {20, 2, 0}, {25, 1, 1}, {30, 1, 0},
			{30, 3, 0}, {30, 2, 1}, {50, 4, 0}, {60, 3, 1}};
	struct input inputs[] = {{a, 5, 0}, {b, 4, 0}, {NULL, 0, 0}};
	struct merge merge;
	struct order_entry entry;
	size_t input;

	(void)state;
	assert_int_equal(merge_init(&merge, 3), 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_true(next(&merge, inputs, &entry, &input));
		assert_int_equal(entry.time_ns, expected[i].time_ns);
		assert_int_equal(entry.offset, expected[i].offset);
		assert_int_equal(input, expected[i].input);
	}
	assert_false(next(&merge, inputs, &entry, &input));
	assert_int_equal(merge.nr_late, 0);
	merge_fini(&merge);
}

static void test_nothing(void **state)
{
	struct input inputs[2] = {{0}};
	struct merge merge;
	struct order_entry entry;
	size_t input;

	(void)state;
	assert_int_equal(merge_init(&merge, 2), 0);
	assert_false(next(&merge, inputs, &entry, &input));
	assert_false(next(&merge, inputs, &entry, &input));
	merge_fini(&merge);
}

/* Many lanes, each with inversions that the window sorts: all come, in order. */
static void test_many_inputs(void **state)
{
	enum { NR_INPUTS = 37, NR = 3 * MERGE_WINDOW };
	static uint64_t times[NR_INPUTS][NR];
	struct input inputs[NR_INPUTS];
	struct merge merge;
	struct order_entry entry;
	uint64_t last = 0, nr = 0, seed = 1;
	size_t input;

	(void)state;
	for (size_t i = 0; i < NR_INPUTS; i++) {
		for (size_t k = 0; k < NR; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			times[i][k] = 1000 + k * 16 + (seed >> 60) * 40;
		}
		inputs[i] = (struct input){times[i], i == 5 ? 1 : NR, 0};
	}
	assert_int_equal(merge_init(&merge, NR_INPUTS), 0);
	for (; next(&merge, inputs, &entry, &input); nr++) {
		assert_true(entry.time_ns >= last);
		last = entry.time_ns;
	}
	assert_int_equal(nr, (NR_INPUTS - 1) * NR + 1);
	assert_int_equal(merge.nr_late, 0);
	merge_fini(&merge);
}

/* What comes later than the window reaches is delivered and counted. */
static void test_late(void **state)
{
	enum { NR = MERGE_WINDOW + 2 };
	static uint64_t times[NR];
	struct input inputs[] = {{times, NR, 0}};
	struct merge merge;
	struct order_entry entry;
	size_t input, nr = 0;

	(void)state;
	for (size_t i = 0; i < NR; i++)
		times[i] = 100 + i;
	times[NR - 1] = 50; /* when it is read, 101 may have gone already */
	assert_int_equal(merge_init(&merge, 1), 0);
	while (next(&merge, inputs, &entry, &input))
		nr++;
	assert_int_equal(nr, NR);
	assert_int_equal(merge.nr_late, 1);
	merge_fini(&merge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ties_and_small_inversions),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_many_inputs),
		cmocka_unit_test(test_late),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
