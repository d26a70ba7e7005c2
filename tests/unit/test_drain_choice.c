/* SPDX-License-Identifier: MIT */
/* How many threads drain by default, and with --threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/record/record.h"
#include "record/setup/options.h"
#include "record/setup/target.h"

static struct recording_options choose(const struct record_options *options, enum drain_facts facts, bool per_thread,
				       const char *cpus)
{
	static struct target target;
	struct recording_options recording = {
		.target = &target,
		.on_pressure = options->on_pressure,
		.compression_level = options->compression_level,
	};

	target = (struct target){.per_thread = per_thread};
	assert_int_equal(cpuset_parse(&target.cpus, cpus), 0);
	drain_choose(options, facts, &recording);
	cpuset_fini(&target.cpus);
	return recording;
}

static void few_cpus_have_one_thread(void **state)
{
	static const char *const few[] = {"0", "0-1", "0-7", "5,9,13,64-68"};
	const struct record_options options = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++) {
		const struct recording_options chosen = choose(&options, 0, false, few[i]);
		assert_false(chosen.threads);
		assert_false(chosen.directory);
		assert_int_equal(chosen.cpus_per_thread, 0);
		assert_null(chosen.writer.ops);
	}
}

static void many_cpus_share_a_file(void **state)
{
	static const char *const many[] = {"0-8", "0-63", "1,3,5,7,9,11,13,15,17"};
	const struct record_options options = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		const struct recording_options chosen = choose(&options, 0, false, many[i]);
		assert_true(chosen.threads);
		assert_false(chosen.directory);
		assert_int_equal(chosen.cpus_per_thread, 8);
		assert_null(chosen.writer.ops);
	}
}

/* Who is asked for is not second-guessed. */
static void what_was_asked_for_is_done(void **state)
{
	const struct record_options one = {.threads.one = true}, cpu = {.threads.given = true},
				    numa = {.threads = {.given = true, .spec = "numa"}},
				    node = {.threads.given = true, .affinity = "node"},
				    file = {.threads.given = true, .single_file = true},
				    freeze = {.on_pressure = ON_PRESSURE_FREEZE};

	(void)state;
	struct recording_options chosen = choose(&one, 0, false, "0-63");
	assert_false(chosen.threads);
	assert_null(chosen.writer.ops);
	chosen = choose(&cpu, 0, false, "0-63");
	assert_true(chosen.threads && chosen.directory);
	assert_int_equal(chosen.cpus_per_thread, 0);
	assert_null(chosen.thread_spec);
	chosen = choose(&numa, 0, false, "0-63");
	assert_string_equal(chosen.thread_spec, "numa");
	assert_int_equal(chosen.cpus_per_thread, 0);
	assert_null(chosen.writer.ops);
	chosen = choose(&node, 0, false, "0-63");
	assert_string_equal(chosen.thread_spec, "numa");
	chosen = choose(&file, 0, false, "0-63");
	assert_true(chosen.threads && !chosen.directory);
	assert_int_equal(chosen.cpus_per_thread, 0);
	chosen = choose(&freeze, 0, false, "0-1");
	assert_true(chosen.threads && !chosen.directory);
	chosen = choose(&freeze, 0, false, "0-63");
	assert_int_equal(chosen.cpus_per_thread, 0);
}

static void one_thread_where_many_would_not_do(void **state)
{
	const struct record_options options = {0};

	(void)state;
	assert_false(choose(&options, DRAIN_INTO_PIPE, false, "0-63").threads); /* into a pipe */
	assert_false(choose(&options, 0, true, "0-63").threads);                /* --per-thread */
}

static void each_cpu_has_one_without_realtime(void **state)
{
	const struct record_options options = {0}, one = {.threads.one = true};

	(void)state;
	struct recording_options chosen = choose(&options, DRAIN_IN_FAIR_SHARE, false, "0-63");
	assert_true(chosen.threads && !chosen.directory);
	assert_int_equal(chosen.cpus_per_thread, 0);
	assert_null(chosen.thread_spec);
	assert_true(choose(&options, DRAIN_IN_FAIR_SHARE, false, "0-1").threads);
	assert_false(choose(&options, DRAIN_IN_FAIR_SHARE, false, "3").threads);
	assert_false(choose(&one, DRAIN_IN_FAIR_SHARE, false, "0-1").threads);
	assert_false(choose(&options, DRAIN_IN_FAIR_SHARE | DRAIN_INTO_PIPE, false, "0-1").threads);
	assert_false(choose(&options, DRAIN_IN_FAIR_SHARE, true, "0-1").threads);
}

static void the_writer_that_was_asked_for_writes(void **state)
{
	const struct record_options mapped = {.writer.ops = &writer_mmap}, packed = {.compression_level = 1},
				    held = {.rotation.history_ns = 1}, null = {.writer.ops = &writer_null};

	(void)state;
	struct recording_options chosen = choose(&mapped, 0, false, "0-63");
	assert_true(chosen.threads);
	assert_ptr_equal(chosen.writer.ops, &writer_mmap);
	chosen = choose(&packed, 0, false, "0-63");
	assert_true(chosen.threads);
	assert_null(chosen.writer.ops);
	chosen = choose(&held, 0, false, "0-63");
	assert_true(chosen.threads);
	assert_null(chosen.writer.ops);
	chosen = choose(&null, 0, false, "0-63");
	assert_string_equal(chosen.output, "/dev/null");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_cpus_have_one_thread),
		cmocka_unit_test(many_cpus_share_a_file),
		cmocka_unit_test(what_was_asked_for_is_done),
		cmocka_unit_test(one_thread_where_many_would_not_do),
		cmocka_unit_test(each_cpu_has_one_without_realtime),
		cmocka_unit_test(the_writer_that_was_asked_for_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
