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

#include "sysinfo/heap.h"

enum { LARGE = 8 << 20 };

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
