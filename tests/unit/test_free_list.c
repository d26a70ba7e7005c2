/* SPDX-License-Identifier: MIT */
/* Some threads take and put what is free: no two have the same, and none gets lost. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream/free_list.h"

enum { NUMBERS = 6, THREADS = 4, TURNS = 20000, AT_ONCE = 2 };

static struct free_list list;
static unsigned owners[NUMBERS]; /* plain: TSan would tell of two at once */

static void *take_and_put(void *failures)
{
	uint32_t taken[AT_ONCE];

	for (int turn = 0; turn < TURNS; turn++) {
		unsigned nr = 0;
		while (nr < AT_ONCE && free_list_take(&list, &taken[nr]))
			nr++;
		for (unsigned i = 0; i < nr; i++)
			*(unsigned *)failures += owners[taken[i]]++ != 0;
		while (nr) {
			owners[taken[--nr]]--;
			free_list_put(&list, taken[nr]);
		}
	}
	return NULL;
}

static void test_of_one_thread_at_a_time(void **state)
{
	pthread_t threads[THREADS];
	unsigned failures[THREADS] = {0};
	uint32_t number = 0;

	(void)state;
	assert_int_equal(free_list_init(&list, NUMBERS), 0);
	assert_true(free_list_is_empty(&list));
	assert_false(free_list_take(&list, &number));
	for (uint32_t i = 0; i < NUMBERS; i++)
		free_list_put(&list, i);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_put, &failures[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(failures[i], 0);
	}
	for (int i = 0; i < NUMBERS; i++) {
		assert_true(free_list_take(&list, &number));
		assert_int_equal(owners[number]++, 0);
	}
	assert_true(free_list_is_empty(&list));
	free_list_fini(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_one_thread_at_a_time)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
