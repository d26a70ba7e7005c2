/* SPDX-License-Identifier: MIT */
/* The direct engine on storage that is slow: whether the page cache helps is for who opens it to say. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/writer.h"

enum { BLOCK_BYTES = 4096, NR_BLOCKS = 8, NR_PIECES = 64, SLOW_US = 5000 };

static atomic_uint nr_direct, nr_cached;

/* Instead of libc's: a disk that takes its time. */
ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	bool direct = fcntl(fd, F_GETFL) & O_DIRECT;

	if (direct)
		usleep(SLOW_US);
	atomic_fetch_add(direct ? &nr_direct : &nr_cached, 1);
	return syscall(SYS_pwrite64, fd, bytes, len, at);
}

static void put_all(struct writer *writer)
{
	static uint8_t piece[BLOCK_BYTES];

	for (unsigned i = 0; i < NR_PIECES; i++) {
		for (size_t k = 0; k < sizeof(piece); k++)
			piece[k] = (uint8_t)(i + k);
		assert_int_equal(writer_put(writer, piece, sizeof(piece)), 0);
	}
}

static void assert_all_there(int fd)
{
	static uint8_t piece[BLOCK_BYTES];

	for (unsigned i = 0; i < NR_PIECES; i++) {
		assert_int_equal(pread(fd, piece, sizeof(piece), (off_t)i * BLOCK_BYTES), sizeof(piece));
		for (size_t k = 0; k < sizeof(piece); k++)
			assert_int_equal(piece[k], (uint8_t)(i + k));
	}
}

static void write_slowly(bool must_keep_up)
{
	char path[] = "/var/tmp/test_direct.XXXXXX";
	int fd = mkstemp(path);
	const struct writer_params params = {.fd = fd,
					     .path = path,
					     .nr_blocks = NR_BLOCKS,
					     .block_bytes = BLOCK_BYTES,
					     .must_keep_up = must_keep_up};
	struct writer *writer;
	uint64_t stored;

	assert_true(fd >= 0);
	unlink(path);
	atomic_store(&nr_direct, 0);
	atomic_store(&nr_cached, 0);
	if (writer_open(&writer_direct, &params, &writer)) {
		close(fd);
		skip(); /* a file system without direct writes */
	}
	put_all(writer);
	assert_int_equal(writer_close(writer, &stored), 0);
	assert_int_equal(stored, NR_PIECES * BLOCK_BYTES);
	assert_all_there(fd);
	close(fd);
	assert_int_equal(nr_direct + nr_cached, NR_PIECES);
}

static void no_other_thread_writes_by_default(void **state)
{
	(void)state;
	write_slowly(false);
	assert_int_equal(nr_cached, 0);
}

static void the_page_cache_takes_what_waits(void **state)
{
	(void)state;
	write_slowly(true);
	assert_true(nr_direct > 0); /* it has to be seen that it is slow, and to be tried again */
	assert_true(nr_cached > 0);
}

static void assert_pattern(int fd, size_t len)
{
	for (size_t at = 0; at < len; at++) {
		uint8_t byte = 0;
		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		assert_int_equal(byte, (uint8_t)(at * 7));
	}
}

/* Does the writer come to have stored that many bytes, without being given more? */
static void wait_stored(struct writer *writer, uint64_t bytes)
{
	for (int tries = 0; writer->stored < bytes && tries < 1000; tries++) {
		usleep(1000);
		assert_int_equal(writer_reap(writer, WRITER_NOW), 0);
	}
	assert_int_equal(writer->stored, bytes);
}

/*
 * Of a block that does not become full: it leaves at the second commit, and the next one goes on within its last page.
 */
static void what_is_old_is_committed(void **state)
{
	enum { PIECE = 1000, PIECES = 40 };
	char path[] = "/var/tmp/test_direct.XXXXXX";
	int fd = mkstemp(path);
	const struct writer_params params = {
		.fd = fd, .path = path, .nr_blocks = NR_BLOCKS, .block_bytes = 2 * BLOCK_BYTES};
	uint8_t piece[PIECE];
	struct writer *writer;
	uint64_t stored;

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	if (writer_open(&writer_direct, &params, &writer)) {
		close(fd);
		skip();
	}
	for (size_t i = 0; i < PIECES; i++) {
		for (size_t k = 0; k < PIECE; k++)
			piece[k] = (uint8_t)((i * PIECE + k) * 7);
		assert_int_equal(writer_put(writer, piece, PIECE), 0);
		assert_int_equal(writer_commit(writer, i % 2), 0);
		if (i % 2) {
			wait_stored(writer, (i + 1) * PIECE);
			assert_pattern(fd, (i + 1) * PIECE);
		}
	}
	/* Neither new nor old: nothing to do. */
	assert_int_equal(writer_commit(writer, true), 0);
	assert_int_equal(writer_put(writer, piece, 1), 0);
	assert_int_equal(writer_commit(writer, false), 0);
	assert_int_equal(writer_reap(writer, WRITER_NOW), 0);
	assert_int_equal(writer->stored, PIECES * PIECE);
	assert_int_equal(writer_commit(writer, false), 0);
	wait_stored(writer, PIECES * PIECE + 1);
	assert_int_equal(writer_close(writer, &stored), 0);
	assert_int_equal(stored, PIECES * PIECE + 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_old_is_committed),
		cmocka_unit_test(no_other_thread_writes_by_default),
		cmocka_unit_test(the_page_cache_takes_what_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
