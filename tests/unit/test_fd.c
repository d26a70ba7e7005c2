/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_pipe_that_does_not_block_is_waited_for),
		cmocka_unit_test(reader_that_leaves_ends_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
