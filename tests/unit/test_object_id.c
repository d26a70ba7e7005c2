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

/* As a build-id it would have the form of one: of 7 bytes, and zeros behind them. */
static void a_loop_device_is_no_build_id(void **state)
{
	(void)state;
	const struct {
		uint32_t major, minor;
		uint64_t inode, generation;
	} bytes = {7, 3, 0x12345, 0};
	const uint8_t short_id[24] = {3, 0, 0, 0, 1, 2, 3}, long_id[24] = {16, 0, 0, 0, 1, 0, 0, 0, 1};
	const uint8_t cut[20] = {7};
	struct object_id id;
	struct cursor at = cursor_over((struct span){&bytes, sizeof(bytes)});

	object_id_take(&at, PERF_RECORD_MISC_MMAP_BUILD_ID, &id);
	assert_int_equal(id.build_id.len, 0);
	assert_int_equal(id.file.major, 7);
	assert_int_equal(id.file.minor, 3);
	assert_int_equal(id.file.inode, 0x12345);
	assert_int_equal(cursor_left(&at), 0);
	at = cursor_over((struct span){short_id, sizeof(short_id)});
	object_id_take(&at, PERF_RECORD_MISC_MMAP_BUILD_ID, &id);
	assert_int_equal(id.build_id.len, 3); /* there is no inode */
	at = cursor_over((struct span){long_id, sizeof(long_id)});
	object_id_take(&at, PERF_RECORD_MISC_MMAP_BUILD_ID, &id);
	assert_int_equal(id.build_id.len, 16);
	at = cursor_over((struct span){cut, sizeof(cut)});
	object_id_take(&at, PERF_RECORD_MISC_MMAP_BUILD_ID, &id);
	assert_true(at.bad);
	assert_int_equal(id.build_id.len, 0);
}

enum { MARKED = PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID };

/* A record of `nr` words that are all alike. Returns the words behind it. */
static uint64_t *put_words(uint64_t *at, uint32_t type, uint16_t nr, uint64_t word)
{
	const struct perf_event_header header = {.type = type, .misc = MARKED, .size = (uint16_t)(8 * (nr + 1))};

	memcpy(at++, &header, sizeof(header));
	for (uint16_t i = 0; i < nr; i++)
		*at++ = word;
	return at;
}

/* Of these records, which are in two parts, one in a ring's end: the second one, a map, is in both. */
static void maps_without_build_ids_are_unmarked(void **state)
{
	(void)state;
	enum { NR = 4, NR_WORDS = 2 + 3 * 4, FIRST_WORDS = 4 };
	static const uint32_t types[NR] = {PERF_RECORD_COMM, PERF_RECORD_MMAP2, PERF_RECORD_FORK, PERF_RECORD_MMAP2};
	uint64_t words[NR_WORDS], *end = words, front[FIRST_WORDS], expected;
	_Alignas(8) uint8_t copy[MAP_RECORD_BYTES];

	for (uint64_t i = 0; i < NR; i++)
		end = put_words(end, types[i], i ? 3 : 1, i);
	assert_ptr_equal(end, words + NR_WORDS);
	memcpy(front, words, sizeof(front));
	for (size_t i = 0, taken = 0; i < NR; i++) {
		const size_t in_front = taken < FIRST_WORDS ? FIRST_WORDS - taken : 0;
		const size_t behind = taken + in_front;
		struct span spans[2] = {{front + taken % FIRST_WORDS, in_front * 8},
					{words + behind, (NR_WORDS - behind) * 8}};
		if (!in_front) {
			spans[0] = spans[1];
			spans[1] = (struct span){0};
		}
		struct perf_event_header header;
		const size_t bytes = object_id_unmark(spans, (NR_WORDS - taken) * 8, copy);
		assert_int_equal(span_total(spans, 2), bytes);
		assert_int_equal(bytes, i ? 32 : 16); /* each of them ends in front of a map, or is one */
		memcpy(&header, spans[0].ptr, sizeof(header));
		assert_int_equal(header.type, types[i]);
		assert_int_equal(header.misc, header.type == PERF_RECORD_MMAP2 ? PERF_RECORD_MISC_USER : MARKED);
		expected = i;
		assert_memory_equal((const uint8_t *)spans[0].ptr + spans[0].len - 8, &expected, 8);
		taken += bytes / 8;
	}
}

/* What is no record is not gone through; what is too long for a map stays as it is. */
static void what_is_no_map_stays(void **state)
{
	(void)state;
	enum { NR_WORDS = MAP_RECORD_BYTES / 8 };
	static uint64_t words[NR_WORDS + 1];
	_Alignas(8) uint8_t copy[MAP_RECORD_BYTES];
	struct span spans[2] = {{words, sizeof(words)}};

	put_words(words, PERF_RECORD_MMAP2, NR_WORDS, 1);
	assert_int_equal(object_id_unmark(spans, sizeof(words), copy), sizeof(words));
	assert_ptr_equal(spans[0].ptr, words);
	for (uint16_t size = 0; size <= 16; size += 4) {
		if (size == 8)
			continue;
		((struct perf_event_header *)words)->size = size;
		spans[0].len = 8;
		assert_int_equal(object_id_unmark(spans, 8, copy), 8);
		assert_ptr_equal(spans[0].ptr, words);
	}
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
		cmocka_unit_test(a_loop_device_is_no_build_id),
		cmocka_unit_test(an_open_file_is_compared),
		cmocka_unit_test(maps_without_build_ids_are_unmarked),
		cmocka_unit_test(what_is_no_map_stays),
		cmocka_unit_test(what_was_written_later_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
