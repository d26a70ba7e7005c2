/* SPDX-License-Identifier: MIT */
/* The writers direct and auto: what they write where, and which way. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/writer.h"

enum { PAGE = 4096, LARGE = 512 << 10, LARGER = (5 << 20) / 4 /* than what is copied at once */ };

static struct {
	unsigned nr_direct, nr_cached;
	unsigned cached_ms,
		direct_sleep_ms; /* CPU time of a large write through the cache; a disk that takes its time */
	bool refuse;             /* -EINVAL of direct writes, as of file systems that find out late */
	unsigned nr_not_ready;   /* so many of the next writes fail with that: */
	int not_ready;
} disk;

static void burn(unsigned ms)
{
	struct timespec now, begun;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < (long)ms);
}

/* Instead of libc's. */
ssize_t pwritev(int fd, const struct iovec *iov, int nr, off_t at)
{
	const int flags = fcntl(fd, F_GETFL); /* EBADF where there is no such file */
	bool direct = flags & O_DIRECT;
	size_t len = 0;

	if (flags < 0)
		return -1;
	for (int i = 0; i < nr; i++)
		len += iov[i].iov_len;
	if (direct && disk.refuse) {
		errno = EINVAL;
		return -1;
	}
	if (disk.nr_not_ready) {
		disk.nr_not_ready--;
		errno = disk.not_ready;
		return -1;
	}
	disk.nr_direct += direct;
	disk.nr_cached += !direct;
	if (!direct && len >= LARGE)
		burn(disk.cached_ms);
	if (direct)
		usleep(disk.direct_sleep_ms * 1000);
	return syscall(SYS_pwritev, fd, iov, nr, at, 0);
}

struct scene {
	int fd;
	uint64_t offset, given;
	struct writer *writer;
	uint8_t *memory; /* LARGER and two pages */
};

static void open_scene(struct scene *scene, const struct writer_ops *ops, uint64_t offset)
{
	char path[] = "/var/tmp/test_direct.XXXXXX";
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	disk = (typeof(disk)){0};
	*scene = (struct scene){.fd = mkstemp(path), .offset = offset};
	assert_true(scene->fd >= 0);
	unlink(path);
	scene->memory = mmap(NULL, LARGER + 2 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	assert_ptr_not_equal(scene->memory, MAP_FAILED);
	memset(scene->memory, 'h', offset);
	assert_int_equal(write(scene->fd, scene->memory, offset), offset);
	const struct writer_params params = {.fd = scene->fd, .path = "x", .offset = offset};
	if (writer_open(ops, &params, &scene->writer)) {
		close(scene->fd);
		skip(); /* a file system without direct writes */
	}
}

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 7 + at / 251);
}

/* `len` more bytes, from memory that lies as they will in the file, or not. */
static void give(struct scene *scene, size_t len, bool aligned)
{
	uint8_t *from = scene->memory + (aligned ? (scene->offset + scene->given) % PAGE : 8);

	for (size_t i = 0; i < len; i++)
		from[i] = byte_at(scene->given + i);
	const struct span span = {from, len};
	assert_int_equal(writer_queue(scene->writer, &span, 1), 0);
	scene->given += len;
	assert_int_equal(scene->writer->queued, scene->given);
}

static void assert_stored(const struct scene *scene, uint64_t len)
{
	uint8_t *bytes = malloc(len + 1);

	assert_true(scene->writer->stored >= len);
	assert_int_equal(pread(scene->fd, bytes, len, (off_t)scene->offset), len);
	for (uint64_t i = 0; i < len; i++)
		if (bytes[i] != byte_at(i))
			fail_msg("byte %llu", (unsigned long long)i);
	free(bytes);
}

static void close_scene(struct scene *scene)
{
	uint64_t stored, offset = scene->offset;
	uint8_t header[PAGE];

	assert_int_equal(writer_complete(scene->writer, WRITER_ALL), 0);
	assert_stored(scene, scene->given);
	assert_int_equal(writer_close(scene->writer, &stored), 0);
	assert_int_equal(stored, scene->given);
	assert_int_equal(lseek(scene->fd, 0, SEEK_END), offset + scene->given);
	assert_int_equal(pread(scene->fd, header, offset, 0), offset);
	for (uint64_t i = 0; i < offset; i++)
		assert_int_equal(header[i], 'h');
	close(scene->fd);
	munmap(scene->memory, LARGER + 2 * PAGE);
}

/* Pieces of all sizes, aligned and not, at each place of a page: each byte stands where it should. */
static void pieces_of_all_sizes(void **state)
{
	static const size_t sizes[] = {8, 100,   PAGE - 8, PAGE, PAGE + 8,  3 * PAGE + 16, 1,
				       7, 65536, LARGE,    24,   LARGE - 8, LARGER};
	static const uint64_t offsets[] = {0, 8, 1000, PAGE - 8};

	(void)state;
	for (size_t o = 0; o < sizeof(offsets) / sizeof(*offsets); o++) {
		for (unsigned which = 0; which < 4; which++) {
			struct scene scene;
			open_scene(&scene, which % 2 ? &writer_auto : &writer_direct, offsets[o]);
			for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
				give(&scene, sizes[i], which / 2 || i % 3);
				assert_int_equal(writer_commit(scene.writer, i % 4 == 0), 0);
			}
			if (which % 2 == 0)
				assert_true(disk.nr_direct > 0);
			close_scene(&scene);
		}
	}
}

/* What ends in the middle of a page is there at the second commit, and the next write begins with that page again. */
static void what_is_old_is_committed(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_direct, 0);
	give(&scene, 5000, true);
	assert_int_equal(scene.writer->stored, PAGE);
	assert_int_equal(writer_commit(scene.writer, false), 0);
	assert_int_equal(scene.writer->stored, PAGE);
	assert_int_equal(writer_commit(scene.writer, false), 0);
	assert_int_equal(scene.writer->stored, 5000);
	assert_stored(&scene, 5000);
	assert_int_equal(disk.nr_cached, 1);
	assert_int_equal(writer_commit(scene.writer, true), 0);
	assert_int_equal(disk.nr_cached, 1); /* nothing is new */
	give(&scene, 10000, true);
	assert_int_equal(writer_commit(scene.writer, true), 0);
	assert_stored(&scene, 15000);
	close_scene(&scene);
}

/* A file system that takes O_DIRECT at open(2) and not at the write. */
static void refused_late(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_direct, 1000);
	disk.refuse = true;
	give(&scene, LARGE, true);
	give(&scene, 8, true);
	give(&scene, LARGE, false);
	assert_int_equal(disk.nr_direct, 0);
	assert_false(scene.writer->waits);
	close_scene(&scene);
}

/* The same, where a write is more than what is copied at once: the rest of it goes the other way, too. */
static void refused_in_the_middle(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_direct, 0);
	disk.refuse = true;
	give(&scene, LARGER, false);
	assert_int_equal(disk.nr_direct, 0);
	close_scene(&scene);
}

/* Storage that is not ready is asked again, but not for ever; signals are no reason to give up. */
static void what_is_not_ready_is_tried_again(void **state)
{
	enum { MORE_THAN_ANY_WAIT = 100000 };
	const struct span span = {"12345678", 8};
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.not_ready = EAGAIN;
	disk.nr_not_ready = 3;
	give(&scene, LARGE, true);
	assert_int_equal(disk.nr_not_ready, 0);
	disk.not_ready = EINTR;
	disk.nr_not_ready = MORE_THAN_ANY_WAIT;
	give(&scene, LARGE, true);
	assert_int_equal(disk.nr_not_ready, 0);
	assert_stored(&scene, 2 * LARGE);
	disk.not_ready = EAGAIN;
	disk.nr_not_ready = MORE_THAN_ANY_WAIT;
	assert_int_equal(writer_queue(scene.writer, &span, 1), -EIO);
	assert_in_range(disk.nr_not_ready, 1, MORE_THAN_ANY_WAIT - 1);
	assert_int_equal(scene.writer->stored, 2 * LARGE);
	assert_int_equal(writer_close(scene.writer, NULL), -EIO);
	close(scene.fd);
	munmap(scene.memory, LARGER + 2 * PAGE);
}

/* Who chose direct writes gets no other ones, and is told that they wait, whatever they cost. */
static void direct_writes_wait(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_direct, 0);
	assert_true(scene.writer->waits);
	for (unsigned i = 0; i < 40; i++) {
		give(&scene, LARGE, true);
		assert_true(scene.writer->waits);
	}
	assert_int_equal(disk.nr_cached, 0);
	close_scene(&scene);
}

/* auto: what small pieces cost says nothing about large ones. */
static void small_pieces_decide_nothing(void **state)
{
	enum { SMALL = 128 << 10 };
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	while (scene.given < 20 << 20) {
		give(&scene, SMALL, true);
		assert_false(scene.writer->waits);
	}
	assert_int_equal(disk.nr_direct, 0);
	close_scene(&scene);
}

/* auto: where the page cache is dear large pieces go past it, small ones never. */
static void the_cheaper_way_is_found(void **state)
{
	(void)state;
	for (unsigned dear = 0; dear < 2; dear++) {
		struct scene scene;
		open_scene(&scene, &writer_auto, 0);
		disk.cached_ms = dear ? 3 : 0;
		if (!dear) /* the test burns no time in direct writes otherwise, and the machine may take any */
			disk.direct_sleep_ms = 0;
		for (unsigned i = 0; i < 40; i++)
			give(&scene, LARGE, true);
		if (dear) {
			assert_true(scene.writer->waits);
			assert_true(disk.nr_direct >= 16);
			unsigned before = disk.nr_direct;
			give(&scene, 1000, true);
			assert_int_equal(disk.nr_direct, before);
		} else {
			assert_true(disk.nr_direct >= 15); /* it was tried */
		}
		close_scene(&scene);
	}
}

/* Memory runs short at the start: the way that is dear is left at once. */
static void the_other_way_is_tried_early(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ms = 3;
	scene.writer->memory_is_short = true;
	give(&scene, LARGE, true);
	scene.writer->memory_is_short = false;
	for (unsigned i = 0; i < 20; i++)
		give(&scene, LARGE, true);
	assert_int_equal(disk.nr_cached, 1);
	assert_true(scene.writer->waits);
	close_scene(&scene);
}

/* Storage that is slow, and memory that runs short: the page cache has more of it. */
static void the_page_cache_takes_what_waits(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ms = 3;
	for (unsigned i = 0; i < 40; i++)
		give(&scene, LARGE, true);
	assert_true(scene.writer->waits);
	disk.direct_sleep_ms = 50;
	give(&scene, LARGE, true); /* is seen to be slow */
	unsigned nr_direct = disk.nr_direct;
	scene.writer->memory_is_short = true;
	for (unsigned i = 0; i < 4; i++)
		give(&scene, LARGE, true);
	assert_int_equal(disk.nr_direct, nr_direct);
	scene.writer->memory_is_short = false;
	give(&scene, LARGE, true);
	assert_int_equal(disk.nr_direct, nr_direct + 1);
	close_scene(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_of_all_sizes),
		cmocka_unit_test(what_is_old_is_committed),
		cmocka_unit_test(refused_late),
		cmocka_unit_test(refused_in_the_middle),
		cmocka_unit_test(what_is_not_ready_is_tried_again),
		cmocka_unit_test(direct_writes_wait),
		cmocka_unit_test(small_pieces_decide_nothing),
		cmocka_unit_test(the_cheaper_way_is_found),
		cmocka_unit_test(the_other_way_is_tried_early),
		cmocka_unit_test(the_page_cache_takes_what_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
