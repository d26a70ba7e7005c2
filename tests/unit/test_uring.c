/* SPDX-License-Identifier: MIT */
/* The uring engine: what it asks of the kernel beside its writes. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_worker),
	};
	return cmocka_run_group_tests_name("uring", tests, NULL, NULL);
}
