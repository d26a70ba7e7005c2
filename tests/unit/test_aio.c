/* SPDX-License-Identifier: MIT */
/*
 * The aio writer against a POSIX AIO of this test's own, which serves a request only when it is waited for: as
 * storage that is always slower than the reader.
 */
#include <aio.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/writer.h"

enum { NR_BLOCKS = 2048, PIECE = 24 };

/* These stand before the C library's. */
static struct {
	struct aiocb *waiting[4 * NR_BLOCKS]; /* in order; those below `done` were served */
	size_t nr, done;
	size_t looked_at;  /* requests that aio_error() and aio_suspend() were given */
	size_t most_bytes; /* that a request writes; 0: all */
	uint8_t written[NR_BLOCKS * 4 * PIECE];
} fake;

static size_t served_bytes(const struct aiocb *control)
{
	return fake.most_bytes && fake.most_bytes < control->aio_nbytes ? fake.most_bytes : control->aio_nbytes;
}

int aio_write(struct aiocb *control)
{
	fake.waiting[fake.nr++] = control;
	control->aio_reqprio = 0; /* not served; no writer sets it */
	return 0;
}

static void serve_oldest(void)
{
	struct aiocb *control = fake.waiting[fake.done++];

	memcpy(fake.written + control->aio_offset, (const void *)(uintptr_t)control->aio_buf, served_bytes(control));
	control->aio_reqprio = 1;
}

int aio_error(const struct aiocb *control)
{
	fake.looked_at++;
	return control->aio_reqprio ? 0 : EINPROGRESS;
}

ssize_t aio_return(struct aiocb *control)
{
	return (ssize_t)served_bytes(control);
}

int aio_suspend(const struct aiocb *const list[], int nr, const struct timespec *timeout)
{
	(void)list, (void)timeout;
	fake.looked_at += (size_t)nr;
	serve_oldest();
	return 0;
}

int aio_cancel(int fd, struct aiocb *control)
{
	(void)fd, (void)control;
	return AIO_ALLDONE;
}

static struct writer *open_aio(void)
{
	struct writer_params params = {.fd = -1, .nr_blocks = NR_BLOCKS, .block_bytes = PIECE};
	struct writer *writer;

	memset(&fake, 0, sizeof(fake));
	assert_int_equal(writer_open(&writer_aio, &params, &writer), 0);
	return writer;
}

/* The n-th piece; waits for room as the pump does. Returns whether it had to. */
static bool put_piece(struct writer *writer, uint64_t n)
{
	uint64_t piece[PIECE / 8] = {n, ~n, n * n};
	struct span span = {piece, PIECE};
	bool waited = false;
	int err;

	while ((err = writer_queue(writer, &span, 1)) == -EAGAIN) {
		assert_int_equal(writer_complete(writer, WRITER_ROOM), 0);
		waited = true;
	}
	assert_int_equal(err, 0);
	return waited;
}

static void check_written(size_t nr)
{
	for (uint64_t n = 0; n < nr; n++) {
		uint64_t piece[PIECE / 8] = {n, ~n, n * n};
		assert_memory_equal(fake.written + n * PIECE, piece, PIECE);
	}
}

/* Slow storage and many blocks: what one piece costs must not grow with the number of blocks that wait. */
static void test_cost_does_not_grow_with_the_queue(void **state)
{
	struct writer *writer = open_aio();
	uint64_t stored;

	(void)state;
	for (uint64_t n = 0; n < NR_BLOCKS; n++) {
		assert_false(put_piece(writer, n));
		assert_int_equal(writer_complete(writer, WRITER_NOW), 0); /* the pump does after each pass */
	}
	for (uint64_t n = NR_BLOCKS; n < 2 * NR_BLOCKS; n++)
		assert_true(put_piece(writer, n));
	assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
	assert_int_equal(writer_close(writer, &stored), 0);
	assert_int_equal(stored, 2 * NR_BLOCKS * PIECE);
	check_written(2 * NR_BLOCKS);
	assert_in_range(fake.looked_at, 2 * NR_BLOCKS, 10 * NR_BLOCKS);
}

static void test_short_writes_are_continued(void **state)
{
	struct writer *writer = open_aio();
	uint64_t stored;

	(void)state;
	fake.most_bytes = 10;
	for (uint64_t n = 0; n < 100; n++)
		put_piece(writer, n);
	assert_int_equal(writer_complete(writer, WRITER_ALL), 0);
	assert_int_equal(writer->stored, 100 * PIECE);
	assert_int_equal(writer_close(writer, &stored), 0);
	assert_int_equal(stored, 100 * PIECE);
	check_written(100);
	assert_int_equal(fake.nr, 3 * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cost_does_not_grow_with_the_queue),
		cmocka_unit_test(test_short_writes_are_continued),
	};
	return cmocka_run_group_tests_name("aio", tests, NULL, NULL);
}
