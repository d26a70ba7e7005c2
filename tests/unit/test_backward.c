/* SPDX-License-Identifier: MIT */
/* Rings that are filled backwards, by a kernel of our own that does what format and man page say. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/ring.h"

enum { BYTES = 256 };

struct kernel {
	struct perf_event_mmap_page page;
	uint8_t data[BYTES];
	uint64_t next; /* number of the next record */
};

static void put_byte(struct kernel *kernel, uint64_t at, uint8_t byte)
{
	kernel->data[at & (BYTES - 1)] = byte;
}

/* A record whose body is its number, again and again. */
static void write_record(struct kernel *kernel, size_t bytes)
{
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = (uint16_t)bytes};
	uint64_t head = kernel->page.data_head - bytes;

	for (size_t i = 0; i < sizeof(header); i++)
		put_byte(kernel, head + i, ((uint8_t *)&header)[i]);
	for (size_t i = sizeof(header); i < bytes; i++)
		put_byte(kernel, head + i, (uint8_t)kernel->next);
	kernel->next++;
	kernel->page.data_head = head;
}

/* Oldest first, each whole, numbers without a gap up to the newest. */
static void check_run(const struct kernel *kernel, const struct backward_taken *taken)
{
	uint64_t number = kernel->next - taken->nr_records;

	for (size_t at = 0; at < taken->bytes;) {
		struct perf_event_header header;
		memcpy(&header, taken->records + at, sizeof(header));
		for (size_t i = sizeof(header); i < header.size; i++)
			assert_int_equal(taken->records[at + i], (uint8_t)number);
		at += header.size;
		number++;
	}
	assert_int_equal(number, kernel->next);
}

static void test_nothing_came(void **state)
{
	struct kernel kernel = {0};
	struct backward_ring ring;
	struct backward_taken taken;
	uint8_t room[BYTES];

	(void)state;
	backward_ring_attach(&ring, &kernel.page, kernel.data, BYTES);
	backward_ring_take(&ring, room, &taken);
	assert_int_equal(taken.bytes, 0);
	assert_int_equal(taken.nr_records, 0);
	backward_ring_unmap(&ring);
}

/* Every mixture of sizes, so that records straddle the end and the oldest is cut anywhere. */
static void test_the_newest_stay_whole(void **state)
{
	static const size_t sizes[] = {8, 16, 24, 40, 64, 104, 128, 256};
	struct backward_taken taken;
	uint8_t room[BYTES];

	(void)state;
	srand(1);
	for (unsigned run = 0; run < 2000; run++) {
		struct kernel kernel = {0};
		struct backward_ring ring;
		backward_ring_attach(&ring, &kernel.page, kernel.data, BYTES);
		for (unsigned snapshot = 0; snapshot < 4; snapshot++) {
			unsigned nr = (unsigned)rand() % 12;
			size_t written = 0, fits = 0, kept = 0;
			size_t lengths[12];
			for (unsigned i = 0; i < nr; i++) {
				lengths[i] = sizes[(unsigned)rand() % 8];
				write_record(&kernel, lengths[i]);
				written += lengths[i];
			}
			for (unsigned i = nr; i-- > 0 && fits + lengths[i] <= BYTES; kept++)
				fits += lengths[i];
			backward_ring_take(&ring, room, &taken);
			assert_int_equal(taken.came, written);
			assert_int_equal(taken.nr_records, kept);
			assert_int_equal(taken.bytes, fits);
			assert_int_equal(taken.nr_broken, 0);
			check_run(&kernel, &taken);
		}
	}
}

/* Oldest first, each whole, numbers without a gap from the first to before `end`. */
static void check_numbers(const struct backward_taken *taken, uint64_t end)
{
	uint64_t number = end - taken->nr_records;
	struct perf_event_header header;

	for (size_t at = 0; at < taken->bytes; at += header.size, number++) {
		memcpy(&header, taken->records + at, sizeof(header));
		for (size_t i = sizeof(header); i < header.size; i++)
			assert_int_equal(taken->records[at + i], (uint8_t)number);
	}
	assert_int_equal(number, end);
}

static void write_some(struct kernel *kernel, size_t *lengths, size_t nr)
{
	static const size_t sizes[] = {8, 16, 24, 40, 64};

	for (size_t i = 0; i < nr; i++)
		write_record(kernel, lengths[i] = sizes[(unsigned)rand() % 5]);
}

/*
 * Records come before the moment, between it and the copy, and from then until it is known what was overwritten. A
 * snapshot has those before the moment that the later ones left whole, and the next one begins there.
 */
static void test_a_copy_of_a_moment(void **state)
{
	enum { MOST = 12 };
	uint8_t room[BYTES], data[BYTES];
	struct backward_copy copy = {.data = data};
	struct backward_taken taken;
	unsigned nr_cut = 0, nr_whole = 0, nr_empty = 0;

	(void)state;
	srand(1);
	for (unsigned run = 0; run < 2000; run++) {
		struct kernel kernel = {0};
		struct backward_ring ring;
		size_t lengths[3 * MOST], nr = 0;
		backward_ring_attach(&ring, &kernel.page, kernel.data, BYTES);
		for (unsigned snapshot = 0; snapshot < 4; snapshot++) {
			size_t later = 0, kept = 0, bytes = 0, more = (size_t)rand() % MOST;
			write_some(&kernel, lengths + nr, more);
			nr += more;
			backward_ring_mark(&ring, &copy);
			uint64_t end = kernel.next;
			more = (size_t)rand() % 4;
			write_some(&kernel, lengths + nr, more);
			backward_ring_copy(&ring, &copy);
			size_t since = more;
			while (!backward_copy_is_known(&ring, &copy)) {
				write_some(&kernel, lengths + nr + since, 1);
				since++;
			}
			for (size_t i = 0; i < since; i++)
				later += lengths[nr + i];
			for (size_t i = nr; i-- > 0 && later + bytes + lengths[i] <= BYTES; kept++)
				bytes += lengths[i];
			backward_ring_take_copy(&ring, &copy, room, &taken);
			assert_int_equal(taken.nr_records, kept);
			assert_int_equal(taken.bytes, bytes);
			assert_int_equal(taken.overwritten, kept < nr);
			assert_int_equal(taken.nr_broken, 0);
			check_numbers(&taken, end);
			nr_cut += kept && kept < nr;
			nr_whole += kept && kept == nr;
			nr_empty += !kept && nr;
			memmove(lengths, lengths + nr, since * sizeof(*lengths));
			nr = since;
		}
	}
	assert_true(nr_cut && nr_whole && nr_empty);
}

/* A first new head may be older than a record whose writing had begun. */
static void test_a_copy_is_known_after_two_heads(void **state)
{
	uint8_t room[BYTES], data[BYTES];
	struct backward_copy copy = {.data = data};
	struct backward_taken taken;
	struct kernel kernel = {0};
	struct backward_ring ring;

	(void)state;
	backward_ring_attach(&ring, &kernel.page, kernel.data, BYTES);
	backward_ring_mark(&ring, &copy);
	backward_ring_copy(&ring, &copy);
	assert_true(backward_copy_is_known(&ring, &copy)); /* nothing came: there is nothing that could be lost */
	write_record(&kernel, 64);
	backward_ring_mark(&ring, &copy);
	backward_ring_copy(&ring, &copy);
	for (unsigned i = 0; i < 2; i++) {
		assert_false(backward_copy_is_known(&ring, &copy));
		assert_false(backward_copy_is_known(&ring, &copy));
		write_record(&kernel, 64);
	}
	assert_true(backward_copy_is_known(&ring, &copy));
	write_record(&kernel, 128); /* overwrites the first: too late for the copy */
	assert_true(backward_copy_is_known(&ring, &copy));
	backward_ring_take_copy(&ring, &copy, room, &taken);
	assert_int_equal(taken.nr_records, 1);
	backward_ring_mark(&ring, &copy);
	backward_ring_copy(&ring, &copy);
	write_record(&kernel, 64);
	backward_copy_end(&ring, &copy); /* all is written whose writing had begun, and that was overwritten by it */
	backward_ring_take_copy(&ring, &copy, room, &taken);
	assert_int_equal(taken.nr_records, 2);
	assert_int_equal(taken.bytes, 64 + 128);
	assert_true(taken.overwritten);
}

static void test_a_broken_header_ends_the_walk(void **state)
{
	static const uint16_t bad[] = {0, 7, 12};
	uint8_t room[BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kernel kernel = {0};
		struct backward_ring ring;
		struct backward_taken taken;
		backward_ring_attach(&ring, &kernel.page, kernel.data, BYTES);
		write_record(&kernel, 16);
		((struct perf_event_header *)(void *)(kernel.data + BYTES - 16))->size = bad[i];
		write_record(&kernel, 24);
		backward_ring_take(&ring, room, &taken);
		assert_int_equal(taken.nr_records, 1);
		assert_int_equal(taken.bytes, 24);
		assert_int_equal(taken.nr_broken, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_came),
		cmocka_unit_test(test_the_newest_stay_whole),
		cmocka_unit_test(test_a_broken_header_ends_the_walk),
		cmocka_unit_test(test_a_copy_of_a_moment),
		cmocka_unit_test(test_a_copy_is_known_after_two_heads),
	};
	return cmocka_run_group_tests_name("backward", tests, NULL, NULL);
}
