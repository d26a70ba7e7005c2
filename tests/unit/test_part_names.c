/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
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

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "record/output/output_path.h"

/* The linker puts these in the place of libc's (--wrap). */
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
void *__real_reallocarray(void *old, size_t nr, size_t bytes);
void *__wrap_reallocarray(void *old, size_t nr, size_t bytes);
static const char *refused; /* the name that nothing can get */
static bool has_no_memory;

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	if (!refused || strcmp(to, refused) != 0)
		return __real_renameat(from_dir, from, to_dir, to);
	errno = EIO;
	return -1;
}

void *__wrap_reallocarray(void *old, size_t nr, size_t bytes)
{
	errno = ENOMEM;
	return has_no_memory ? NULL : __real_reallocarray(old, nr, bytes);
}

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

static void test_memory_error_is_reported(void **state)
{
	struct part_names names = {.base = "p.data"};
	struct diag diag = {0};
	char *name = strdup("p.data.2026112210183800");

	(void)state;
	assert_non_null(name);
	has_no_memory = true;
	int err = part_names_add(&names, name, &diag);
	has_no_memory = false;
	assert_int_equal(err, -ENOMEM);
	assert_string_equal(diag.text, "out of memory");
	assert_int_equal(names.nr, 0);
	part_names_fini(&names);
}

static void put_text(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write(fd, text, strlen(text)), 0);
}

static void assert_text(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char found[32] = "";

	assert_true(fd >= 0);
	assert_true(read(fd, found, sizeof(found) - 1) >= 0);
	assert_string_equal(found, text);
}

/* The file system gives neither the new output its name nor the earlier one another: both stay what they are called. */
static void test_an_output_that_gets_no_name_changes_none(void **state)
{
	char place[] = "/tmp/part_names.XXXXXX", path[64], old[64];

	(void)state;
	assert_non_null(mkdtemp(place));
	snprintf(path, sizeof(path), "%s/p.data", place);
	snprintf(old, sizeof(old), "%s/p.data.old", place);
	put_text(path, "earlier");
	put_text(old, "older");
	for (int i = 0; i < 2; i++) {
		struct output_path dest = {.fd = -1};
		struct diag diag = {0};
		refused = i ? "p.data.old" : "p.data";
		int err = output_path_open(path, &dest, &diag);
		refused = NULL;
		assert_int_equal(err, -EIO);
		assert_true(strstr(diag.text, path) && strstr(diag.text, strerror(EIO)));
		assert_text(path, "earlier");
		assert_text(old, "older");
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(old), 0);
	assert_int_equal(rmdir(place), 0); /* and nothing else is there */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_name_is_later_than_those_before),
		cmocka_unit_test(test_a_name_that_is_taken_is_left_out),
		cmocka_unit_test(test_memory_error_is_reported),
		cmocka_unit_test(test_an_output_that_gets_no_name_changes_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
