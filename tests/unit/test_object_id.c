/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/perf_event.h>

#include "base/span.h"
#include "perfdata/object_id.h"

#define BUILD_ID(first) ((struct object_id){.build_id = {{first, 2, 3}, 3}})
#define FILE_ID(minor_, inode_, generation_)                                                                           \
	((struct object_id){.file = {.major = 8, .minor = minor_, .inode = inode_, .generation = generation_}})

static void objects_are_distinguished(void **state)
{
	(void)state;
	static const struct {
		struct object_id a, b;
		bool equal;
	} cases[] = {
		{BUILD_ID(1), BUILD_ID(1), true},
		{BUILD_ID(1), BUILD_ID(4), false},
		{FILE_ID(1, 7, 5), FILE_ID(1, 7, 5), true},
		{FILE_ID(1, 7, 5), FILE_ID(1, 7, 0), true},
		{FILE_ID(1, 7, 5), FILE_ID(1, 7, 6), false},
		{FILE_ID(1, 7, 5), FILE_ID(1, 8, 5), false},
		{FILE_ID(1, 7, 5), FILE_ID(2, 7, 5), false},
		{BUILD_ID(1), FILE_ID(1, 7, 5), false},
		{BUILD_ID(1), {.file.inode = 0}, true},
		{FILE_ID(1, 7, 5), {.file.inode = 0}, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(object_id_equal(&cases[i].a, &cases[i].b), cases[i].equal);
		assert_int_equal(object_id_equal(&cases[i].b, &cases[i].a), cases[i].equal);
	}
}

/* The flag may be there without a build-id. */
static void a_build_id_is_known_by_its_form(void **state)
{
	(void)state;
	uint8_t bytes[24] = {3, 0, 0, 0, 1, 2, 3};
	struct object_id id;
	struct cursor at = cursor_over((struct span){bytes, sizeof(bytes)});

	object_id_take(&at, PERF_RECORD_MISC_MMAP_BUILD_ID, &id);
	assert_true(object_id_equal(&id, &BUILD_ID(1)));
	assert_int_equal(id.file.inode, 0);
	assert_int_equal(cursor_left(&at), 0);
	bytes[1] = 1;
	at = cursor_over((struct span){bytes, sizeof(bytes)});
	object_id_take(&at, PERF_RECORD_MISC_MMAP_BUILD_ID, &id);
	assert_int_equal(id.build_id.len, 0);
	assert_int_equal(id.file.major, 0x103);
	assert_int_equal(cursor_left(&at), 0);
}

static void an_open_file_is_compared(void **state)
{
	(void)state;
	struct stat st;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	struct file_id id = {.major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino}, other = id;
	assert_true(file_id_is(&id, fd, &st, false));
	other.inode++;
	assert_false(file_id_is(&other, fd, &st, false));
	assert_false(file_id_is(&other, fd, &st, true));
	other = id;
	other.inode = 0;
	assert_true(file_id_is(&other, fd, &st, false));
	if (id.major) { /* else the device is made up, and overlayfs is believed */
		other = id;
		other.major++;
		assert_false(file_id_is(&other, fd, &st, false));
		assert_true(file_id_is(&other, fd, &st, true));
	}
	close(fd);
}

static void what_was_written_later_is_noticed(void **state)
{
	(void)state;
	enum { SECOND = 1000000000 };
	/* 10 s of samples, which ended 100 s after 1970 */
	const struct mapping_times times = {100LL * SECOND, 5ULL * SECOND, 15ULL * SECOND}, none = {0};
	struct stat st = {.st_mtim.tv_sec = 95};

	assert_true(file_written_after(&st, &times, 0));
	assert_true(file_written_after(&st, &times, 8ULL * SECOND));
	assert_false(file_written_after(&st, &times, 12ULL * SECOND));
	assert_false(file_written_after(&st, &none, 0));
	st.st_mtim.tv_sec = 89;
	assert_false(file_written_after(&st, &times, 0));
	st.st_mtim.tv_sec = 101;
	assert_true(file_written_after(&st, &times, 20ULL * SECOND));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_distinguished),
		cmocka_unit_test(a_build_id_is_known_by_its_form),
		cmocka_unit_test(an_open_file_is_compared),
		cmocka_unit_test(what_was_written_later_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
