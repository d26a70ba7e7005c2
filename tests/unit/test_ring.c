/* SPDX-License-Identifier: MIT */
/* stream/ring.h: rings in memory that a file gives, as an event's descriptor does. */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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

enum { OLD_ID = 7, NEW_ID = 9, OTHER_ID = 11, OFFSET = 8, DISTANCE = 8, SMALL_RING = 256 };

static struct ring_renames *make_renames(void)
{
	struct ring_renames *renames = calloc(1, sizeof(*renames) + 3 * sizeof(renames->ids[0]));

	assert_non_null(renames);
	*renames = (struct ring_renames){.offset = OFFSET, .distance = DISTANCE, .trailer_bytes = 8, .nr = 3};
	for (unsigned i = 0; i < 3; i++) {
		renames->ids[i].from = NEW_ID - 1 + i;
		renames->ids[i].to = i == 1 ? OLD_ID : 1;
	}
	renames->copy = malloc(RING_RENAMED_BYTES + UINT16_MAX);
	assert_non_null(renames->copy);
	return renames;
}

/* Puts a record of so many words that are all `id` at the head. */
static void put_record(struct ring *ring, uint64_t *words, uint32_t type, uint16_t nr_words, uint64_t id)
{
	struct perf_event_header header = {.type = type, .size = (uint16_t)(8 * (nr_words + 1))};
	uint64_t at = ring->page->data_head / 8, mask = ring->bytes / 8 - 1;

	memcpy(&words[at++ & mask], &header, sizeof(header));
	for (uint16_t i = 0; i < nr_words; i++)
		words[at++ & mask] = id;
	ring->page->data_head += header.size;
}

static const uint64_t *words_of(const struct span *span, size_t record_at)
{
	return (const uint64_t *)(const void *)((const char *)span->ptr + record_at + 8);
}

static void test_ids_are_renamed(void **state)
{
	struct perf_event_mmap_page page = {.data_head = SMALL_RING - 16, .data_tail = SMALL_RING - 16};
	uint64_t words[SMALL_RING / 8] = {0};
	struct ring_renames *renames = make_renames();
	struct span spans[2];
	struct ring ring;

	(void)state;
	ring_attach(&ring, &page, words, sizeof(words));
	put_record(&ring, words, PERF_RECORD_SAMPLE, 2, NEW_ID); /* its last word is behind the wrap */
	put_record(&ring, words, PERF_RECORD_COMM, 3, NEW_ID);
	put_record(&ring, words, PERF_RECORD_LOST, 3, NEW_ID);
	put_record(&ring, words, PERF_RECORD_SAMPLE, 2, OTHER_ID);
	put_record(&ring, words, PERF_RECORD_THROTTLE, 4, NEW_ID);
	const size_t bytes = ring_peek(&ring, spans);
	const struct span peeked = spans[0];
	assert_int_equal(ring_rename(&ring, spans, bytes), bytes); /* there are none to rename */
	assert_ptr_equal(spans[0].ptr, peeked.ptr);

	ring_publish_renames(&ring, renames);
	assert_int_equal(ring_rename(&ring, spans, bytes), bytes);
	assert_int_equal(spans[0].len, bytes);
	assert_int_equal(spans[1].len, 0);
	static const uint64_t expected[] = {OLD_ID, NEW_ID, 0,        NEW_ID,   NEW_ID, OLD_ID, 0,      OLD_ID, NEW_ID,
					    OLD_ID, 0,      OTHER_ID, OTHER_ID, 0,      NEW_ID, OLD_ID, OLD_ID, OLD_ID};
	const uint64_t *got = words_of(&spans[0], 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (expected[i])
			assert_int_equal(got[i], expected[i]);
	assert_int_equal(words[(SMALL_RING - 16) / 8 + 1], NEW_ID); /* the ring may be read-only */
	free(renames->copy);
	free(renames);
}

/* A large ring is copied in parts, each of whole records. */
static void test_ids_are_renamed_in_parts(void **state)
{
	enum { LARGE_RING = 1 << 20, NR_WORDS = 4095 };
	struct perf_event_mmap_page page = {0};
	uint64_t *words = calloc(1, LARGE_RING);
	struct ring_renames *renames = make_renames();
	struct span spans[2];
	struct ring ring;
	size_t nr = 0, bytes;

	(void)state;
	assert_non_null(words);
	ring_attach(&ring, &page, words, LARGE_RING);
	while (page.data_head + 8 * (NR_WORDS + 1) <= LARGE_RING)
		put_record(&ring, words, PERF_RECORD_SAMPLE, NR_WORDS, NEW_ID);
	ring_publish_renames(&ring, renames);
	while ((bytes = ring_peek(&ring, spans))) {
		bytes = ring_rename(&ring, spans, bytes);
		assert_int_equal(spans[0].len, bytes);
		for (size_t at = 0; at < bytes; at += 8 * (NR_WORDS + 1), nr++)
			assert_int_equal(words_of(&spans[0], at)[0], OLD_ID);
		ring_take(&ring, bytes);
	}
	assert_int_equal(nr, LARGE_RING / (8 * (NR_WORDS + 1)));
	free(renames->copy);
	free(renames);
	free(words);
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
		cmocka_unit_test(test_a_ring_is_mapped),         cmocka_unit_test(test_ids_are_renamed),
		cmocka_unit_test(test_ids_are_renamed_in_parts), cmocka_unit_test(test_a_backward_ring_is_mapped),
		cmocka_unit_test(test_what_cannot_be_mapped),
	};

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
