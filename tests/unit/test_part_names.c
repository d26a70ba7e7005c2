/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "record/output/output_path.h"

/* None of the files is there yet: they are finished later, and other than in this order. */
static void test_each_name_is_later_than_those_before(void **state)
{
	struct part_names names = {.base = "build-no-such-directory/p.data"};
	char *before = NULL;

	(void)state;
	for (int i = 0; i < 300; i++) {
		char *name = part_names_next(&names);
		assert_non_null(name);
		assert_int_equal(strlen(name), strlen(names.base) + strlen(".2026112210183800"));
		if (before)
			assert_true(strcmp(before, name) < 0);
		free(before);
		before = name;
	}
	free(before);
	part_names_fini(&names);
}

static void test_a_name_that_is_taken_is_left_out(void **state)
{
	char base[] = "/tmp/part_names.XXXXXX";
	int fd = mkstemp(base);
	struct part_names names = {.base = base}, others = {.base = base};
	char *taken = part_names_next(&others);
	FILE *file = fopen(taken, "w");

	(void)state;
	assert_non_null(file);
	fclose(file);
	names.last = others.last - 1;
	char *name = part_names_next(&names);
	assert_true(strcmp(taken, name) < 0);
	unlink(taken);
	unlink(base);
	close(fd);
	free(taken);
	free(name);
	part_names_fini(&names);
	part_names_fini(&others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_name_is_later_than_those_before),
		cmocka_unit_test(test_a_name_that_is_taken_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
