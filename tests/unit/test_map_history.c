/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <linux/perf_event.h>

#include "tasks/map_history.h"
#include "tasks/task_event.h"

enum { PID = 7, NOT_KNOWN = -1 };

static void put_exec(struct map_history *history, uint64_t time_ns)
{
	const struct task_event comm = {
		.type = PERF_RECORD_COMM, .misc = PERF_RECORD_MISC_COMM_EXEC, .pid = PID, .tid = PID};

	assert_int_equal(map_history_add(history, &comm, time_ns), 0);
}

/* Memory without a file. */
static void put_code(struct map_history *history, uint64_t time_ns)
{
	static const char name[] = "//anon";
	const struct task_event map = {.type = PERF_RECORD_MMAP2,
				       .misc = PERF_RECORD_MISC_USER,
				       .pid = PID,
				       .tid = PID,
				       .start = 0x1000,
				       .len = 0x1000,
				       .name = {name, sizeof(name) - 1}};

	assert_int_equal(map_history_add(history, &map, time_ns), 0);
}

/* When the program began that wrote a map between the times; NOT_KNOWN: that is not known. */
static int64_t writer(struct map_history *history, uint64_t first_ns, uint64_t last_ns)
{
	uint64_t since_ns;

	return map_history_find_writer(history, PID, first_ns, last_ns, &since_ns) ? (int64_t)since_ns : NOT_KNOWN;
}

static void a_map_is_of_the_only_program_with_code(void **state)
{
	struct map_history history = {0};

	(void)state;
	assert_int_equal(writer(&history, 1, 0), 0);
	put_exec(&history, 100);
	put_exec(&history, 200);
	put_code(&history, 250);
	put_exec(&history, 300);
	for (uint64_t at_ns = 0; at_ns < 400; at_ns += 50)
		assert_int_equal(writer(&history, at_ns, at_ns + 10), 200);
	assert_int_equal(writer(&history, 1, 0), 200);
	map_history_fini(&history);
}

static void a_map_of_several_programs_is_of_the_one_that_ran_then(void **state)
{
	struct map_history history = {0};

	(void)state;
	put_code(&history, 50);
	put_exec(&history, 100); /* a launcher: what it writes is for the next program */
	put_exec(&history, 200);
	put_code(&history, 250);
	put_exec(&history, 300); /* writes nothing that names its code */
	put_exec(&history, 400);
	put_code(&history, 450);
	assert_int_equal(writer(&history, 0, 10), 0);
	assert_int_equal(writer(&history, 80, 99), 0);
	assert_int_equal(writer(&history, 90, 110), NOT_KNOWN);
	assert_int_equal(writer(&history, 110, 120), 200);
	assert_int_equal(writer(&history, 190, 260), 200);
	assert_int_equal(writer(&history, 290, 310), NOT_KNOWN);
	assert_int_equal(writer(&history, 310, 320), 400);
	assert_int_equal(writer(&history, 1000, 2000), 400);
	assert_int_equal(writer(&history, 0, 2000), NOT_KNOWN);
	assert_int_equal(writer(&history, 1, 0), NOT_KNOWN);
	map_history_fini(&history);
}

static void put_child(struct map_history *history, uint32_t pid, uint64_t time_ns)
{
	const struct task_event fork = {.type = PERF_RECORD_FORK, .pid = pid, .tid = pid, .ppid = PID, .ptid = PID};

	assert_int_equal(map_history_add(history, &fork, time_ns), 0);
}

static bool code_ran(const struct map_history *history, int32_t pid)
{
	for (size_t i = 0; i < history->nr_processes; i++)
		if (history->processes[i].pid == pid)
			return history->processes[i].code_ran;
	return false;
}

static bool inherited_code_ran(const struct map_history *history, int32_t pid)
{
	for (size_t i = 0; i < history->nr_processes; i++)
		if (history->processes[i].pid == pid)
			return history->processes[i].inherited_code_ran;
	return false;
}

static void code_that_a_child_runs_is_of_its_parent(void **state)
{
	enum { CHILD = 8, GRANDCHILD = 9 };
	const struct history_range elsewhere = {0x3000, 0x3000, 300, 310}, range = {0x1000, 0x1100, 300, 310};
	struct map_history history = {0};

	(void)state;
	put_code(&history, 50);
	put_child(&history, CHILD, 100);
	map_history_mark(&history, CHILD, &elsewhere);
	assert_false(code_ran(&history, PID) || code_ran(&history, CHILD));
	map_history_mark(&history, CHILD, &range);
	assert_true(code_ran(&history, PID));
	assert_false(code_ran(&history, CHILD));
	assert_int_equal(inherited_code_ran(&history, CHILD), true);
	uint64_t program_ns = 0;
	assert_true(map_history_find_writer(&history, CHILD, 300, 310, &program_ns));
	assert_int_equal(program_ns, 100);
	map_history_fini(&history);

	put_child(&history, CHILD, 100);
	put_code(&history, 150); /* behind its fork: the child does not have it */
	put_child(&history, GRANDCHILD, 200);
	map_history_mark(&history, CHILD, &range);
	assert_false(code_ran(&history, PID));
	map_history_mark(&history, GRANDCHILD, &range);
	assert_true(code_ran(&history, PID));
	map_history_fini(&history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_map_is_of_the_only_program_with_code),
		cmocka_unit_test(a_map_of_several_programs_is_of_the_one_that_ran_then),
		cmocka_unit_test(code_that_a_child_runs_is_of_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
