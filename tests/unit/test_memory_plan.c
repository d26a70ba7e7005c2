/* SPDX-License-Identifier: MIT */
/* How much memory a recording uses: what its options say, within what the machine has. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/diag.h"
#include "compress/extent.h"
#include "record/setup/memory_plan.h"
#include "record/setup/options.h"

enum { MIB = 1 << 20, STACK = 8192, HZ = 1000 };

static struct event clock_event(bool stack, bool unwinds)
{
	return (struct event){
		.attr = {.type = PERF_TYPE_SOFTWARE,
			 .config = PERF_COUNT_SW_CPU_CLOCK,
			 .freq = 1,
			 .sample_freq = HZ,
			 .sample_stack_user = stack ? STACK : 0},
		.unwinds = unwinds,
	};
}

static struct memory_plan made(const struct recording_options *options)
{
	struct memory_plan plan = {0};
	struct diag diag;

	assert_int_equal(memory_plan_make(options, &plan, &diag), 0);
	return plan;
}

static void named_sizes_are_kept(void **state)
{
	struct event_list none = {0};
	const struct recording_options options = {
		.events = &none, .buffer_bytes = 3 * MIB, .max_memory = 10 * MIB, .ring.pages = 1};
	struct memory_plan plan = made(&options);

	(void)state;
	assert_int_equal(plan.pool_bytes, 3 * MIB);
	assert_int_equal(plan.most_ring_bytes, 7 * MIB);
}

static void a_limit_is_divided(void **state)
{
	struct event_list none = {0};
	const struct recording_options options = {.events = &none, .max_memory = 2 * MIB};
	struct memory_plan plan = made(&options);

	(void)state;
	assert_in_range(plan.pool_bytes, 1, MIB);
	assert_int_equal(plan.pool_bytes + plan.most_ring_bytes, 2 * MIB);
}

static void a_limit_that_leaves_no_rings_is_refused(void **state)
{
	struct event_list none = {0};
	const struct recording_options options = {.events = &none, .buffer_bytes = 4 * MIB, .max_memory = 4 * MIB};
	struct memory_plan plan = {.pool_bytes = 7};
	struct diag diag;

	(void)state;
	assert_int_equal(memory_plan_make(&options, &plan, &diag), -ENOMEM);
	assert_non_null(strstr(diag.text, "--buffer-memory=4096K"));
	assert_int_equal(plan.pool_bytes, 7);
}

/* Of copies of stacks that are stored as they are: for them there is memory beside the pool. */
static void stacks_of_tasks_that_wait_are_bounded(void **state)
{
	struct event event = clock_event(true, false), unwound = clock_event(true, true);
	struct event_list stacks = {.events = &event, .nr = 1}, chains = {.events = &unwound, .nr = 1};
	struct recording_options options = {.events = &stacks, .buffer_bytes = 4 * MIB, .max_memory = 16 * MIB};
	struct memory_plan plan = {0};
	struct diag diag;

	(void)state;
	assert_int_equal(made(&options).wait_bytes, 0);
	options.sampling.off_cpu.on = true;
	assert_int_equal(made(&options).wait_bytes, MIB);
	assert_int_equal(made(&options).most_ring_bytes, 11 * MIB);
	options.max_memory = 5 * MIB;
	assert_int_equal(memory_plan_make(&options, &plan, &diag), -ENOMEM);
	options.events = &chains;
	assert_int_equal(made(&options).wait_bytes, 0);
}

static void history_has_the_default_of_the_pool(void **state)
{
	struct event_list none = {0};
	const struct recording_options options = {.events = &none, .rotation.history_ns = 1};

	(void)state;
	assert_int_equal(made(&options).pool_bytes, 0);
}

/*
 * Where the tasks are stopped for want of memory, and where several threads copy stacks, no thread waits for pages;
 * where they unwind them, little of the memory is used.
 */
static void all_memory_is_ready_where_waiting_would_lose(void **state)
{
	struct event event = clock_event(true, false), unwound = clock_event(true, true);
	struct event_list none = {0}, stacks = {.events = &event, .nr = 1}, chains = {.events = &unwound, .nr = 1};
	const struct recording_options freezes = {.events = &none, .on_pressure = ON_PRESSURE_FREEZE};
	const struct recording_options shared = {.events = &stacks, .threads = true, .cpus_per_thread = 8};
	const struct recording_options alone = {.events = &stacks};
	const struct recording_options unwinds = {.events = &chains, .threads = true, .cpus_per_thread = 8};

	(void)state;
	assert_true(made(&unwinds).ready_bytes >= 64 * MIB && made(&unwinds).ready_bytes != SIZE_MAX);
	assert_true(made(&freezes).ready_bytes == SIZE_MAX);
	assert_false(made(&freezes).pool_spares); /* whose pages are not ready */
	assert_true(made(&shared).ready_bytes == SIZE_MAX);
	assert_false(made(&shared).pool_spares); /* likewise */
	assert_int_equal(made(&alone).ready_bytes, 0);
}

/* 100 ms of samples with stacks and other fields; a dummy has none. */
static void a_ring_has_room_for_stacks_that_are_unwound(void **state)
{
	struct event events[] = {clock_event(true, true), {.attr = {.type = PERF_TYPE_SOFTWARE}}};
	struct event_list list = {.events = events, .nr = 2};
	struct recording_options options = {.events = &list};

	(void)state;
	events[1].attr.config = PERF_COUNT_SW_DUMMY;
	assert_int_equal(made(&options).ring_margin_bytes, HZ / 10 * (STACK + 1024));
	options.threads = true;
	assert_int_equal(made(&options).ring_margin_bytes, 0);
	options.threads = false;
	events[0].unwinds = false;
	assert_int_equal(made(&options).ring_margin_bytes, 0);
	events[0] = clock_event(true, true);
	events[0].attr.freq = 0; /* of a clock: the period is in ns */
	events[0].attr.sample_period = 1000000;
	assert_int_equal(made(&options).ring_margin_bytes, HZ / 10 * (STACK + 1024));
	events[0].attr.type = PERF_TYPE_TRACEPOINT; /* comes at any time */
	assert_int_equal(made(&options).ring_margin_bytes, 0);
}

static void extents_are_as_small_as_their_use_demands(void **state)
{
	struct event event = clock_event(true, true);
	struct event_list none = {0}, unwound = {.events = &event, .nr = 1};
	const struct recording_options plain = {.events = &none};
	const struct recording_options marked = {.events = &none, .rotation.bytes = MIB, .max_bytes = 2 * MIB};
	const struct recording_options sized = {.events = &none, .rotation.bytes = 8 * MIB, .max_bytes = 4 * MIB};
	const struct recording_options packed = {.events = &none, .compression_level = 1, .max_bytes = MIB};
	const struct recording_options chains = {.events = &unwound, .compression_level = 1};
	const struct recording_options kept = {
		.events = &none, .rotation = {.history_ns = 1, .history_bytes = 4 * MIB}, .compression_level = 1};

	(void)state;
	assert_int_equal(memory_plan_extent_bytes(&plain, false), 0);
	assert_int_equal(memory_plan_extent_bytes(&marked, false), MIB / 8);
	assert_int_equal(memory_plan_extent_bytes(&sized, false), 4 * MIB / 8);
	assert_int_equal(memory_plan_extent_bytes(&packed, false), 0);
	assert_int_equal(memory_plan_extent_bytes(&packed, true), EXTENT_BYTES_SMALL);
	assert_int_equal(memory_plan_extent_bytes(&chains, false), EXTENT_BYTES_SMALL);
	assert_int_equal(memory_plan_extent_bytes(&kept, false), 4 * MIB / 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named_sizes_are_kept),
		cmocka_unit_test(a_limit_is_divided),
		cmocka_unit_test(a_limit_that_leaves_no_rings_is_refused),
		cmocka_unit_test(stacks_of_tasks_that_wait_are_bounded),
		cmocka_unit_test(history_has_the_default_of_the_pool),
		cmocka_unit_test(all_memory_is_ready_where_waiting_would_lose),
		cmocka_unit_test(a_ring_has_room_for_stacks_that_are_unwound),
		cmocka_unit_test(extents_are_as_small_as_their_use_demands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
