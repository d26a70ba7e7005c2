/* SPDX-License-Identifier: MIT */
/* How large rings are at the start: a function of the plan, the options and the machine's memory alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "record/setup/plan.h"

enum { MOST_CPUS = 272 };

static const uint64_t MIB = 1 << 20, GIB = 1 << 30;

/* A side ring and a data ring for each CPU. */
static size_t large_bytes(size_t nr_cpus, struct ring_sizes sizes, uint64_t memory_bytes)
{
	struct plan_ring rings[2 * MOST_CPUS] = {0};
	const struct plan plan = {.rings = rings, .nr_rings = 2 * nr_cpus, .nr_drained = 2 * nr_cpus};

	for (size_t i = 0; i < plan.nr_rings; i++)
		rings[i].channel = i < nr_cpus ? CHANNEL_SIDE : CHANNEL_DATA;
	return ring_sizes_large_pages(&plan, sizes, memory_bytes) * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t default_bytes(void)
{
	return ring_sizes_default_pages() * (size_t)sysconf(_SC_PAGESIZE);
}

static void a_machine_with_memory_has_large_rings(void **state)
{
	(void)state;
	assert_int_equal(large_bytes(2, (struct ring_sizes){0}, 24 * GIB), 4 * MIB);
	assert_int_equal(large_bytes(8, (struct ring_sizes){0}, 24 * GIB), 4 * MIB);
}

static void they_take_a_small_part_of_the_memory(void **state)
{
	(void)state;
	/* A hundredth. */
	assert_int_equal(large_bytes(2, (struct ring_sizes){0}, 1 * GIB), 4 * MIB);
	assert_int_equal(large_bytes(2, (struct ring_sizes){0}, GIB / 4 * 3), default_bytes() < 2 * MIB ? 2 * MIB : 0);
	assert_int_equal(large_bytes(16, (struct ring_sizes){0}, 2 * GIB), default_bytes() < 1 * MIB ? 1 * MIB : 0);
	assert_int_equal(large_bytes(2, (struct ring_sizes){0}, GIB / 16), 0);
}

static void many_cpus_have_no_more_together(void **state)
{
	(void)state;
	assert_int_equal(large_bytes(20, (struct ring_sizes){0}, 1024 * GIB), 4 * MIB);
	assert_int_equal(large_bytes(64, (struct ring_sizes){0}, 1024 * GIB), default_bytes() < 1 * MIB ? 1 * MIB : 0);
	assert_int_equal(large_bytes(272, (struct ring_sizes){0}, 1024 * GIB), 0);
}

static void they_take_no_more_than_rings_may_have(void **state)
{
	(void)state;
	assert_int_equal(large_bytes(2, (struct ring_sizes){.most_bytes = 10 * MIB}, 24 * GIB), 4 * MIB);
	assert_int_equal(large_bytes(2, (struct ring_sizes){.most_bytes = 8 * MIB}, 24 * GIB),
			 default_bytes() < 2 * MIB ? 2 * MIB : 0);
	assert_int_equal(large_bytes(2, (struct ring_sizes){.most_bytes = default_bytes()}, 24 * GIB), 0);
}

static void their_reader_is_woken_early(void **state)
{
	(void)state;
	const struct ring_sizes sizes = {.wakeup_bytes = MIB};

	assert_int_equal(ring_sizes_wakeup(1 * MIB, sizes), MIB / 4);
	assert_int_equal(ring_sizes_wakeup(4 * MIB, sizes), MIB);
	assert_int_equal(ring_sizes_wakeup(8 * MIB, sizes), MIB);

	/* Where it is known how much comes, and half of the ring is enough for that: */
	const struct ring_sizes known = {.wakeup_bytes = MIB, .margin_bytes = 2 * MIB};
	assert_int_equal(ring_sizes_wakeup(2 * MIB, known), MIB / 2);
	assert_int_equal(ring_sizes_wakeup(4 * MIB, known), 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_with_memory_has_large_rings),
		cmocka_unit_test(they_take_a_small_part_of_the_memory),
		cmocka_unit_test(many_cpus_have_no_more_together),
		cmocka_unit_test(they_take_no_more_than_rings_may_have),
		cmocka_unit_test(their_reader_is_woken_early),
	};
	return cmocka_run_group_tests_name("ring_sizes", tests, NULL, NULL);
}
