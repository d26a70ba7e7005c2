/* SPDX-License-Identifier: MIT */
/* What waits comes out in the order of time, and of the same time in the order in which it went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record/order/time_queue.h"

enum { NR = 5000 };

static void test_order(void **state)
{
	static uint64_t values[NR];
	struct time_queue queue = {0};
	uint64_t random = 88172645463325252ull, last_time = 0, last_value = 0;
	size_t put = 0, taken = 0;

	(void)state;
	while (taken < NR) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* Times go on while entries are taken out, as those of records do; many are equal. */
		if (put < NR && (random & 3 || !time_queue_first(&queue))) {
			values[put] = put;
			struct time_entry entry = {.time_ns = last_time + (random >> 8) % 16, .item = &values[put]};
			assert_int_equal(time_queue_put(&queue, &entry), 0);
			put++;
			continue;
		}
		const struct time_entry *first = time_queue_first(&queue);
		assert_non_null(first);
		uint64_t value = *(const uint64_t *)first->item;
		assert_true(first->time_ns >= last_time);
		if (taken && first->time_ns == last_time)
			assert_true(value > last_value);
		last_time = first->time_ns;
		last_value = value;
		time_queue_drop_first(&queue);
		taken++;
	}
	assert_null(time_queue_first(&queue));
	time_queue_fini(&queue);
}

/* Each of them in some queue of each size, wherever it lies there; the others stay in order. */
static void test_remove(void **state)
{
	enum { MOST = 40 };
	static uint64_t values[MOST];

	(void)state;
	for (size_t nr = 1; nr <= MOST; nr++) {
		for (size_t removed = 0; removed < nr; removed++) {
			struct time_queue queue = {0};
			uint64_t last_ns = 0, nr_left = 0;
			for (size_t i = 0; i < nr; i++) {
				struct time_entry entry = {.time_ns = 1 + i * 17 % 23, .item = &values[i]};
				assert_int_equal(time_queue_put(&queue, &entry), 0);
			}
			time_queue_remove(&queue, &values[removed]);
			time_queue_remove(&queue, &values[removed]); /* is not there */
			for (const struct time_entry *first; (first = time_queue_first(&queue)); nr_left++) {
				assert_true(first->time_ns >= last_ns && first->item != &values[removed]);
				last_ns = first->time_ns;
				time_queue_drop_first(&queue);
			}
			assert_int_equal(nr_left, nr - 1);
			time_queue_fini(&queue);
		}
	}
}

/* One row, as of a ring, while it grows: its first ones are taken, some one is removed, and more follow. */
static void test_long_row(void **state)
{
	enum { MOST = 64 };
	static uint64_t values[2 * MOST];

	(void)state;
	for (size_t taken = 0; taken < MOST; taken++) {
		for (size_t removed = taken; removed < MOST; removed++) {
			struct time_queue queue = {0};
			size_t next = 0;
			for (; next < MOST; next++)
				assert_int_equal(time_queue_put(&queue, &(struct time_entry){.time_ns = next / 3,
											     .item = &values[next]}),
						 0);
			for (size_t i = 0; i < taken; i++) {
				assert_ptr_equal(time_queue_first(&queue)->item, &values[i]);
				time_queue_drop_first(&queue);
			}
			time_queue_remove(&queue, &values[removed]);
			for (; next < 2 * MOST; next++)
				assert_int_equal(time_queue_put(&queue, &(struct time_entry){.time_ns = next / 3,
											     .item = &values[next]}),
						 0);
			for (size_t i = taken; i < 2 * MOST; i++) {
				if (i == removed)
					continue;
				assert_ptr_equal(time_queue_first(&queue)->item, &values[i]);
				time_queue_drop_first(&queue);
			}
			assert_null(time_queue_first(&queue));
			time_queue_fini(&queue);
		}
	}
}

/* Up to a time that goes on, the same ones in the same order as one by one from another queue. */
static void test_runs(void **state)
{
	struct time_queue queue = {0}, twin = {0};
	uint64_t random = 88172645463325252ull, number = 0;
	static uint64_t values[4000];
	size_t longest = 0;

	(void)state;
	for (uint64_t until_ns = 0; until_ns < 4000; until_ns++) {
		const struct time_entry *taken;
		for (random ^= random << 13, random ^= random >> 7, random ^= random << 17; random & 7; random >>= 1) {
			const struct time_entry entry = {.time_ns = until_ns + (random >> 8) % 64,
							 .item = &values[number++ % 4000],
							 .look = random & 3};
			assert_int_equal(time_queue_put(&queue, &entry), 0);
			assert_int_equal(time_queue_put(&twin, &entry), 0);
		}
		for (size_t nr; (nr = time_queue_first_run(&queue, until_ns, &taken));) {
			nr = nr > 2 && random & 8 ? nr / 2 : nr;
			for (size_t i = 0; i < nr; i++) {
				const struct time_entry *first = time_queue_first(&twin);
				assert_non_null(first);
				assert_true(taken[i].time_ns == first->time_ns && taken[i].item == first->item &&
					    taken[i].look == first->look && taken[i].time_ns <= until_ns);
				time_queue_drop_first(&twin);
			}
			longest = nr > longest ? nr : longest;
			time_queue_drop_run(&queue, nr);
		}
		assert_true(!time_queue_first(&twin) || time_queue_first(&twin)->time_ns > until_ns);
	}
	assert_true(longest > 2);
	time_queue_fini(&queue);
	time_queue_fini(&twin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_remove),
					   cmocka_unit_test(test_long_row), cmocka_unit_test(test_runs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
