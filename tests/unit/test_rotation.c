/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/run/rotation.h"

/* It is made when a file is finished: until then no moment comes at which there would be anything to do. */
static void a_switch_that_must_wait_waits_for_no_clock(void **state)
{
	struct output_file output = {0};
	struct rotation rotation = {.spec = {.on = true, .period_ns = 1},
				    .output = &output,
				    .next_ns = 1,
				    .finisher = {.lock = PTHREAD_MUTEX_INITIALIZER, .nr_jobs = 1000}};

	(void)state;
	assert_int_equal(rotation_trigger(&rotation, NULL), 0);
	assert_true(rotation.wanted);
	assert_true(rotation.next_ns == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_that_must_wait_waits_for_no_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
