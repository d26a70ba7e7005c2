/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "record/output/file_place.h"

static char directory[] = "/tmp/file_place.XXXXXX";

static int enter_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) && !chdir(directory) && !mkdir("deep", 0700) && !symlink("deep", "to_deep") &&
			       !symlink("to_deep/file", "to_file") && !symlink("circle", "circle")
		       ? 0
		       : -1;
}

static int remove_directory(void **state)
{
	static const char *const names[] = {"deep/file", "to_deep", "to_file", "circle"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(names[i]);
	rmdir("deep");
	return chdir("/") || rmdir(directory);
}

static void test_paths_that_name_no_file(void **state)
{
	static const struct {
		const char *path;
		int err;
	} cases[] = {
		{"", -EINVAL},          {"/", -EINVAL},       {".", -EISDIR},     {"deep/..", -EISDIR},
		{"nowhere/x", -ENOENT}, {"circle/x", -ELOOP}, {"circle", -ELOOP}, {"/dev/null/x", -ENOTDIR},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct file_place place;
		struct diag diag = {{0}};
		assert_int_equal(file_place_find(cases[i].path, &place, &diag), cases[i].err);
		assert_true(diag.text[0]);
	}
}

/* Through a link of one's own, in a directory behind another. */
static void test_links_of_ones_own_are_followed(void **state)
{
	struct file_place place;

	(void)state;
	assert_int_equal(file_place_find("to_file", &place, NULL), 0);
	assert_string_equal(place.path, "to_deep/file");
	assert_string_equal(place.name, "file");
	assert_false(place.exists);
	int fd = file_place_create(&place);
	assert_true(fd >= 0);
	assert_int_equal(file_place_create(&place), -EEXIST);
	close(fd);
	file_place_fini(&place);
	assert_int_equal(file_place_find("deep//file/", &place, NULL), 0);
	assert_true(place.exists && S_ISREG(place.st.st_mode) && (place.st.st_mode & 0777) == 0600);
	file_place_fini(&place);
}

/* What has the name stays as it is until the new file is complete, and is another file then. */
static void test_a_temporary_file_takes_the_name(void **state)
{
	char temporary[FILE_PLACE_TEMPORARY_ROOM];
	struct file_place place, now;

	(void)state;
	assert_int_equal(file_place_find("deep/file", &place, NULL), 0);
	int fd = file_place_create_temporary(&place, temporary);
	assert_true(fd >= 0);
	assert_int_equal(file_place_rename(&place, temporary), 0);
	close(fd);
	assert_int_equal(file_place_find("deep/file", &now, NULL), 0);
	assert_true(now.exists && now.st.st_ino != place.st.st_ino);
	file_place_fini(&place);
	fd = file_place_create_temporary(&now, temporary);
	file_place_discard(&now, temporary);
	assert_int_equal(faccessat(now.dir_fd, temporary, F_OK, 0), -1);
	close(fd);
	file_place_fini(&now);
}

static void test_an_open_descriptor_is_a_place(void **state)
{
	int pipes[2];
	char path[32];
	struct file_place place;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", pipes[1]);
	assert_int_equal(file_place_find(path, &place, NULL), 0);
	assert_true(place.exists && place.descriptor && S_ISFIFO(place.st.st_mode));
	int fd = file_place_open(&place, O_WRONLY);
	assert_true(fd >= 0);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	file_place_fini(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths_that_name_no_file),
		cmocka_unit_test(test_links_of_ones_own_are_followed),
		cmocka_unit_test(test_a_temporary_file_takes_the_name),
		cmocka_unit_test(test_an_open_descriptor_is_a_place),
	};

	return cmocka_run_group_tests(tests, enter_directory, remove_directory);
}
