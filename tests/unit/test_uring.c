/* SPDX-License-Identifier: MIT */
/* The uring engine: what it asks of the kernel beside its writes. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <liburing.h>

#include "stream/writer.h"

/*
 * Requests that wait for slow storage must not become a thread each. The limits belong to the task, so another ring of
 * this task tells them.
 */
static void test_one_worker(void **state)
{
	int fd = memfd_create("out", MFD_CLOEXEC);
	struct writer_params params = {.fd = fd, .nr_blocks = 8, .block_bytes = 4096};
	unsigned limits[] = {0, 0}; /* asks */
	struct writer *writer;
	struct io_uring other;

	(void)state;
	assert_true(fd >= 0);
	if (writer_open(&writer_uring, &params, &writer)) {
		print_message("io_uring is not allowed here\n");
		close(fd);
		skip();
	}
	assert_int_equal(io_uring_queue_init(1, &other, 0), 0);
	int err = io_uring_register_iowq_max_workers(&other, limits);
	io_uring_queue_exit(&other);
	assert_int_equal(writer_close(writer, NULL), 0);
	close(fd);
	if (err) {
		print_message("this kernel knows no limit: %s\n", strerror(-err));
		skip();
	}
	assert_int_equal(limits[0], 1);
	assert_int_equal(limits[1], 1);
}

enum { BLOCKS = 4, BLOCK_BYTES = 4096 };

/* The first goes into the pipe, the others wait. */
static void *queue_and_end(void *writer)
{
	static uint8_t bytes[BLOCK_BYTES];

	for (int i = 0; i < BLOCKS; i++) {
		const struct span span = {bytes, sizeof(bytes)};
		memset(bytes, i, sizeof(bytes));
		if (writer_queue(writer, &span, 1))
			return NULL;
	}
	return writer;
}

static size_t counts[BLOCKS];

static void *drain(void *fd)
{
	uint8_t bytes[BLOCK_BYTES];
	size_t left = BLOCKS * BLOCK_BYTES;
	ssize_t got;

	while (left && (got = read(*(int *)fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < got; i++)
			counts[bytes[i] % BLOCKS]++;
		left -= (size_t)got;
	}
	return NULL;
}

/* A reader ends while a file that it was switched away from has writes under way. */
static void test_the_thread_that_asked_ends(void **state)
{
	struct writer_params params = {.nr_blocks = BLOCKS, .block_bytes = BLOCK_BYTES};
	struct writer *writer;
	pthread_t thread;
	void *queued;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_true(fcntl(fds[1], F_SETPIPE_SZ, BLOCK_BYTES) >= 0);
	params.fd = fds[1];
	if (writer_open(&writer_uring, &params, &writer)) {
		print_message("io_uring is not allowed here\n");
		close(fds[0]);
		close(fds[1]);
		skip();
	}
	assert_int_equal(pthread_create(&thread, NULL, queue_and_end, writer), 0);
	pthread_join(thread, &queued);
	assert_non_null(queued);
	assert_int_equal(pthread_create(&thread, NULL, drain, &fds[0]), 0);
	assert_int_equal(writer_close(writer, NULL), 0);
	close(fds[1]);
	pthread_join(thread, NULL);
	close(fds[0]);
	for (int i = 0; i < BLOCKS; i++)
		assert_int_equal(counts[i], BLOCK_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_worker),
		cmocka_unit_test(test_the_thread_that_asked_ends),
	};
	return cmocka_run_group_tests_name("uring", tests, NULL, NULL);
}
