/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { BYTES = 1 << 20, WRAP = 12345 };

static uint8_t sent[BYTES], received[2 * BYTES];

struct reader {
	int fd;
	size_t stop_at, got;
};

static void *read_all(void *data)
{
	struct reader *reader = data;

	while (reader->got < reader->stop_at) {
		ssize_t got = read(reader->fd, received + reader->got, 1000);
		if (got <= 0)
			break;
		reader->got += (size_t)got;
	}
	close(reader->fd);
	return NULL;
}

/* Writes `sent` in two spans into a pipe that does not block, while another thread reads. */
static int write_to_reader(struct reader *reader, size_t *ret_done)
{
	struct span spans[] = {{sent, WRAP}, {sent + WRAP, BYTES - WRAP}};
	pthread_t thread;
	int ends[2];

	for (size_t i = 0; i < BYTES; i++)
		sent[i] = (uint8_t)(i * 2654435761u >> 13);
	assert_return_code(pipe2(ends, O_CLOEXEC), errno);
	assert_return_code(fcntl(ends[1], F_SETFL, O_NONBLOCK), errno);
	reader->fd = ends[0];
	assert_int_equal(pthread_create(&thread, NULL, read_all, reader), 0);
	int err = fd_write_spans(ends[1], spans, 2, ret_done);
	close(ends[1]);
	pthread_join(thread, NULL);
	return err;
}

static void full_pipe_that_does_not_block_is_waited_for(void **state)
{
	struct reader reader = {.stop_at = sizeof(received)};
	size_t done;

	(void)state;
	assert_int_equal(write_to_reader(&reader, &done), 0);
	assert_int_equal(done, BYTES);
	assert_int_equal(reader.got, BYTES);
	assert_memory_equal(received, sent, BYTES);
}

static void reader_that_leaves_ends_the_wait(void **state)
{
	struct reader reader = {.stop_at = BYTES / 4};
	size_t done;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(write_to_reader(&reader, &done), -EPIPE);
	assert_in_range(done, BYTES / 4, BYTES - 1);
}

/* Of files that are shorter, longer, and as long as what is read at a time. */
static void whole_files_are_read(void **state)
{
	static const size_t lens[] = {0, 1, 16383, 16384, 16385, 300000};
	char path[] = "/tmp/test_fd.XXXXXX";
	const int fd = mkstemp(path);
	uint8_t *bytes = malloc(300000);

	(void)state;
	assert_true(fd >= 0 && bytes);
	for (size_t i = 0; i < 300000; i++)
		bytes[i] = (uint8_t)(i * 7 ^ i >> 8);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		AUTO_BUF struct buf text = {0};
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(fd_pwrite(fd, bytes, lens[i], 0), 0);
		buf_put(&text, "before", 6);
		assert_int_equal(fd_slurp(path, lens[i], &text), 0);
		assert_int_equal(text.len, 6 + lens[i]);
		assert_memory_equal(text.data + 6, bytes, lens[i]);
		if (lens[i]) /* what is there stays */
			assert_int_equal(fd_slurp(path, lens[i] - 1, &text), -EFBIG);
		assert_int_equal(text.len, 6 + lens[i]);
	}
	close(fd);
	unlink(path);
	free(bytes);
}

/* The heap grows by what a file has, not by what might be in it. */
static void short_files_take_little_memory(void **state)
{
	AUTO_BUF struct buf text = {0};

	(void)state;
	assert_int_equal(fd_slurp("/proc/self/stat", 1 << 16, &text), 0);
	assert_in_range(text.len, 1, 1000);
	assert_in_range(text.room, text.len, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_pipe_that_does_not_block_is_waited_for),
		cmocka_unit_test(reader_that_leaves_ends_the_wait),
		cmocka_unit_test(whole_files_are_read),
		cmocka_unit_test(short_files_take_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
