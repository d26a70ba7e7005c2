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

enum {
	PAGE = 4096,
	LARGE = 512 << 10,
	LARGER = (5 << 20) / 4,       /* than what is copied at once */
	NR_SHORT = (2 << 20) / LARGE, /* so many are written before the other way is first tried, and of it */
	NR_TRY = (8 << 20) / LARGE,   /* and again, where that left it open */
	LEAST_DIRECT = 256 << 10,     /* what is smaller is not judged */
	MS = 1000000,                 /* in ns */
};

/* Times pass here when something is written, and not otherwise. */
static struct {
	unsigned nr_direct, nr_cached;
	size_t direct_bytes, cached_bytes;
	const void *direct_from; /* the memory of the last direct write */
	size_t mapped_bytes;
	off_t allocated_to, cut_to;
	uint64_t cached_ns, direct_ns; /* CPU time of a large write each way */
	uint64_t direct_wait_ns;       /* a disk that takes its time */
	uint64_t cpu_ns, now_ns;
	bool refuse;           /* -EINVAL of direct writes, as of file systems that find out late */
	unsigned nr_not_ready; /* so many of the next writes fail with that: */
	int not_ready;         /* 0: they write nothing, which is no error of theirs */
	size_t most_bytes;     /* that are written at once; 0: all */
	bool no_memory;        /* to map */
} disk;

/* Instead of libc's. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	uint64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? disk.cpu_ns : disk.now_ns;

	if (clock != CLOCK_THREAD_CPUTIME_ID && clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	*ret = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	return 0;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (disk.no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	disk.mapped_bytes += bytes;
	/* What is behind it cannot be used. */
	long memory = syscall(SYS_mmap, at, bytes + PAGE, PROT_NONE, flags, fd, offset);
	syscall(SYS_mprotect, memory, bytes, protection);
	return (void *)memory;
}

int munmap(void *at, size_t bytes)
{
	disk.mapped_bytes -= bytes;
	return (int)syscall(SYS_munmap, at, bytes + PAGE);
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
	disk.allocated_to = at + len;
	return (int)syscall(SYS_fallocate, fd, mode, at, len);
}

int ftruncate(int fd, off_t bytes)
{
	disk.cut_to = bytes;
	return (int)syscall(SYS_ftruncate, fd, bytes);
}

int usleep(useconds_t us)
{
	disk.now_ns += us * UINT64_C(1000);
	return 0;
}

static void pass(uint64_t cpu_ns, uint64_t wait_ns)
{
	disk.cpu_ns += cpu_ns;
	disk.now_ns += cpu_ns + wait_ns;
}

ssize_t pwritev(int fd, const struct iovec *iov, int nr, off_t at)
{
	const int flags = fcntl(fd, F_GETFL); /* EBADF where there is no such file */
	bool direct = flags & O_DIRECT;
	size_t len = 0;
	struct iovec part[2];

	if (flags < 0)
		return -1;
	assert_in_range(nr, 1, 2);
	for (int i = 0; i < nr; i++) {
		part[i] = iov[i];
		if (disk.most_bytes && part[i].iov_len > disk.most_bytes - len)
			part[i].iov_len = disk.most_bytes - len;
		len += part[i].iov_len;
	}
	if (direct && disk.refuse) {
		errno = EINVAL;
		return -1;
	}
	if (disk.nr_not_ready) {
		disk.nr_not_ready--;
		errno = disk.not_ready;
		return disk.not_ready ? -1 : 0;
	}
	*(direct ? &disk.nr_direct : &disk.nr_cached) += 1;
	*(direct ? &disk.direct_bytes : &disk.cached_bytes) += len;
	if (direct)
		disk.direct_from = iov[nr - 1].iov_base;
	if (direct)
		pass(disk.direct_ns, disk.direct_wait_ns);
	else if (len >= LARGE)
		pass(disk.cached_ns, 0);
	return syscall(SYS_pwritev, fd, part, nr, at, 0);
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
	int err = writer_open(ops, &params, &scene->writer);
	if (err == -EINVAL && ops == &writer_direct) {
		close(scene->fd);
		skip(); /* a file system without direct writes */
	}
	assert_int_equal(err, 0);
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
	if (disk.allocated_to > (off_t)(offset + scene->given)) /* what was not needed is given back */
		assert_int_equal(disk.cut_to, offset + scene->given);
	assert_int_equal(lseek(scene->fd, 0, SEEK_END), offset + scene->given);
	assert_int_equal(pread(scene->fd, header, offset, 0), offset);
	for (uint64_t i = 0; i < offset; i++)
		assert_int_equal(header[i], 'h');
	close(scene->fd);
	munmap(scene->memory, LARGER + 2 * PAGE);
	assert_int_equal(disk.mapped_bytes, 0);
}

/* Pieces of all sizes, aligned and not, at each place of a page: each byte stands where it should. */
static void pieces_of_all_sizes(void **state)
{
	static const size_t sizes[] = {8,  100,       PAGE - 8, PAGE, PAGE + 8, 3 * PAGE + 16, 1, 7, 65536, LARGE,
				       24, LARGE - 8, LARGER,   9,    10,       1 << 20};
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

/* Of the first page, which is shared with what stands before, the rest goes through the cache, and no more than that.
 */
static void the_first_page_is_shared(void **state)
{
	enum { BEFORE = 1000 };
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_direct, BEFORE);
	give(&scene, 4 * PAGE, true);
	assert_int_equal(disk.cached_bytes, PAGE - BEFORE);
	assert_int_equal(disk.direct_bytes, 3 * PAGE);
	assert_ptr_equal(disk.direct_from, scene.memory + PAGE); /* it was not copied */
	give(&scene, 4 * PAGE, false);
	assert_int_equal(disk.direct_bytes, 7 * PAGE);
	assert_false(disk.direct_from >= (void *)scene.memory && disk.direct_from < (void *)(scene.memory + LARGER));
	close_scene(&scene);
	/* Less than that page: nothing is left to be stored. */
	open_scene(&scene, &writer_direct, BEFORE);
	give(&scene, 100, true);
	assert_int_equal(writer_commit(scene.writer, true), 0);
	assert_int_equal(disk.nr_cached, 1);
	close_scene(&scene);
	/* A little more than that page is kept for more to come. */
	open_scene(&scene, &writer_direct, BEFORE);
	give(&scene, PAGE, true);
	assert_int_equal(disk.cached_bytes, PAGE - BEFORE);
	assert_int_equal(scene.writer->stored, PAGE - BEFORE);
	close_scene(&scene);
	/* An error there is one of the whole. */
	open_scene(&scene, &writer_direct, BEFORE);
	disk.not_ready = ENOSPC;
	disk.nr_not_ready = 1;
	assert_int_equal(writer_queue(scene.writer, &(struct span){scene.memory, 4 * PAGE}, 1), -ENOSPC);
	assert_int_equal(scene.writer->queued, 0);
	assert_int_equal(disk.direct_bytes, 0);
	assert_int_equal(writer_close(scene.writer, NULL), -ENOSPC);
	close(scene.fd);
	munmap(scene.memory, LARGER + 2 * PAGE);
}

/* Where a write takes a part of what it is given the rest follows. */
static void writes_take_a_part(void **state)
{
	static const struct {
		const struct writer_ops *ops;
		size_t most_bytes;
	} cases[] = {{&writer_direct, PAGE}, {&writer_direct, 3 * PAGE}, {&writer_auto, 1000}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene scene;
		open_scene(&scene, cases[i].ops, 1000);
		disk.most_bytes = cases[i].most_bytes;
		give(&scene, 64 * PAGE, true);
		give(&scene, 24, true);
		give(&scene, 64 * PAGE, false);
		close_scene(&scene);
	}
}

/* A direct write that fails, or writes nothing, is told, whether what was queued had to be copied or not, and is not
 * counted. */
static void a_direct_write_fails(void **state)
{
	(void)state;
	for (unsigned way = 0; way < 4; way++) {
		const bool copied = way % 2, nothing = way / 2;
		const int expected = nothing ? -EIO : -ENOSPC;
		struct scene scene;
		open_scene(&scene, &writer_direct, 0);
		give(&scene, PAGE, true);
		disk.not_ready = nothing ? 0 : ENOSPC;
		disk.nr_not_ready = 1;
		const struct span span = {scene.memory + (copied ? 8 : 0), 4 * PAGE};
		assert_int_equal(writer_queue(scene.writer, &span, 1), expected);
		assert_int_equal(scene.writer->queued, PAGE);
		assert_int_equal(scene.writer->stored, PAGE);
		assert_int_equal(writer_close(scene.writer, NULL), expected);
		close(scene.fd);
		munmap(scene.memory, LARGER + 2 * PAGE);
	}
}

/* What is left is written at the end, and may fail there. */
static void the_end_fails(void **state)
{
	struct scene scene;
	uint64_t stored;

	(void)state;
	open_scene(&scene, &writer_direct, 0);
	give(&scene, PAGE + 100, true);
	disk.not_ready = ENOSPC;
	disk.nr_not_ready = 1;
	assert_int_equal(writer_close(scene.writer, &stored), -ENOSPC);
	assert_int_equal(stored, PAGE);
	close(scene.fd);
	munmap(scene.memory, LARGER + 2 * PAGE);
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
	enum { MOST = 1000, MORE_THAN_ANY_WAIT = 100000 };
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	const struct span span = {scene.memory, LARGE};
	disk.not_ready = EAGAIN;
	disk.nr_not_ready = MOST; /* in a second */
	give(&scene, LARGE, true);
	assert_int_equal(disk.nr_not_ready, 0);
	assert_int_equal(disk.now_ns, MOST * MS);
	disk.not_ready = EINTR;
	disk.nr_not_ready = MORE_THAN_ANY_WAIT;
	give(&scene, LARGE, true);
	assert_int_equal(disk.nr_not_ready, 0);
	assert_stored(&scene, 2 * LARGE);
	disk.not_ready = EAGAIN;
	disk.nr_not_ready = MORE_THAN_ANY_WAIT;
	assert_int_equal(writer_queue(scene.writer, &span, 1), -EIO);
	assert_int_equal(disk.nr_not_ready, MORE_THAN_ANY_WAIT - MOST - 1);
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
	disk.not_ready = EINTR; /* is no refusal */
	disk.nr_not_ready = 3;
	give(&scene, LARGE, true);
	assert_true(scene.writer->waits);
	assert_int_equal(disk.nr_cached, 0);
	close_scene(&scene);
}

/* auto: what small pieces cost says nothing about large ones. */
static void small_pieces_decide_nothing(void **state)
{
	struct scene scene;
	unsigned nr_small = 0;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	for (; scene.given < 20 << 20; nr_small++) {
		give(&scene, LEAST_DIRECT - 8, true);
		assert_false(scene.writer->waits);
	}
	assert_int_equal(disk.nr_direct, 0);
	while (!scene.writer->waits) /* of which there is no more than before a first try */
		give(&scene, LEAST_DIRECT, true);
	assert_int_equal(disk.nr_cached, nr_small + (2 << 20) / LEAST_DIRECT);
	give(&scene, LEAST_DIRECT, true);
	assert_int_equal(disk.nr_direct, 1);
	close_scene(&scene);
}

/*
 * auto: what is very small is written at once until the first commit: the header of a file. From then on when there is
 * enough of it, at a commit, and before what is larger.
 */
static void very_small_pieces_are_gathered(void **state)
{
	enum { PIECE = 60 << 10, NR = 100, BYTES = 24 };
	struct scene scene;

	(void)state;
	for (int all = 0; all < 2; all++) {
		open_scene(&scene, &writer_auto, 1000);
		give(&scene, BYTES, false);
		assert_int_equal(disk.nr_cached, 1);
		assert_stored(&scene, scene.given);
		assert_int_equal(writer_commit(scene.writer, all), 0);
		disk.nr_cached = 0;
		for (unsigned i = 0; i < NR; i++)
			give(&scene, BYTES, false);
		assert_int_equal(writer_complete(scene.writer, WRITER_NOW), 0);
		assert_int_equal(disk.nr_cached, 0);
		assert_int_equal(scene.writer->stored, BYTES);
		for (unsigned i = 0; i < 2; i++) { /* the second has nothing to write */
			assert_int_equal(writer_commit(scene.writer, all), 0);
			assert_int_equal(disk.nr_cached, 1);
			assert_stored(&scene, scene.given);
		}
		for (unsigned i = 0; i < 3; i++)
			give(&scene, PIECE, false);
		assert_int_equal(disk.nr_cached, 2);
		assert_int_equal(scene.writer->stored, (NR + 1) * BYTES + 2 * PIECE);
		give(&scene, LARGE, true);
		assert_int_equal(disk.nr_cached, 4);
		assert_stored(&scene, scene.given);
		give(&scene, 2 * PIECE, false); /* not so small */
		assert_stored(&scene, scene.given);
		give(&scene, BYTES, false);
		assert_int_equal(disk.nr_cached, 5);
		close_scene(&scene);
		assert_int_equal(disk.nr_direct, 0);
	}
}

static void gathered_pieces_meet_a_full_disk(void **state)
{
	struct scene scene;
	uint64_t stored;

	(void)state;
	for (unsigned commits = 0; commits < 2; commits++) {
		open_scene(&scene, &writer_auto, 0);
		give(&scene, 100, false);
		assert_int_equal(writer_commit(scene.writer, true), 0);
		give(&scene, 100, false);
		disk.not_ready = ENOSPC;
		disk.nr_not_ready = 1;
		if (commits)
			assert_int_equal(writer_commit(scene.writer, true), -ENOSPC);
		assert_int_equal(writer_close(scene.writer, &stored), -ENOSPC);
		assert_int_equal(stored, 100);
		assert_int_equal(disk.nr_cached, 1);
		close(scene.fd);
		munmap(scene.memory, LARGER + 2 * PAGE);
	}
}

/* auto: where the page cache is dear large pieces go past it, small ones never. */
static void the_cheaper_way_is_found(void **state)
{
	(void)state;
	for (unsigned dear = 0; dear < 2; dear++) {
		struct scene scene;
		open_scene(&scene, &writer_auto, 0);
		disk.cached_ns = dear ? 3 * MS : 0;
		for (unsigned i = 0; i < NR_SHORT; i++) {
			assert_false(scene.writer->waits);
			give(&scene, LARGE, true);
		}
		assert_int_equal(disk.nr_direct, 0);
		for (unsigned i = 0; i < NR_SHORT; i++) { /* the other way is tried */
			assert_true(scene.writer->waits);
			give(&scene, LARGE, true);
		}
		assert_int_equal(disk.nr_direct, NR_SHORT);
		for (unsigned i = 0; i < 10 * NR_TRY; i++) {
			assert_int_equal(scene.writer->waits, dear);
			give(&scene, LARGE, true);
		}
		assert_int_equal(disk.nr_direct, dear ? NR_SHORT + 10 * NR_TRY : NR_SHORT);
		unsigned before = disk.nr_direct;
		give(&scene, 1000, true);
		assert_int_equal(disk.nr_direct, before);
		close_scene(&scene);
	}
}

/* Direct writes wait for the storage, which costs 20 us each, and are worth it when they are 15 % cheaper even so. */
static void what_is_hardly_cheaper_is_not_worth_it(void **state)
{
	enum { CACHED_NS = MS, WAKE_UP_NS = 20000, WORTH_NS = CACHED_NS / 100 * 85 - WAKE_UP_NS };

	(void)state;
	for (int more = -1; more <= 1; more += 2) {
		struct scene scene;
		open_scene(&scene, &writer_auto, 0);
		disk.cached_ns = CACHED_NS;
		disk.direct_ns = (uint64_t)(WORTH_NS + 100 * more);
		for (unsigned i = 0; i < 2 * NR_SHORT + NR_TRY; i++)
			give(&scene, LARGE, true);
		assert_int_equal(disk.nr_direct, NR_SHORT); /* that leaves it open */
		for (unsigned i = 0; i < NR_TRY; i++)
			give(&scene, LARGE, true);
		assert_int_equal(disk.nr_direct, NR_SHORT + NR_TRY);
		assert_int_equal(scene.writer->waits, more < 0);
		close_scene(&scene);
	}
}

/* A way that costs less than half is known after a short try, and only then. */
static void what_is_clear_is_known_early(void **state)
{
	enum { CACHED_NS = MS, WAKE_UP_NS = 20000, HALF_NS = CACHED_NS / 2 - WAKE_UP_NS };

	(void)state;
	for (int more = -1; more <= 1; more += 2) {
		struct scene scene;
		open_scene(&scene, &writer_auto, 0);
		disk.cached_ns = CACHED_NS;
		disk.direct_ns = (uint64_t)(HALF_NS + 100 * more);
		for (unsigned i = 0; i < 2 * NR_SHORT; i++)
			give(&scene, LARGE, true);
		assert_int_equal(scene.writer->waits, more < 0);
		close_scene(&scene);
	}
}

/* What has become dear is tried again after 512 MiB, and no longer than it takes to see that. */
static void a_dear_way_is_not_tried_for_long(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ns = 3 * MS;
	for (unsigned i = 0; i < 2 * NR_SHORT + (512 << 20) / LARGE + 2 * NR_TRY; i++)
		give(&scene, LARGE, true);
	assert_int_equal(disk.nr_cached, 2 * NR_SHORT);
	assert_true(scene.writer->waits);
	close_scene(&scene);
}

/* The cost of a byte counts: larger pieces that cost as much each are cheaper. */
static void pieces_of_two_sizes_are_compared(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ns = MS;     /* 2 ms for a MiB */
	disk.direct_ns = 2 * MS; /* 1.6 */
	for (unsigned i = 0; i < NR_SHORT; i++)
		give(&scene, LARGE, true);
	while (scene.writer->waits)
		give(&scene, LARGER, true);
	for (unsigned i = 0; i < NR_TRY; i++)
		give(&scene, LARGE, true);
	while (disk.direct_bytes < 12 << 20)
		give(&scene, LARGER, true);
	assert_true(scene.writer->waits);
	assert_int_equal(disk.nr_cached, NR_SHORT + NR_TRY);
	close_scene(&scene);
}

/* Memory runs short at the start: the way that is dear is left at once. */
static void the_other_way_is_tried_early(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ns = 3 * MS;
	scene.writer->memory_is_short = true;
	give(&scene, LARGE, true);
	scene.writer->memory_is_short = false;
	for (unsigned i = 0; i < 20; i++)
		give(&scene, LARGE, true);
	assert_int_equal(disk.nr_cached, 1);
	assert_true(scene.writer->waits);
	close_scene(&scene);
}

/* Later that says nothing: both ways are known. */
static void what_is_known_is_kept_while_memory_is_short(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ns = 3 * MS;
	for (unsigned i = 0; i < NR_SHORT + 2; i++)
		give(&scene, LARGE, true);
	scene.writer->memory_is_short = true;
	for (unsigned i = 2; i < NR_SHORT + 20; i++)
		give(&scene, LARGE, true);
	assert_int_equal(disk.nr_cached, NR_SHORT);
	assert_true(scene.writer->waits);
	close_scene(&scene);
}

/* Storage that is slow, and memory that runs short: the page cache has more of it. */
static void the_page_cache_takes_what_waits(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ns = 3 * MS;
	disk.direct_ns = MS;
	for (unsigned i = 0; i < 40; i++)
		give(&scene, LARGE, true);
	assert_true(scene.writer->waits);
	for (unsigned slow = 0; slow < 2; slow++) {
		disk.direct_wait_ns = 7 * MS + slow; /* more than 8 times its CPU time is slow */
		give(&scene, LARGE, true);
		unsigned nr_direct = disk.nr_direct;
		scene.writer->memory_is_short = true;
		for (unsigned i = 0; i < 4; i++)
			give(&scene, LARGE, true);
		assert_int_equal(disk.nr_direct, slow ? nr_direct : nr_direct + 4);
		scene.writer->memory_is_short = false;
		give(&scene, LARGE, true);
		assert_int_equal(disk.nr_direct, slow ? nr_direct + 1 : nr_direct + 5);
	}
	close_scene(&scene);
}

/* Storage that keeps direct writes waiting, but for less time than the page cache needs to take as much. */
static void direct_writes_that_wait_go_on_where_the_page_cache_is_slower(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene, &writer_auto, 0);
	disk.cached_ns = 3 * MS;
	disk.direct_ns = MS / 10;
	for (unsigned i = 0; i < 40; i++)
		give(&scene, LARGE, true);
	assert_true(scene.writer->waits);
	scene.writer->memory_is_short = true;
	for (unsigned slow = 0; slow < 2; slow++) {
		disk.direct_wait_ns = 3 * MS - MS / 10 + slow; /* 29 times its CPU time, of which 8 would be slow */
		unsigned nr_direct = disk.nr_direct;
		for (unsigned i = 0; i < 4; i++)
			give(&scene, LARGE, true);
		assert_int_equal(disk.nr_direct, nr_direct + (slow ? 1 : 4));
	}
	/* So do smaller ones, which say nothing about costs. */
	disk.direct_wait_ns = 0;
	scene.writer->memory_is_short = false;
	give(&scene, LARGE, true);
	scene.writer->memory_is_short = true;
	disk.direct_wait_ns = 100 * UINT64_C(1000000);
	unsigned nr_direct = disk.nr_direct;
	for (unsigned i = 0; i < 20; i++)
		give(&scene, LEAST_DIRECT / 2, true);
	assert_int_equal(disk.nr_direct, nr_direct + 1);
	close_scene(&scene);
}

/* Where direct writes cost a sixth, a sixth of what is judged is worth one; nothing that is very small is. */
static void smaller_pieces_go_the_cheaper_way(void **state)
{
	static const struct {
		uint64_t direct_ns; /* and 20 us for waking up */
		size_t largest_cached;
	} cases[] = {{MS - 20000, LEAST_DIRECT / 6 / PAGE * PAGE}, {0, (32 << 10) - PAGE}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene scene;
		open_scene(&scene, &writer_auto, 0);
		disk.cached_ns = 6 * MS;
		disk.direct_ns = cases[i].direct_ns;
		for (unsigned k = 0; k < 40; k++)
			give(&scene, LARGE, true);
		assert_true(scene.writer->waits);
		unsigned nr_direct = disk.nr_direct;
		give(&scene, cases[i].largest_cached, true);
		assert_int_equal(disk.nr_direct, nr_direct);
		give(&scene, cases[i].largest_cached + PAGE, true);
		assert_int_equal(disk.nr_direct, nr_direct + 1);
		close_scene(&scene);
	}
}

/* What cannot be opened says why, and leaves no descriptor open. */
static void what_cannot_be_opened(void **state)
{
	static const struct writer_ops *const both[] = {&writer_direct, &writer_auto};
	struct writer *writer;
	struct scene scene;
	int ends[2];

	(void)state;
	open_scene(&scene, &writer_direct, 0); /* such writes are possible here */
	close_scene(&scene);
	char path[] = "/var/tmp/test_direct.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	unlink(path);
	int next = dup(fd);
	close(next);
	for (unsigned i = 0; i < 2; i++) {
		const struct writer_params params = {.fd = fd, .path = "x"};
		disk.no_memory = true;
		assert_int_equal(writer_open(both[i], &params, &writer), -ENOMEM);
		disk.no_memory = false;
		int again = dup(fd);
		assert_int_equal(again, next);
		close(again);
	}
	close(fd);
	assert_int_equal(pipe(ends), 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct writer_params params = {.fd = ends[1], .path = "x"};
		assert_int_equal(writer_open(both[i], &params, &writer), -ESPIPE);
	}
	close(ends[0]);
	close(ends[1]);
	/* A file of /proc takes no direct writes: auto goes without. */
	fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
	const struct writer_params params = {.fd = fd, .path = "x"};
	assert_int_equal(writer_open(&writer_direct, &params, &writer), -EINVAL);
	assert_int_equal(writer_open(&writer_auto, &params, &writer), 0);
	assert_false(writer->waits);
	assert_int_equal(writer_close(writer, NULL), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_of_all_sizes),
		cmocka_unit_test(what_is_old_is_committed),
		cmocka_unit_test(the_first_page_is_shared),
		cmocka_unit_test(writes_take_a_part),
		cmocka_unit_test(a_direct_write_fails),
		cmocka_unit_test(the_end_fails),
		cmocka_unit_test(refused_late),
		cmocka_unit_test(refused_in_the_middle),
		cmocka_unit_test(what_is_not_ready_is_tried_again),
		cmocka_unit_test(direct_writes_wait),
		cmocka_unit_test(small_pieces_decide_nothing),
		cmocka_unit_test(very_small_pieces_are_gathered),
		cmocka_unit_test(gathered_pieces_meet_a_full_disk),
		cmocka_unit_test(the_cheaper_way_is_found),
		cmocka_unit_test(what_is_hardly_cheaper_is_not_worth_it),
		cmocka_unit_test(what_is_clear_is_known_early),
		cmocka_unit_test(a_dear_way_is_not_tried_for_long),
		cmocka_unit_test(pieces_of_two_sizes_are_compared),
		cmocka_unit_test(the_other_way_is_tried_early),
		cmocka_unit_test(what_is_known_is_kept_while_memory_is_short),
		cmocka_unit_test(the_page_cache_takes_what_waits),
		cmocka_unit_test(direct_writes_that_wait_go_on_where_the_page_cache_is_slower),
		cmocka_unit_test(smaller_pieces_go_the_cheaper_way),
		cmocka_unit_test(what_cannot_be_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
