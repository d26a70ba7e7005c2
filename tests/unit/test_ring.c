/* SPDX-License-Identifier: MIT */
/* stream/ring.h: rings in memory that a file gives, as an event's descriptor does. */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/ring.h"

enum { DATA_PAGES = 2 };

static size_t page_bytes;

/* A control page and the data; some have been taken before. */
static int make_event(uint64_t tail)
{
	struct perf_event_mmap_page page = {.data_head = tail, .data_tail = tail};
	int fd = memfd_create("event", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)((DATA_PAGES + 1) * page_bytes)), 0);
	assert_int_equal(pwrite(fd, &page, sizeof(page), 0), sizeof(page));
	assert_int_equal(pwrite(fd, "last byte", 9, (off_t)((DATA_PAGES + 1) * page_bytes - 9)), 9);
	return fd;
}

static void test_a_ring_is_mapped(void **state)
{
	int fd = make_event(4096 + 16);
	struct ring ring;

	(void)state;
	assert_int_equal(ring_map(&ring, fd, DATA_PAGES), 0);
	assert_int_equal(ring.bytes, DATA_PAGES * page_bytes);
	assert_int_equal(ring.mapping_bytes, (DATA_PAGES + 1) * page_bytes);
	assert_int_equal(ring.taken, 4096 + 16);
	assert_int_equal(ring.released, 4096 + 16);
	assert_memory_equal(ring.data + ring.bytes - 9, "last byte", 9);
	ring.page->data_tail = 5; /* it may be written */
	uint64_t tail;
	assert_int_equal(pread(fd, &tail, sizeof(tail), offsetof(struct perf_event_mmap_page, data_tail)), 8);
	assert_int_equal(tail, 5);
	void *mapping = ring.mapping;
	ring_unmap(&ring);
	assert_null(ring.mapping);
	assert_int_equal(ring.bytes, 0);
	assert_int_equal(msync(mapping, page_bytes, MS_ASYNC), -1);
	assert_int_equal(errno, ENOMEM);
	ring_unmap(&ring);
	close(fd);
}

static void test_a_backward_ring_is_mapped(void **state)
{
	int fd = make_event(64);
	struct backward_ring ring;

	(void)state;
	assert_int_equal(backward_ring_map(&ring, fd, DATA_PAGES), 0);
	assert_int_equal(ring.bytes, DATA_PAGES * page_bytes);
	assert_int_equal(ring.mapping_bytes, (DATA_PAGES + 1) * page_bytes);
	assert_int_equal(ring.taken, 64);
	assert_memory_equal(ring.data + ring.bytes - 9, "last byte", 9);
	void *mapping = ring.mapping;
	backward_ring_unmap(&ring);
	assert_null(ring.mapping);
	assert_int_equal(msync(mapping, page_bytes, MS_ASYNC), -1);
	backward_ring_unmap(&ring);
	close(fd);
}

static void test_what_cannot_be_mapped(void **state)
{
	struct backward_ring backward = {0};
	struct ring ring = {0};

	(void)state;
	assert_int_equal(ring_map(&ring, -1, 1), -EBADF);
	assert_int_equal(backward_ring_map(&backward, -1, 1), -EBADF);
	assert_null(ring.mapping);
	assert_null(backward.mapping);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_ring_is_mapped),
		cmocka_unit_test(test_a_backward_ring_is_mapped),
		cmocka_unit_test(test_what_cannot_be_mapped),
	};

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
