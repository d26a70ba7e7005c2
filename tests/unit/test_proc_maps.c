/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "sysinfo/proc_maps.h"

static bool next(const char *text, struct proc_map *ret)
{
	struct span span = {text, strlen(text)};

	return proc_maps_next(&span, ret);
}

static void a_line_is_taken_apart(void **state)
{
	struct proc_map map;
	char name[64];

	(void)state;
	assert_true(next("7f2f53904000-7f2f53a5a000 r-xs 00026000 fe:1f 332835      /usr/lib/libc.so.6\n", &map));
	assert_true(map.start == 0x7f2f53904000 && map.end == 0x7f2f53a5a000);
	assert_true(map.pgoff == 0x26000);
	assert_int_equal(map.maj, 0xfe);
	assert_int_equal(map.min, 0x1f);
	assert_int_equal(map.ino, 332835);
	assert_int_equal(map.prot, PROT_READ | PROT_EXEC);
	assert_int_equal(map.flags, MAP_SHARED);
	assert_int_equal(proc_map_name(&map, name, sizeof(name)), 18);
	assert_string_equal(name, "/usr/lib/libc.so.6");
}

static void names_are_what_the_kernel_means(void **state)
{
	static const struct {
		const char *line, *name;
	} cases[] = {
		{"1000-2000 rwxp 00000000 00:00 0 \n", ""},
		{"1000-2000 rwxp 00000000 00:00 0\n", ""},
		{"1000-2000 r-xp 00000000 00:00 0                          [vdso]\n", "[vdso]"},
		{"1000-2000 r-xp 00000000 fe:00 7   /a b/c  d.so\n", "/a b/c  d.so"},
		{"1000-2000 r-xp 00000000 fe:00 7   /tail \n", "/tail "},
		{"1000-2000 r-xp 00000000 fe:00 7   /gone.so (deleted)\n", "/gone.so (deleted)"},
		{"1000-2000 r-xp 00000000 fe:00 7   /new\\012line\n", "/new\nline"},
		{"1000-2000 r-xp 00000000 fe:00 7   /\\012\n", "/\n"},
		{"1000-2000 r-xp 00000000 fe:00 7   /back\\slash\\01\n", "/back\\slash\\01"},
		{"1000-2000 r-xp 00000000 00:0f 7   /memfd:x (deleted)\n", "/memfd:x (deleted)"},
		{"1000-2000 r-xp 00000000 00:0f 7   anon_inode:[perf_event]\n", "anon_inode:[perf_event]"},
		{"1000-2000 rw-p 00000000 00:00 0   [anon:a heap]\n", "[anon:a heap]"},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n", "[vsyscall]"},
		{"0-ffffffffffffffff r-xp ffffffffffff f:0 18446744073709551615 /x\n", "/x"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proc_map map;
		char name[64];

		assert_true(next(cases[i].line, &map));
		assert_int_equal(proc_map_name(&map, name, sizeof(name)), (int)strlen(cases[i].name));
		assert_string_equal(name, cases[i].name);
	}
}

static void hostile_lines_are_no_maps(void **state)
{
	static const char *const lines[] = {
		"",
		"\n",
		" \n",
		"1000\n",
		"1000-\n",
		"-2000 r-xp 00000000 00:00 0 /x\n",
		"1000-2000\n",
		"1000-2000 r-x\n",
		"1000-2000 r-xp\n",
		"1000-2000 r-xp 00000000\n",
		"1000-2000 r-xp 00000000 00:\n",
		"1000-2000 r-xp 00000000 00:00 \n",
		"1000-2000 r-xp 00000000 00:00 x\n",
		"1000-2000 r-xp 00000000 00:00 7x\n",
		"1000-2000 r?xp 00000000 00:00 0 /x\n",
		"1000-2000 xr-p 00000000 00:00 0 /x\n",
		"1000-2000 r-x- 00000000 00:00 0 /x\n",
		"2000-1000 r-xp 00000000 00:00 0 /x\n",
		"10000000000000000-2000 r-xp 00000000 00:00 0 /x\n",
		"1000-2000 r-xp 00000000 00:00 99999999999999999999 /x\n",
		"1000-2000 R-xp 00000000 00:00 0 /x\n",
		"1000-2000  r-xp 00000000 00:00 0 /x\n",
		"0x1000-0x2000 r-xp 00000000 00:00 0 /x\n",
		"1000-2000 r-xp 00000000 00:00 0 /cut off",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct proc_map map;
		assert_false(next(lines[i], &map));
	}
}

static void good_lines_between_bad_ones_are_found(void **state)
{
	const char *text = "junk\n1000-2000 r-xp 00000000 00:00 0 /a\n\nmore\n3000-4000 r--p 00000000 00:00 "
			   "0 /b\n5000-60";
	struct span span = {text, strlen(text)};
	struct proc_map map;

	(void)state;
	assert_true(proc_maps_next(&span, &map));
	assert_int_equal(map.start, 0x1000);
	assert_true(proc_maps_next(&span, &map));
	assert_int_equal(map.start, 0x3000);
	assert_false(proc_maps_next(&span, &map));
	assert_int_equal(span.len, 7); /* the cut line stays for the next read */
	assert_memory_equal(span.ptr, "5000-60", 7);
}

static void a_name_that_does_not_fit_is_refused(void **state)
{
	struct proc_map map;
	char name[4];

	(void)state;
	assert_true(next("1000-2000 r-xp 00000000 00:00 0 abc\n", &map));
	assert_int_equal(proc_map_name(&map, name, sizeof(name)), 3);
	assert_int_equal(proc_map_name(&map, name, 3), -ENAMETOOLONG);
	assert_int_equal(proc_map_name(&map, name, 0), -ENAMETOOLONG);
	assert_true(next("1000-2000 r-xp 00000000 00:00 0 ab\\012\n", &map));
	assert_int_equal(proc_map_name(&map, name, sizeof(name)), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_taken_apart),
		cmocka_unit_test(names_are_what_the_kernel_means),
		cmocka_unit_test(hostile_lines_are_no_maps),
		cmocka_unit_test(good_lines_between_bad_ones_are_found),
		cmocka_unit_test(a_name_that_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
