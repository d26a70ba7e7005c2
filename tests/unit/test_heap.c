/* SPDX-License-Identifier: MIT */
/* Large memory is marked for huge pages, and what is freed goes back: by what the kernel tells of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
		cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
