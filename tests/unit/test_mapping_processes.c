/* SPDX-License-Identifier: MIT */
/* Deleted files are found in the processes that have mapped them, at a cost that does not grow with their product. */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "record/build_ids/mapping_processes.h"
#include "tasks/task_event.h"

enum { NR = 2000, BYTES = 4096, NO_PROCESS = 0x7ffffff0 };

struct mapped_files {
	void *maps[NR];
	struct object_mapping mapped[NR];
	struct map_history history;
};

static void put_map(struct map_history *history, uint32_t pid, const struct file_id *file, unsigned nr)
{
	char name[32];
	int len = snprintf(name, sizeof(name), "/no such directory/%u", nr);
	const struct task_event map = {.type = PERF_RECORD_MMAP2,
				       .misc = PERF_RECORD_MISC_USER,
				       .pid = pid,
				       .tid = pid,
				       .start = (uint64_t)(nr + 1) * BYTES,
				       .len = BYTES,
				       .id.file = *file,
				       .prot = PROT_EXEC,
				       .name = {name, (size_t)len}};

	assert_int_equal(map_history_add(history, &map, 0), 0);
}

/* Files without a name that this process has mapped. */
static void map_files(struct mapped_files *files)
{
	for (unsigned i = 0; i < NR; i++) {
		struct stat status;
		int fd = memfd_create("mapped", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, &i, sizeof(i), 0), sizeof(i));
		assert_int_equal(fstat(fd, &status), 0);
		files->maps[i] = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
		assert_ptr_not_equal(files->maps[i], MAP_FAILED);
		close(fd);
		files->mapped[i] =
			(struct object_mapping){.file = {major(status.st_dev), minor(status.st_dev), status.st_ino, 0}};
		put_map(&files->history, (uint32_t)getpid(), &files->mapped[i].file, i);
	}
}

static int setup(void **state)
{
	static struct mapped_files files;

	map_files(&files);
	*state = &files;
	return 0;
}

static int teardown(void **state)
{
	struct mapped_files *files = *state;

	for (unsigned i = 0; i < NR; i++)
		munmap(files->maps[i], BYTES);
	map_history_fini(&files->history);
	return 0;
}

/* The maps of a process are read once, and not once for each object. */
static void test_many_deleted_files(void **state)
{
	struct mapped_files *files = *state;
	struct mapping_processes list = {0};
	AUTO_BUF struct buf maps = {0};
	unsigned nr_opened = 0;

	assert_int_equal(fd_slurp("/proc/self/maps", SIZE_MAX, &maps), 0);
	for (unsigned i = 0; i < NR; i++) {
		unsigned number;
		int fd = mapping_processes_open(&list, &files->history, i, &files->mapped[i]);
		if (fd < 0) {
			assert_int_equal(fd, -ENOENT);
			continue;
		}
		assert_int_equal(pread(fd, &number, sizeof(number), 0), sizeof(number));
		assert_int_equal(number, i);
		close(fd);
		nr_opened++;
	}
	assert_true(list.maps_bytes > 0);
	assert_true(list.maps_bytes <= 2 * maps.len);
	mapping_processes_fini(&list);
	if (!nr_opened)
		skip(); /* CAP_SYS_ADMIN is needed */
	assert_int_equal(nr_opened, NR);
}

/* Also behind processes that have ended; but not behind as many as were tried for all objects. */
static void test_processes_that_have_ended(void **state)
{
	struct mapped_files *files = *state;
	struct map_history history = {0};
	struct mapping_processes list = {0};
	const uint32_t us = (uint32_t)getpid();

	/* the first one in more processes than are tried; the second one in as many, of which the last one lives */
	for (uint32_t i = 0; i < MAPPING_PROCESSES_MAX; i++)
		put_map(&history, NO_PROCESS - i, &files->mapped[0].file, 0);
	put_map(&history, us, &files->mapped[0].file, 0);
	for (uint32_t i = 0; i < 2 * (MAPPING_PROCESSES_MAX - 1); i++) /* each of them twice */
		put_map(&history, NO_PROCESS - i / 2, &files->mapped[1].file, 1);
	put_map(&history, us, &files->mapped[1].file, 1);
	assert_int_equal(mapping_processes_open(&list, &history, 0, &files->mapped[0]), -ENOENT);
	assert_int_equal(list.nr_failed, MAPPING_PROCESSES_MAX);
	int fd = mapping_processes_open(&list, &history, 1, &files->mapped[1]);
	const bool allowed = fd >= 0;
	if (allowed)
		close(fd);
	assert_int_equal(list.nr_failed, 2 * MAPPING_PROCESSES_MAX - allowed);
	while (list.nr_failed < MAPPING_FAILED_MAX)
		assert_int_equal(mapping_processes_open(&list, &history, 0, &files->mapped[0]), -ENOENT);
	assert_int_equal(mapping_processes_open(&list, &history, 1, &files->mapped[1]), -ENOENT);
	assert_int_equal(list.nr_failed, MAPPING_FAILED_MAX);
	mapping_processes_fini(&list);
	map_history_fini(&history);
	if (!allowed)
		skip();
}

/* Files of processes that are read in turns are found until so many bytes of maps were read. */
static void test_bytes_of_maps(void **state)
{
	struct mapped_files *files = *state;
	struct mapping_processes list = {.maps_bytes = MAPPING_MAPS_MAX_BYTES};

	assert_int_equal(mapping_processes_open(&list, &files->history, 0, &files->mapped[0]), -ENOENT);
	assert_int_equal(list.maps_bytes, MAPPING_MAPS_MAX_BYTES);
	assert_int_equal(list.nr_failed, 1);
	mapping_processes_fini(&list);
	/* What is left is not read again for each object. */
	list.maps_bytes = MAPPING_MAPS_MAX_BYTES - 1;
	assert_int_equal(mapping_processes_open(&list, &files->history, 0, &files->mapped[0]), -ENOENT);
	assert_int_equal(list.maps_bytes, MAPPING_MAPS_MAX_BYTES);
	mapping_processes_fini(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_deleted_files),
		cmocka_unit_test(test_processes_that_have_ended),
		cmocka_unit_test(test_bytes_of_maps),
	};

	return cmocka_run_group_tests_name("mapping_processes", tests, setup, teardown);
}
