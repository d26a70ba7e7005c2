/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static char directory[32];

static int enter_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/leftovers.XXXXXX");
	return mkdtemp(directory) && !chdir(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return chdir("/") || rmdir(directory);
}

static int make(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static bool is_there(const char *name)
{
	return faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void clean_up(int64_t older_than_s, void (*remove_of)(int dir_fd, const char *name))
{
	int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	fd_remove_leftovers(fd, ".x-", older_than_s, remove_of);
	close(fd);
}

static void remove_empty(int dir_fd, const char *name)
{
	assert_int_equal(unlinkat(dir_fd, name, AT_REMOVEDIR), 0);
}

static void test_what_no_process_has_open_is_removed(void **state)
{
	static const char *const stay[] = {"x-0123456789abcdef", ".x-0123456789abcde", ".x-0123456789abcdef0",
					   ".x-0123456789abcdeg", ".y-0123456789abcdef"};

	(void)state;
	close(make(".x-0123456789abcdef"));
	for (size_t i = 0; i < sizeof(stay) / sizeof(*stay); i++)
		close(make(stay[i]));
	assert_int_equal(mkfifo(".x-000000000000000f", 0600), 0);
	assert_int_equal(symlink("x-0123456789abcdef", ".x-000000000000000e"), 0);
	assert_int_equal(mkdir(".x-000000000000000d", 0700), 0);
	clean_up(LEFTOVER_S, remove_empty);
	assert_true(is_there(".x-0123456789abcdef") && is_there(".x-000000000000000d"));
	clean_up(0, NULL);
	assert_false(is_there(".x-0123456789abcdef"));
	assert_true(is_there(".x-000000000000000d"));
	clean_up(0, remove_empty);
	assert_false(is_there(".x-000000000000000d"));
	assert_int_equal(unlink(".x-000000000000000f"), 0);
	assert_int_equal(unlink(".x-000000000000000e"), 0);
	for (size_t i = 0; i < sizeof(stay) / sizeof(*stay); i++)
		assert_int_equal(unlink(stay[i]), 0);
}

static void test_what_is_open_stays(void **state)
{
	static const char name[] = ".x-0123456789abcdef";
	int fd = make(name);

	(void)state;
	clean_up(0, NULL);
	assert_true(is_there(name));
	close(fd);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	clean_up(0, NULL);
	assert_true(is_there(name));
	close(fd);
	clean_up(0, NULL);
	assert_false(is_there(name));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_no_process_has_open_is_removed, enter_directory,
						remove_directory),
		cmocka_unit_test_setup_teardown(test_what_is_open_stays, enter_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
