/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/span.h"
#include "perfdata/object_id.h"
#include "record/build_ids/object_cache.h"

/* The linker puts it in the place of libc's (--wrap): what another recorder does before a copy gets its name. */
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
static const struct cache_entry *made_by_another;

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	const struct cache_entry *entry = made_by_another;

	made_by_another = NULL;
	if (entry)
		assert_int_equal(object_cache_put_bytes(entry, span_of_text("elf")), 0);
	return __real_renameat(from_dir, from, to_dir, to);
}

static char place[] = "/tmp/millrace-object-cache-XXXXXX";

static int make_place(void **state)
{
	(void)state;
	return mkdtemp(place) ? 0 : -1;
}

static int remove_place(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", place);
	return system(command);
}

/* A copy is where readers look, whatever was there before under that name. */
static void copies_are_found_by_their_build_id(void **state)
{
	static const char *const before[] = {"true", "ln -s ../../nowhere/at/all $l", "mkdir $l",
					     "mkdir -p ${l%/*/*/*}/other/place && ln -s ../../other/place $l",
					     "ln -s /dev/null $l"};
	struct cache_entry entry = {.name = "/opt/app", .leaf = "elf", .id = {.bytes = {0xab, 0xcd, 0xef}, .len = 3}};
	char cache[160], command[512];

	(void)state;
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		snprintf(cache, sizeof(cache), "%s/cache%zu", place, i);
		snprintf(command, sizeof(command), "l=%s/.build-id/ab/cdef; mkdir -p -m 700 ${l%%/*} && %s", cache,
			 before[i]);
		assert_int_equal(system(command), 0);
		entry.dir_fd = object_cache_open(cache);
		assert_true(entry.dir_fd >= 0);
		assert_false(object_cache_has(&entry));
		assert_int_equal(object_cache_put_bytes(&entry, span_of_text("elf")), 0);
		assert_true(object_cache_has(&entry));
		close(entry.dir_fd);
	}
	/* A file that is in the way is not taken away, and it is told. */
	snprintf(cache, sizeof(cache), "%s/cache", place);
	snprintf(command, sizeof(command), "mkdir -p -m 700 %s/.build-id/ab && touch %s/.build-id/ab/cdef", cache,
		 cache);
	assert_int_equal(system(command), 0);
	entry.dir_fd = object_cache_open(cache);
	assert_true(object_cache_put_bytes(&entry, span_of_text("elf")) < 0);
	close(entry.dir_fd);
}

/* In what functions that are called next have on their stack. */
__attribute__((noinline)) static void leave_bytes_on_the_stack(void)
{
	volatile uint8_t bytes[4096];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = 0x55;
}

static void a_file_that_is_too_large_is_not_copied(void **state)
{
	struct cache_entry entry = {.name = "/opt/large", .leaf = "elf", .id = {.bytes = {1, 2, 3}, .len = 3}};
	AUTO_FD int file = memfd_create("large", MFD_CLOEXEC);
	char cache[160];
	uint64_t bytes = 0;

	(void)state;
	assert_true(file >= 0 && ftruncate(file, 1000) == 0);
	snprintf(cache, sizeof(cache), "%s/bound", place);
	AUTO_FD int dir = entry.dir_fd = object_cache_open(cache);
	assert_true(dir >= 0);
	leave_bytes_on_the_stack();
	assert_int_equal(object_cache_put_file(&entry, file, 999, &bytes), -EFBIG);
	assert_false(object_cache_has(&entry));
	leave_bytes_on_the_stack();
	assert_int_equal(object_cache_put_file(&entry, -1, 1000, &bytes), -EBADF);
	assert_int_equal(object_cache_put_file(&entry, file, 1000, &bytes), 0);
	assert_int_equal(bytes, 1000);
	assert_true(object_cache_has(&entry));
}

/* One in another PID namespace has our number, too: neither takes the other's copy away. */
static void two_recorders_copy_the_same_object(void **state)
{
	struct cache_entry entry = {.name = "/opt/both", .leaf = "elf", .id = {.bytes = {4, 5, 6}, .len = 3}};
	char cache[160], command[512];

	(void)state;
	snprintf(cache, sizeof(cache), "%s/both", place);
	AUTO_FD int dir = entry.dir_fd = object_cache_open(cache);
	assert_true(dir >= 0);
	made_by_another = &entry;
	assert_int_equal(object_cache_put_bytes(&entry, span_of_text("elf")), 0);
	assert_null(made_by_another);
	assert_true(object_cache_has(&entry));
	snprintf(command, sizeof(command), "test \"$(find %s -type f)\" = %s/opt/both/040506/elf", cache, cache);
	assert_int_equal(system(command), 0);
}

static int file_of(const char *text)
{
	int fd = memfd_create("contents", MFD_CLOEXEC);

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	return fd;
}

/* Of files without a build-id there is one copy for all that have the same bytes, under an id that no file has. */
static void contents_give_a_file_its_id(void **state)
{
	static const char *const texts[] = {"an object", "an object", "another", "an object and more", ""};
	struct elf_id ids[5];
	char cache[160];

	(void)state;
	snprintf(cache, sizeof(cache), "%s/contents", place);
	AUTO_FD int dir = object_cache_open(cache);
	assert_true(dir >= 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct cache_entry entry = {.dir_fd = dir, .name = "/opt/app", .leaf = "elf"};
		AUTO_FD int file = file_of(texts[i]);
		uint64_t bytes = 1000;
		assert_int_equal(object_cache_put_contents(&entry, file, 100, &bytes), 0);
		assert_int_equal(bytes, i == 1 ? 0 : strlen(texts[i]));
		assert_true(object_cache_has(&entry));
		ids[i] = entry.id;
		for (size_t other = 0; other < i; other++)
			assert_int_equal(elf_id_equal(&ids[other], &ids[i]), !strcmp(texts[other], texts[i]));
	}
	struct cache_entry entry = {.dir_fd = dir, .name = "/opt/app", .leaf = "elf"};
	AUTO_FD int large = file_of("of eleven b");
	uint64_t bytes;
	assert_int_equal(object_cache_put_contents(&entry, large, 10, &bytes), -EFBIG);
}

/* Who can choose the contents of two files can give them one hash: each gets a copy, and neither is given the other's.
 */
static void files_of_one_hash_get_a_copy_each(void **state)
{
	struct cache_entry entry = {.name = "/opt/app", .leaf = "elf"}, again = entry;
	AUTO_FD int file = file_of("an object");
	char cache[160], command[400];
	uint64_t bytes;

	(void)state;
	snprintf(cache, sizeof(cache), "%s/hash", place);
	AUTO_FD int dir = entry.dir_fd = again.dir_fd = object_cache_open(cache);
	assert_true(dir >= 0);
	for (int nr = 0; nr < 4; nr++) {
		assert_int_equal(object_cache_put_contents(&again, file, 100, &bytes), 0);
		assert_int_equal(bytes, 9);
		assert_true(nr == 0 || !elf_id_equal(&entry.id, &again.id));
		entry = again;
		/* As long, and under the id of that hash: only the bytes differ. */
		snprintf(command, sizeof(command), "for f in $(find %s -type f); do printf 'AN OBJECT' >$f; done",
			 cache);
		assert_int_equal(system(command), 0);
	}
	assert_int_equal(object_cache_put_contents(&again, file, 100, &bytes), -EEXIST);
}

/* Also where a file is not read as a whole: its ends are, and some pages between. */
static void a_copy_of_another_file_is_another(void **state)
{
	static const struct {
		off_t bytes, differ_at; /* -1: they are the same */
	} cases[] = {{9, -1},
		     {9, 8},
		     {5000, 4096},
		     {64 << 20, -1},
		     {64 << 20, 0},
		     {64 << 20, 63 << 20},
		     {64 << 20, 32 << 20}};
	const struct cache_entry entry = {.name = "/opt/app", .leaf = "elf", .id = {.bytes = {1, 2, 3}, .len = 3}};
	char cache[160];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cache_entry its = entry;
		snprintf(cache, sizeof(cache), "%s/same%zu", place, i);
		AUTO_FD int dir = its.dir_fd = object_cache_open(cache);
		AUTO_FD int file = file_of("an object");
		assert_true(dir >= 0);
		assert_int_equal(object_cache_is_same(&its, file), -ENOENT);
		assert_int_equal(ftruncate(file, cases[i].bytes), 0);
		assert_int_equal(object_cache_put_file(&its, file, UINT64_MAX, NULL), 0);
		if (cases[i].differ_at >= 0)
			assert_int_equal(pwrite(file, "X", 1, cases[i].differ_at), 1);
		assert_int_equal(object_cache_is_same(&its, file), cases[i].differ_at < 0);
		assert_int_equal(ftruncate(file, cases[i].bytes + 1), 0);
		assert_int_equal(object_cache_is_same(&its, file), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_found_by_their_build_id),
		cmocka_unit_test(a_file_that_is_too_large_is_not_copied),
		cmocka_unit_test(two_recorders_copy_the_same_object),
		cmocka_unit_test(contents_give_a_file_its_id),
		cmocka_unit_test(files_of_one_hash_get_a_copy_each),
		cmocka_unit_test(a_copy_of_another_file_is_another),
	};

	return cmocka_run_group_tests(tests, make_place, remove_place);
}
