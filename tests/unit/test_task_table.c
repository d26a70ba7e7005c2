/* SPDX-License-Identifier: MIT */
/* The table of tasks: what it tells after forks, execs, maps and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/record.h"
#include "tasks/maps.h"
#include "tasks/task_table.h"

enum { TRAILER = 16 };

/* The linker puts it in the place of libc's (--wrap). */
void *__real_calloc(size_t nr, size_t bytes);
void *__wrap_calloc(size_t nr, size_t bytes);

static size_t allocated_bytes;

void *__wrap_calloc(size_t nr, size_t bytes)
{
	allocated_bytes += nr * bytes;
	return __real_calloc(nr, bytes);
}

/* Likewise. */
void __real_maps_visit(const struct maps *maps, void (*visit)(const struct map *map, void *ctx), void *ctx);
void __wrap_maps_visit(const struct maps *maps, void (*visit)(const struct map *map, void *ctx), void *ctx);

static size_t nr_visits;

void __wrap_maps_visit(const struct maps *maps, void (*visit)(const struct map *map, void *ctx), void *ctx)
{
	nr_visits++;
	__real_maps_visit(maps, visit, ctx);
}

static void take(struct task_table *table, struct buf *record)
{
	/* What the trailer holds must not come back. */
	memset(record->data + record->len - TRAILER, 0xff, TRAILER);
	assert_int_equal(task_table_take(table, (const struct perf_event_header *)(const void *)record->data), 0);
	buf_fini(record);
}

static void comm(struct task_table *table, uint32_t pid, uint32_t tid, const char *name, uint16_t misc)
{
	const struct record_comm fixed = {.header = {.type = PERF_RECORD_COMM, .misc = misc}, .pid = pid, .tid = tid};
	struct buf record = {0};

	record_put(&record, &fixed, sizeof(fixed), span_of_text(name), TRAILER);
	take(table, &record);
}

static void fork_or_exit(struct task_table *table, uint32_t type, uint32_t pid, uint32_t tid, uint32_t ppid)
{
	const struct record_fork fixed = {
		.header = {.type = type}, .pid = pid, .ppid = ppid, .tid = tid, .ptid = ppid, .time = 7};
	struct buf record = {0};

	record_put(&record, &fixed, sizeof(fixed), (struct span){0}, TRAILER);
	take(table, &record);
}

static void map(struct task_table *table, uint32_t pid, uint64_t addr, uint64_t len, const char *name)
{
	const struct record_mmap2 fixed = {
		.header = {.type = PERF_RECORD_MMAP2}, .pid = pid, .tid = pid, .addr = addr, .len = len};
	struct buf record = {0};

	record_put(&record, &fixed, sizeof(fixed), span_of_text(name), TRAILER);
	take(table, &record);
}

/* "fork PID/TID<PARENT", "comm PID/TID NAME", "map PID ADDR+LEN NAME", in the order of the table. */
static const char *taken(const struct task_table *table)
{
	static char text[1024];
	static const uint8_t zero[TRAILER];
	struct buf out = {0};
	size_t len = 0;

	text[0] = '\0';
	task_table_put(table, &out);
	for (size_t at = 0; at < out.len;) {
		const struct perf_event_header *header = (const void *)(out.data + at);
		const struct record_fork *fork = (const void *)header;
		const struct record_comm *comm = (const void *)header;
		const struct record_mmap2 *map = (const void *)header;
		char *end = text + len;
		size_t room = sizeof(text) - len;
		if (header->type == PERF_RECORD_FORK)
			snprintf(end, room, "fork %u/%u<%u; ", fork->pid, fork->tid, fork->ppid);
		else if (header->type == PERF_RECORD_COMM)
			snprintf(end, room, "comm %u/%u %s; ", comm->pid, comm->tid, (const char *)(comm + 1));
		else
			snprintf(end, room, "map %u %llx+%llx %s; ", map->pid, (unsigned long long)map->addr,
				 (unsigned long long)map->len, (const char *)(map + 1));
		len += strlen(end);
		assert_memory_equal(out.data + at + header->size - TRAILER, zero, TRAILER);
		at += header->size;
	}
	buf_fini(&out);
	return text;
}

static struct task_table *shell_and_child(void)
{
	struct task_table *table = task_table_new(TRAILER);

	comm(table, 10, 10, "sh", 0);
	map(table, 10, 0x1000, 0x1000, "/bin/sh");
	fork_or_exit(table, PERF_RECORD_FORK, 11, 11, 10);
	return table;
}

static void a_child_has_the_maps_of_its_parent(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 10, 1);
	assert_string_equal(taken(table), "fork 11/11<10; comm 11/11 sh; map 11 1000+1000 /bin/sh; ");
	task_table_free(table);
}

static void an_exec_ends_maps_and_threads(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 10, 1);
	fork_or_exit(table, PERF_RECORD_FORK, 11, 12, 11);
	comm(table, 11, 11, "ls", PERF_RECORD_MISC_COMM_EXEC);
	map(table, 11, 0x5000, 0x1000, "/bin/ls");
	assert_string_equal(taken(table), "fork 11/11<10; comm 11/11 ls; map 11 5000+1000 /bin/ls; ");
	task_table_free(table);
}

/* The first thread ends then, and the one that calls execve(2) gets its number. */
static void an_exec_by_another_thread_ends_that(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 10, 1);
	fork_or_exit(table, PERF_RECORD_FORK, 11, 12, 11);
	fork_or_exit(table, PERF_RECORD_FORK, 11, 13, 11);
	fork_or_exit(table, PERF_RECORD_EXIT, 11, 13, 10);
	fork_or_exit(table, PERF_RECORD_EXIT, 11, 11, 10);
	comm(table, 11, 11, "ls", PERF_RECORD_MISC_COMM_EXEC);
	map(table, 11, 0x1000, 0x1000, "/bin/ls");
	assert_string_equal(taken(table), "comm 11/11 ls; map 11 1000+1000 /bin/ls; ");
	fork_or_exit(table, PERF_RECORD_FORK, 11, 12, 11);
	assert_string_equal(taken(table), "comm 11/11 ls; map 11 1000+1000 /bin/ls; fork 11/12<11; comm 11/12 ls; ");
	task_table_free(table);
}

/* Also of threads whose ends were lost: the tasks of other processes are not looked at. */
static void many_execs_among_many_tasks(void **state)
{
	enum { NR = 2000 };
	struct task_table *table = shell_and_child();

	(void)state;
	for (uint32_t pid = 100; pid < 100 + NR; pid++)
		fork_or_exit(table, PERF_RECORD_FORK, pid, pid, 10);
	allocated_bytes = 0;
	for (unsigned i = 0; i < NR; i++) {
		fork_or_exit(table, PERF_RECORD_FORK, 11, 12, 11);
		comm(table, 11, 11, "sh", PERF_RECORD_MISC_COMM_EXEC);
	}
	assert_true(allocated_bytes > NR); /* they are counted */
	assert_true(allocated_bytes < NR * 1024);
	for (uint32_t pid = 100; pid < 100 + NR; pid++)
		fork_or_exit(table, PERF_RECORD_EXIT, pid, pid, 10);
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 10, 1);
	assert_string_equal(taken(table), "fork 11/11<10; comm 11/11 sh; ");
	task_table_free(table);
}

static void a_process_lives_as_long_as_one_of_its_threads(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	fork_or_exit(table, PERF_RECORD_EXIT, 11, 11, 10);
	fork_or_exit(table, PERF_RECORD_FORK, 10, 13, 10);
	comm(table, 10, 13, "worker", 0);
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 10, 1);
	assert_string_equal(taken(table), "map 10 1000+1000 /bin/sh; fork 10/13<10; comm 10/13 worker; ");
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 13, 10);
	assert_string_equal(taken(table), "");
	task_table_free(table);
}

static void what_lies_under_a_new_map_is_gone(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	fork_or_exit(table, PERF_RECORD_EXIT, 11, 11, 10);
	map(table, 10, 0x800, 0x900, "half over");
	map(table, 10, 0x1000, 0x1000, "over");
	assert_string_equal(taken(table), "comm 10/10 sh; map 10 800+800 half over; map 10 1000+1000 over; ");
	task_table_free(table);
}

static void many_come_and_go(void **state)
{
	struct task_table *table = task_table_new(TRAILER);

	(void)state;
	for (uint32_t pid = 1; pid <= 3000; pid++)
		fork_or_exit(table, PERF_RECORD_FORK, pid, pid, pid - 1);
	for (uint32_t pid = 1; pid <= 3000; pid++)
		if (pid != 2718)
			fork_or_exit(table, PERF_RECORD_EXIT, pid, pid, pid - 1);
	assert_string_equal(taken(table), "fork 2718/2718<2717; ");
	task_table_free(table);
}

/* What they mapped is freed in between; what is mapped still is there. */
static void many_map_and_end(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	for (uint32_t pid = 100; pid < 5000; pid++) {
		fork_or_exit(table, PERF_RECORD_FORK, pid, pid, 10);
		map(table, pid, 0x7000, 0x1000, "/bin/short");
		fork_or_exit(table, PERF_RECORD_EXIT, pid, pid, 10);
	}
	fork_or_exit(table, PERF_RECORD_EXIT, 10, 10, 1);
	assert_string_equal(taken(table), "fork 11/11<10; comm 11/11 sh; map 11 1000+1000 /bin/sh; ");
	task_table_free(table);
}

/* The records of exits were lost. */
static void a_thread_id_that_is_used_again_ends_its_process(void **state)
{
	struct task_table *table = shell_and_child();

	(void)state;
	fork_or_exit(table, PERF_RECORD_FORK, 11, 12, 11);
	fork_or_exit(table, PERF_RECORD_FORK, 11, 13, 11);
	fork_or_exit(table, PERF_RECORD_FORK, 12, 12, 11);
	assert_string_equal(
		taken(table),
		"comm 10/10 sh; map 10 1000+1000 /bin/sh; fork 11/11<10; comm 11/11 sh; map 11 1000+1000 /bin/sh; "
		"fork 12/12<11; comm 12/12 sh; map 12 1000+1000 /bin/sh; ");
	task_table_free(table);
}

/* Records of the kernel's own maps, and those that are too short, are left alone. */
static void what_is_not_for_the_table(void **state)
{
	struct task_table *table = task_table_new(TRAILER);
	const struct record_mmap2 mmap = {.header = {.type = PERF_RECORD_MMAP2, .size = 40}};
	const struct record_fork fork = {.header = {.type = PERF_RECORD_FORK, .size = sizeof(fork)}};

	(void)state;
	map(table, (uint32_t)-1, 0x1000, 0x1000, "[kernel.kallsyms]_text");
	assert_int_equal(task_table_take(table, &mmap.header), 0);
	assert_int_equal(task_table_take(table, &fork.header), 0);
	assert_string_equal(taken(table), "");
	task_table_free(table);
}

/* Files that are mapped no more are looked for among the maps of a process once, not once for each thread. */
static void maps_of_many_threads(void **state)
{
	enum { NR_THREADS = 500, NR_MAPS = 3000 };
	struct task_table *table = shell_and_child();

	(void)state;
	for (uint32_t tid = 100; tid < 100 + NR_THREADS; tid++)
		fork_or_exit(table, PERF_RECORD_FORK, 11, tid, 11);
	nr_visits = 0;
	for (unsigned i = 0; i < NR_MAPS; i++)
		map(table, 11, 0x1000, 0x1000, "/lib/x.so");
	assert_in_range(nr_visits, 1, NR_THREADS);
	task_table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_has_the_maps_of_its_parent),
		cmocka_unit_test(an_exec_ends_maps_and_threads),
		cmocka_unit_test(an_exec_by_another_thread_ends_that),
		cmocka_unit_test(many_execs_among_many_tasks),
		cmocka_unit_test(a_process_lives_as_long_as_one_of_its_threads),
		cmocka_unit_test(what_lies_under_a_new_map_is_gone),
		cmocka_unit_test(many_come_and_go),
		cmocka_unit_test(many_map_and_end),
		cmocka_unit_test(maps_of_many_threads),
		cmocka_unit_test(a_thread_id_that_is_used_again_ends_its_process),
		cmocka_unit_test(what_is_not_for_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
