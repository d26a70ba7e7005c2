/* SPDX-License-Identifier: MIT */
/* When a thread that drains leaves its CPU for another one, and that it does. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpuset.h"
#include "sysinfo/thread.h"

static const uint64_t ms = 1000000, begin_ns = 5000000000;

/* Looks when it is due. Returns after how many ms of the last look that is. */
static uint64_t look(struct slow_cpu *slow, unsigned percent, uint64_t nr_late, bool *ret)
{
	const uint64_t before_ns = slow->looked_ns, now_ns = slow->next_ns;

	assert_false(slow_cpu_is_due(slow, now_ns - 1));
	assert_true(slow_cpu_is_due(slow, now_ns));
	*ret = slow_cpu_look(slow, now_ns, slow->cpu_ns + (now_ns - before_ns) / 100 * percent,
			     slow->nr_late + nr_late);
	return (now_ns - before_ns) / ms;
}

static void who_is_late_on_a_whole_cpu_leaves_it(void **state)
{
	static const struct {
		unsigned percent;
		uint64_t nr_late;
		bool leaves;
	} cases[] = {{100, 1, true}, {90, 9, true}, {89, 9, false}, {100, 0, false}, {0, 0, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct slow_cpu slow = {0};
		bool leaves;
		assert_true(slow_cpu_is_due(&slow, begin_ns));
		/* What came before it began to look says nothing. */
		assert_false(slow_cpu_look(&slow, begin_ns, 2 * begin_ns, 7));
		look(&slow, cases[i].percent, cases[i].nr_late, &leaves);
		assert_int_equal(leaves, cases[i].leaves);
	}
}

static void who_is_late_everywhere_leaves_less_and_less_often(void **state)
{
	static const uint64_t after_ms[] = {20, 20, 20, 20, 20, 40, 80, 160, 320, 640, 1280, 2560, 3200, 3200};
	struct slow_cpu slow = {0};
	bool leaves;

	(void)state;
	assert_false(slow_cpu_look(&slow, begin_ns, 0, 0));
	for (size_t i = 0; i < sizeof(after_ms) / sizeof(after_ms[0]); i++) {
		assert_int_equal(look(&slow, 100, 1, &leaves), after_ms[i]);
		assert_true(leaves);
	}
	look(&slow, 50, 0, &leaves); /* it has time again */
	assert_false(leaves);
	assert_int_equal(look(&slow, 100, 1, &leaves), after_ms[0]);
}

/* It has nothing left for what comes sooner. */
static void who_needs_a_whole_cpu_for_long_leaves_it(void **state)
{
	struct slow_cpu slow = {0};
	bool leaves;

	(void)state;
	assert_false(slow_cpu_look(&slow, begin_ns, 0, 0));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 4; i++) {
			look(&slow, 90, 0, &leaves);
			assert_false(leaves);
		}
		look(&slow, round ? 89 : 90, 0, &leaves);
		assert_int_equal(leaves, !round);
		look(&slow, 50, 0, &leaves); /* what it is at the next one begins anew */
		assert_false(leaves);
	}
}

static void a_thread_goes_to_another_cpu(void **state)
{
	struct cpuset all = {0}, now = {0};
	unsigned nr_moved = 0;

	(void)state;
	assert_int_equal(cpuset_allowed(&all), 0);
	if (cpuset_count(&all) < 2)
		skip();
	/* Only on one: whatever else runs, it is there. */
	for (unsigned i = 0; i < 100; i++) {
		struct cpuset one = {0}, pair = {0};
		const int first = cpuset_next(&all, 0), second = cpuset_next(&all, first + 1);
		assert_int_equal(cpuset_add(&one, (unsigned)first), 0);
		assert_int_equal(cpuset_run_on(&one), 0);
		assert_int_equal(cpuset_add(&pair, (unsigned)first), 0);
		assert_int_equal(cpuset_add(&pair, (unsigned)second), 0);
		assert_false(cpuset_equal(&one, &pair));
		assert_int_equal(cpuset_leave_cpu(&one), -ENOENT);
		assert_int_equal(sched_getcpu(), first);
		assert_int_equal(cpuset_leave_cpu(&pair), 0);
		nr_moved += sched_getcpu() == second; /* the scheduler may have taken it back */
		assert_int_equal(cpuset_count(&pair), 2);
		cpuset_fini(&one);
		cpuset_fini(&pair);
	}
	assert_true(nr_moved >= 50);
	assert_int_equal(cpuset_allowed(&now), 0);
	assert_int_equal(cpuset_count(&now), 2); /* it may go back */
	assert_true(cpuset_equal(&now, &now));
	assert_int_equal(cpuset_run_on(&all), 0);
	cpuset_fini(&all);
	cpuset_fini(&now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_late_on_a_whole_cpu_leaves_it),
		cmocka_unit_test(who_is_late_everywhere_leaves_less_and_less_often),
		cmocka_unit_test(who_needs_a_whole_cpu_for_long_leaves_it),
		cmocka_unit_test(a_thread_goes_to_another_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
