/* SPDX-License-Identifier: MIT */
/* Large memory is marked for huge pages: by the kernel's own list of what is mapped. */
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

#include "base/hash_table.h"
#include "sysinfo/heap.h"

enum { LARGE = 8 << 20 };

static void skip_without_huge_pages(void)
{
	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		skip();
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

static void test_table(void **state)
{
	struct hash_table table = {0};

	(void)state;
	skip_without_huge_pages();
	for (uint64_t i = 1; i < 1 << 20; i++)
		assert_int_equal(hash_table_add_number(&table, i, i), 0);
	assert_true(is_marked(&table.slots[table.nr_slots / 2]));
	hash_table_fini(&table);
}

/* What is allocated and freed in turn stays in that part of the heap. */
static void test_heap(void **state)
{
	(void)state;
	skip_without_huge_pages();
	heap_use_huge_pages();
	for (int i = 0; i < 3; i++) {
		char *volatile memory = malloc(LARGE);
		bool in_heap = (char *)memory < (char *)sbrk(0);
		bool marked = memory && is_marked(memory + LARGE / 2);
		free(memory);
		if (!in_heap) /* another malloc(3), as that of a sanitizer */
			skip();
		assert_true(marked);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
