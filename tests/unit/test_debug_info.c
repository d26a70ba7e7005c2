/* SPDX-License-Identifier: MIT */
/* Lines of the source of this program itself, as if it were the image of a kernel: its addresses are as linked. */
#include <libelf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/symbols/debug_info.h"
#include "analyze/symbols/dso.h"

/* The program itself comes first. */
static int take_bias(struct dl_phdr_info *object, size_t size, void *ret)
{
	(void)size;
	*(uint64_t *)ret = object->dlpi_addr;
	return 1;
}

static __attribute__((noinline)) int first(volatile int *at)
{
	*at += 3;
	return *at * 5;
}

static __attribute__((noinline)) int second(volatile int *at)
{
	*at -= 3;
	return *at * 7;
}

/* A recording hits thousands of addresses of a file, whose path may be long. */
static void test_addresses_of_a_file_share_its_path(void **state)
{
	const uint64_t functions[] = {(uintptr_t)first, (uintptr_t)second};
	const struct symbol_options options = {.symfs = ""};
	struct dso_table dsos = {0};
	struct debug_info *info = debug_info_new(&options);
	struct dso *dso = dso_find(&dsos, "[kernel.kallsyms]", NULL, DSO_KERNEL);
	struct source_line lines[2];
	uint64_t bias = 0;

	(void)state;
	dl_iterate_phdr(take_bias, &bias);
	assert_non_null(info);
	assert_non_null(dso);
	dso->image_path = "/proc/self/exe";
	bool known = true; /* not when built without debug information */
	for (size_t i = 0; i < 2; i++)
		known &= debug_info_line(info, dso, functions[i] - bias, 0, &lines[i]);
	if (!known) {
		debug_info_free(info);
		dso_table_fini(&dsos);
		skip();
	}
	assert_non_null(strstr(lines[0].path, "test_debug_info.c"));
	assert_ptr_equal(lines[0].path, lines[1].path);
	assert_in_range(lines[1].line, lines[0].line + 4, lines[0].line + 7);
	debug_info_free(info);
	dso_table_fini(&dsos);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses_of_a_file_share_its_path)};
	volatile int at = 0;

	elf_version(EV_CURRENT);
	if (first(&at) + second(&at) > 1000)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
