/* SPDX-License-Identifier: MIT */
/* What was found in debug information is there in the next run, and only for the same files; or nothing is. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/dwarf/cache_files.h"
#include "analyze/dwarf/line_cache.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/hash_table.h"
#include "perfdata/object_id.h"

static char root[] = "/tmp/line-cache-XXXXXX";
static const struct elf_id build_id = {.bytes = {1, 2, 3}, .len = 3};

/* In the directory of the test; the text is short. */
static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void put_file(const char *name, const char *text)
{
	AUTO_FD int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write(fd, text, strlen(text)), 0);
}

/* The names of files are those in the directory of the test. */
static struct line_cache *cache_of(const char *debug, unsigned flags)
{
	struct line_cache *cache = line_cache_new(flags, &build_id);
	AUTO_FD int runtime_fd = open(path_of("object"), O_RDONLY);
	AUTO_FD int debug_fd = open(path_of(debug), O_RDONLY);

	assert_non_null(cache);
	assert_true(runtime_fd >= 0 && debug_fd >= 0);
	line_cache_note_file(cache, LINE_CACHE_RUNTIME, runtime_fd);
	line_cache_note_file(cache, LINE_CACHE_DEBUG, debug_fd);
	return cache;
}

static struct line_cache *loaded(const char *debug, unsigned flags)
{
	struct line_cache *cache = cache_of(debug, flags);

	line_cache_load(cache);
	return cache;
}

static void store(struct line_cache *cache)
{
	line_cache_spend_ahead(cache);
	line_cache_store(cache);
	line_cache_free(cache);
}

static void assert_names(const struct line_cache *cache, uint64_t address, unsigned nr, const char *const names[])
{
	uint32_t numbers[LINE_CACHE_MOST_FRAMES];
	unsigned nr_found = UINT32_MAX;

	assert_true(line_cache_find_names(cache, address, numbers, &nr_found));
	assert_int_equal(nr_found, nr);
	for (unsigned i = 0; i < nr; i++)
		assert_string_equal(line_cache_text(cache, numbers[i]), names[i]);
}

static void assert_line(const struct line_cache *cache, uint64_t address, unsigned frame, const char *path,
			unsigned line)
{
	uint32_t number;
	unsigned found;

	assert_true(line_cache_find_line(cache, address, frame, &number, &found));
	if (path)
		assert_string_equal(line_cache_text(cache, number), path);
	else
		assert_int_equal(number, LINE_CACHE_NO_TEXT);
	assert_int_equal(found, line);
}

static bool knows_any(const struct line_cache *cache)
{
	return line_cache_knows(cache, 0x1000, true, false);
}

/* It was written some seconds ago, like "object" and "other". */
static const char old_file[] = "debug";

static const char *const two[] = {"std::sort", "app::run"};

static void fill(struct line_cache *cache)
{
	line_cache_add_line(cache, 0x1000, 0, "/src/sort.h", 12);
	line_cache_add_line(cache, 0x1000, 1, "/src/run.cc", 34);
	line_cache_add_line(cache, 0x1000, 2, NULL, 0);
	line_cache_add_names(cache, 0x1000, two, 2);
	line_cache_add_names(cache, 0xffffffff81000000, NULL, 0);
	line_cache_add_line(cache, 0x40, 0, "/src/run.cc", 7);
}

static void test_answers_come_back(void **state)
{
	uint32_t numbers[LINE_CACHE_MOST_FRAMES], number;
	unsigned nr;

	(void)state;
	struct line_cache *cache = cache_of(old_file, 0);
	fill(cache);
	store(cache);
	cache = loaded(old_file, 0);
	assert_names(cache, 0x1000, 2, two);
	assert_line(cache, 0x1000, 0, "/src/sort.h", 12);
	assert_line(cache, 0x1000, 1, "/src/run.cc", 34);
	assert_line(cache, 0x1000, 2, NULL, 0);
	assert_names(cache, 0xffffffff81000000, 0, NULL);
	assert_line(cache, 0x40, 0, "/src/run.cc", 7);
	assert_int_equal(line_cache_nr_texts(cache), 4);
	/* What was not asked for is not known. */
	assert_false(line_cache_find_line(cache, 0x1000, 3, &number, &nr));
	assert_false(line_cache_find_line(cache, 0x1000, LINE_CACHE_MOST_FRAMES, &number, &nr));
	assert_false(line_cache_find_line(cache, 0xffffffff81000000, 0, &number, &nr));
	assert_false(line_cache_find_names(cache, 0x40, numbers, &nr));
	assert_false(line_cache_find_names(cache, 0x41, numbers, &nr));
	assert_false(line_cache_knows(cache, 0x40, true, false));
	assert_true(line_cache_knows(cache, 0x40, false, true));
	line_cache_free(cache);
}

static void test_later_runs_add_to_it(void **state)
{
	static const char *const one[] = {"app::run"};

	(void)state;
	struct line_cache *cache = loaded(old_file, 0);
	line_cache_add_names(cache, 0x40, one, 1);
	line_cache_add_line(cache, 0x40, 1, "/src/main.cc", 1);
	line_cache_add_line(cache, 0x1000, 0, "/src/sort.h", 12); /* it is known */
	line_cache_add_line(cache, 0x2000, 3, "/src/main.cc", 1); /* and here the frames before it are not */
	store(cache);
	cache = loaded(old_file, 0);
	assert_names(cache, 0x40, 1, one);
	assert_line(cache, 0x40, 0, "/src/run.cc", 7);
	assert_line(cache, 0x40, 1, "/src/main.cc", 1);
	assert_names(cache, 0x1000, 2, two);
	assert_line(cache, 0x1000, 1, "/src/run.cc", 34);
	assert_false(line_cache_knows(cache, 0x2000, false, false));
	assert_int_equal(line_cache_nr_texts(cache), 5);
	line_cache_free(cache);
}

/* New answers without a new text. */
static void test_addresses_without_text_are_added(void **state)
{
	(void)state;
	struct line_cache *cache = loaded(old_file, 0);
	line_cache_add_names(cache, 0x50, NULL, 0);
	store(cache);
	cache = loaded(old_file, 0);
	assert_names(cache, 0x50, 0, NULL);
	assert_names(cache, 0x1000, 2, two);
	line_cache_free(cache);
}

static void test_thousands_of_addresses(void **state)
{
	enum { ADDRESSES = 5000 };
	const uint64_t step = 0x123457;

	(void)state;
	struct line_cache *cache = cache_of(old_file, LINE_CACHE_LINKED);
	for (unsigned i = ADDRESSES; i-- > 0;) {
		line_cache_add_names(cache, i * step, two, i % 3);
		line_cache_add_line(cache, i * step, 0, i % 2 ? two[0] : NULL, i);
	}
	store(cache);
	cache = loaded(old_file, LINE_CACHE_LINKED);
	for (unsigned i = 0; i < ADDRESSES; i++) {
		assert_names(cache, i * step, i % 3, two);
		assert_line(cache, i * step, 0, i % 2 ? two[0] : NULL, i);
	}
	line_cache_free(cache);
}

static void test_other_files_and_flags_have_none(void **state)
{
	const unsigned flags[] = {LINE_CACHE_MANGLED, LINE_CACHE_MODULE, 0};
	const char *const files[] = {old_file, old_file, "other"};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct line_cache *cache = loaded(files[i], flags[i]);
		assert_false(knows_any(cache));
		line_cache_free(cache);
	}
	/* The object has another build-id, or has none any longer. */
	struct line_cache *cache = line_cache_new(0, &(struct elf_id){.len = 0});
	AUTO_FD int fd = open(path_of(old_file), O_RDONLY);
	line_cache_note_file(cache, LINE_CACHE_DEBUG, fd);
	line_cache_load(cache);
	assert_false(knows_any(cache));
	line_cache_free(cache);
}

static void test_files_changed_just_now_are_not_kept(void **state)
{
	(void)state;
	put_file("young", "debug information");
	struct line_cache *cache = cache_of("young", 0);
	fill(cache);
	store(cache);
	cache = loaded("young", 0);
	assert_false(knows_any(cache));
	line_cache_free(cache);
}

/* One that was changed while it was read, and one that an object was replaced by. */
static void test_changed_files_are_not_kept(void **state)
{
	(void)state;
	struct line_cache *cache = cache_of("other", 0);
	AUTO_FD int fd = open(path_of(old_file), O_RDONLY);
	fill(cache);
	line_cache_note_file(cache, LINE_CACHE_DEBUG, fd);
	store(cache);
	cache = loaded("other", 0);
	assert_false(knows_any(cache));
	line_cache_free(cache);
}

static void test_little_is_not_kept(void **state)
{
	(void)state;
	struct line_cache *cache = cache_of("other", 0);
	line_cache_spend(cache, 1000);
	fill(cache);
	assert_false(line_cache_wants_more(cache));
	line_cache_store(cache);
	line_cache_free(cache);
	cache = loaded("other", 0);
	assert_false(knows_any(cache));
	for (unsigned i = 0; i < 300; i++)
		line_cache_spend(cache, 1000);
	assert_true(line_cache_wants_more(cache));
	line_cache_free(cache);
}

/* Of the only file in the cache: a name in it. Returns the number of files. */
static unsigned list(char ret[256])
{
	AUTO_FD int dir_fd = cache_directory_open(false);
	AUTO_DIR DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;
	unsigned nr = 0;

	assert_non_null(dir);
	dir_fd = -1;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && ++nr)
			snprintf(ret, 256, "%s", entry->d_name);
	return nr;
}

static void remove_files(void)
{
	char name[256];

	while (list(name)) {
		AUTO_FD int dir_fd = cache_directory_open(false);
		assert_int_equal(unlinkat(dir_fd, name, 0), 0);
	}
}

static void make_one(char ret_name[256])
{
	remove_files();
	struct line_cache *cache = cache_of(old_file, 0);
	fill(cache);
	store(cache);
	assert_int_equal(list(ret_name), 1);
	cache = loaded(old_file, 0);
	assert_true(knows_any(cache));
	line_cache_free(cache);
}

static void assert_unused(void)
{
	struct line_cache *cache = loaded(old_file, 0);

	assert_false(knows_any(cache));
	line_cache_free(cache);
}

static void test_files_of_others_are_not_used(void **state)
{
	char name[256];

	(void)state;
	make_one(name);
	AUTO_FD int dir_fd = cache_directory_open(false);
	assert_int_equal(fchmodat(dir_fd, name, 0620, 0), 0);
	assert_unused();
	assert_int_equal(fchmodat(dir_fd, name, 0600, 0), 0);
	assert_int_equal(renameat(dir_fd, name, dir_fd, "elsewhere"), 0);
	assert_int_equal(symlinkat("elsewhere", dir_fd, name), 0);
	assert_unused();
	unlinkat(dir_fd, name, 0);
	assert_int_equal(mkfifoat(dir_fd, name, 0600), 0);
	assert_unused();
	unlinkat(dir_fd, name, 0);
	unlinkat(dir_fd, "elsewhere", 0);
	if (geteuid() == 0) {
		make_one(name);
		assert_int_equal(fchownat(dir_fd, name, 1, 1, 0), 0);
		assert_unused();
		unlinkat(dir_fd, name, 0);
	}
}

static void test_directories_of_others_are_not_used(void **state)
{
	static const char *const names[] = {"", "millrace", "millrace/lines"};
	char name[256], moved[256];
	struct stat status;

	(void)state;
	make_one(name);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(stat(path_of(names[i]), &status), 0);
		assert_int_equal(status.st_mode & 0777, 0700);
		chmod(path_of(names[i]), 0702);
		assert_int_equal(cache_directory_open(true), -EPERM);
		chmod(path_of(names[i]), 0700);
		if (!i)
			continue;
		snprintf(moved, sizeof(moved), "%s/moved", root);
		assert_int_equal(rename(path_of(names[i]), moved), 0);
		assert_int_equal(symlink(moved, path_of(names[i])), 0);
		assert_true(cache_directory_open(true) < 0);
		unlink(path_of(names[i]));
		assert_int_equal(rename(moved, path_of(names[i])), 0);
	}
	/* HOME, which sudo(8) may leave as it was. */
	if (geteuid() == 0) {
		assert_int_equal(chown(root, 1, 1), 0);
		assert_int_equal(cache_directory_open(true), -EPERM);
		assert_int_equal(chown(root, 0, 0), 0);
	}
	AUTO_FD int fd = cache_directory_open(false);
	assert_true(fd >= 0);
}

static void test_places(void **state)
{
	struct stat status;

	(void)state;
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", root, 1);
	assert_int_equal(cache_directory_open(false), -ENOENT);
	AUTO_FD int fd = cache_directory_open(true);
	assert_true(fd >= 0);
	assert_int_equal(stat(path_of(".cache/millrace/lines"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	setenv("XDG_CACHE_HOME", "relative", 1);
	AUTO_FD int same = cache_directory_open(false);
	assert_true(same >= 0);
	unsetenv("HOME");
	unsetenv("XDG_CACHE_HOME");
	assert_true(cache_directory_open(true) < 0);
	setenv("HOME", "/nonexistent", 1);
	assert_true(cache_directory_open(true) < 0);
	rmdir(path_of(".cache/millrace/lines"));
	rmdir(path_of(".cache/millrace"));
	rmdir(path_of(".cache"));
	setenv("XDG_CACHE_HOME", root, 1);
}

static void read_one(const char *name, struct buf *ret)
{
	AUTO_FD int dir_fd = cache_directory_open(false);

	assert_int_equal(cache_file_read(dir_fd, name, 1 << 20, ret), 0);
}

/* As the format has it: behind the first 16 bytes. */
static void fix_checksum(struct buf *file)
{
	uint64_t hash = file->len - 16, word;

	for (size_t i = 16; i + 8 <= file->len; i += 8) {
		memcpy(&word, file->data + i, sizeof(word));
		hash = stable_hash_mix(hash, word);
	}
	memcpy(file->data + 8, &hash, sizeof(hash));
}

/* Reads all that is there: a sanitizer sees what is outside. */
static void read_all(const struct line_cache *cache)
{
	static const uint64_t addresses[] = {0x40, 0x1000, 0xffffffff81000000, 0, UINT64_MAX};
	uint32_t numbers[LINE_CACHE_MOST_FRAMES], path;
	size_t bytes = 0;
	unsigned nr, line;

	for (uint32_t i = 0; i < line_cache_nr_texts(cache); i++)
		bytes += strlen(line_cache_text(cache, i));
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned frame = 0; frame <= LINE_CACHE_MOST_FRAMES; frame++)
			if (line_cache_find_line(cache, addresses[i], frame, &path, &line))
				assert_true(path == LINE_CACHE_NO_TEXT || path < line_cache_nr_texts(cache));
		if (!line_cache_find_names(cache, addresses[i], numbers, &nr))
			continue;
		assert_true(nr <= LINE_CACHE_MOST_FRAMES);
		for (unsigned k = 0; k < nr; k++)
			assert_true(numbers[k] < line_cache_nr_texts(cache));
	}
	assert_true(bytes < 1 << 20);
}

/* Memory of its own for each, so that a sanitizer sees its end. true: it was taken. */
static bool take(const struct buf *file, size_t len)
{
	AUTO_FREE uint8_t *copy = malloc(len ? len : 1);
	struct line_cache *cache = line_cache_new(0, &build_id);

	memcpy(copy, file->data, len);
	const bool taken = line_cache_take(cache, (struct span){copy, len});
	if (taken)
		read_all(cache);
	line_cache_free(cache);
	return taken;
}

static void test_damaged_files(void **state)
{
	static const uint8_t values[] = {0, 1, 0x20, 0x7f, 0x80, 0xff};
	AUTO_BUF struct buf file = {0};
	char name[256];

	(void)state;
	make_one(name);
	read_one(name, &file);
	assert_true(take(&file, file.len));
	for (size_t len = 0; len < file.len; len++)
		assert_false(take(&file, len));
	for (size_t i = 0; i < file.len; i++) {
		const uint8_t before = file.data[i];
		for (unsigned k = 0; k < sizeof(values); k++) {
			file.data[i] = values[k];
			if (i >= 8 && values[k] != before) /* the checksum does not count what is before it */
				assert_false(take(&file, file.len));
			fix_checksum(&file);
			take(&file, file.len);
			file.data[i] = before;
			fix_checksum(&file);
		}
	}
	srand(1);
	for (unsigned nr = 0; nr < 20000; nr++) {
		AUTO_BUF struct buf other = {0};
		buf_put(&other, file.data, file.len);
		for (unsigned k = 0; k < 1 + nr % 4; k++)
			other.data[16 + (size_t)rand() % (file.len - 16)] ^= (uint8_t)(1 << rand() % 8);
		fix_checksum(&other);
		take(&other, other.len);
	}
}

/* Those of a file that others write to, or of a disk that lost its power. */
static void test_damaged_files_are_replaced(void **state)
{
	char name[256];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		make_one(name);
		AUTO_FD int dir_fd = cache_directory_open(false);
		AUTO_FD int fd = openat(dir_fd, name, O_WRONLY);
		struct stat status;
		assert_int_equal(fstat(fd, &status), 0);
		if (i == 0)
			assert_int_equal(fd_pwrite(fd, "\xff", 1, (uint64_t)status.st_size - 2), 0);
		else
			assert_int_equal(ftruncate(fd, i == 1 ? status.st_size / 2 : 0), 0);
		assert_unused();
		struct line_cache *cache = loaded(old_file, 0);
		fill(cache);
		store(cache);
		cache = loaded(old_file, 0);
		assert_true(knows_any(cache));
		line_cache_free(cache);
	}
}

static void test_room(void **state)
{
	static const char big[1 << 16];
	AUTO_FD int dir_fd = cache_directory_open(true);
	char name[256];

	(void)state;
	remove_files();
	/* Files with holes: they count as long as they are. */
	for (unsigned i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%u.0", i);
		AUTO_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT, 0600);
		const struct timespec times[] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + (i ^ 1)}};
		assert_int_equal(ftruncate(fd, CACHE_FILE_MOST_BYTES), 0);
		assert_int_equal(futimens(fd, times), 0);
	}
	assert_int_equal(cache_file_write(dir_fd, "new", (struct span){big, sizeof(big)}), 0);
	assert_int_equal(faccessat(dir_fd, "1.0", F_OK, 0), -1); /* the oldest */
	assert_int_equal(faccessat(dir_fd, "0.0", F_OK, 0), 0);
	assert_int_equal(faccessat(dir_fd, "3.0", F_OK, 0), 0);
	assert_int_equal(faccessat(dir_fd, "new", F_OK, 0), 0);
	/* What is too large is not read, and takes the place of nothing. */
	AUTO_BUF struct buf read = {0};
	assert_int_equal(cache_file_read(dir_fd, "0.0", CACHE_FILE_MOST_BYTES - 1, &read), -EFBIG);
	assert_int_equal(cache_file_write(dir_fd, "new", (struct span){big, CACHE_FILE_MOST_BYTES + 1}), -EFBIG);
	assert_int_equal(faccessat(dir_fd, "new", F_OK, 0), -1);
	remove_files();
}

static int set_up(void **state)
{
	(void)state;
	static const char *const files[] = {"object", old_file, "other"};

	if (!mkdtemp(root))
		return -1;
	for (unsigned i = 0; i < 3; i++)
		put_file(files[i], "debug information");
	/* No call sets st_ctim. */
	nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL);
	return setenv("XDG_CACHE_HOME", root, 1);
}

static int tear_down(void **state)
{
	(void)state;
	remove_files();
	static const char *const files[] = {"object", old_file, "other", "young"};
	for (unsigned i = 0; i < 4; i++)
		unlink(path_of(files[i]));
	rmdir(path_of("millrace/lines"));
	rmdir(path_of("millrace"));
	return rmdir(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_come_back),
		cmocka_unit_test(test_later_runs_add_to_it),
		cmocka_unit_test(test_addresses_without_text_are_added),
		cmocka_unit_test(test_thousands_of_addresses),
		cmocka_unit_test(test_other_files_and_flags_have_none),
		cmocka_unit_test(test_files_changed_just_now_are_not_kept),
		cmocka_unit_test(test_changed_files_are_not_kept),
		cmocka_unit_test(test_little_is_not_kept),
		cmocka_unit_test(test_files_of_others_are_not_used),
		cmocka_unit_test(test_directories_of_others_are_not_used),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_damaged_files),
		cmocka_unit_test(test_damaged_files_are_replaced),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
