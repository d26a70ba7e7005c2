/* SPDX-License-Identifier: MIT */
/* Large memory is marked for huge pages, and what is freed goes back: by what the kernel tells of this process. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sysinfo/heap.h"

enum { LARGE = 8 << 20, BLOCK = 64 << 10, NR_BLOCKS = 128 };

static bool has_huge_pages(void)
{
	return access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
}

/* "hg" of proc_pid_smaps(5). */
static bool is_marked(const void *at)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	char line[512];
	bool inside = false, marked = false;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned long begin, end;
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			inside = (uintptr_t)at >= begin && (uintptr_t)at < end;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			marked = strstr(line, " hg") != NULL;
	}
	fclose(file);
	return marked;
}

static void *allocate(void *unused)
{
	(void)unused;
	return malloc(LARGE);
}

/* Threads have no heaps of their own, which would not be marked. */
static void is_marked_on_threads(void)
{
	pthread_t threads[3];
	void *memory[3];

	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, allocate, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], &memory[i]), 0);
	for (size_t i = 0; i < 3; i++) {
		assert_non_null(memory[i]);
		assert_true(is_marked((char *)memory[i] + LARGE / 2));
		free(memory[i]);
	}
}

/* What is allocated and freed in turn stays in that part of the heap. */
static void test_heap(void **state)
{
	(void)state;
	if (!has_huge_pages())
		return;
	heap_use_huge_pages();
	for (int i = 0; i < 3; i++) {
		char *volatile memory = malloc(LARGE);
		bool in_heap = (char *)memory < (char *)sbrk(0);
		bool marked = memory && is_marked(memory + LARGE / 2);
		free(memory);
		if (!in_heap) /* another malloc(3), as that of a sanitizer */
			return;
		assert_true(marked);
	}
	is_marked_on_threads();
}

/* Addresses that are not used count: what else is mapped has to fit, too. In another process, as it is for good. */
static void test_limited_addresses(void **state)
{
	const struct rlimit limit = {(rlim_t)2 << 30, (rlim_t)2 << 30};
	int status;

	(void)state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		char *before = sbrk(0);
		if (setrlimit(RLIMIT_AS, &limit))
			_exit(0); /* a sanitizer has more */
		heap_use_huge_pages();
		_exit((char *)sbrk(0) - before > LARGE);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static long resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long total, resident;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld %ld", &total, &resident), 2);
	fclose(file);
	return resident;
}

/* Freed memory with a block behind it that is in use. */
static void test_trim(void **state)
{
	char *blocks[NR_BLOCKS], *last;

	(void)state;
	for (size_t i = 0; i < NR_BLOCKS; i++) {
		blocks[i] = malloc(BLOCK);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, BLOCK);
	}
	last = malloc(BLOCK);
	assert_non_null(last);
	bool in_heap = last < (char *)sbrk(0);
	for (size_t i = 0; i < NR_BLOCKS; i++)
		free(blocks[i]);
	long before = resident_pages();
	heap_trim();
	long pages = before - resident_pages();
	if (in_heap) /* not with another malloc(3), as that of a sanitizer */
		assert_true(pages >= NR_BLOCKS * BLOCK / sysconf(_SC_PAGESIZE) * 9 / 10);
	free(last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_limited_addresses),
		cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
