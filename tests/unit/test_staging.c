/* SPDX-License-Identifier: MIT */
/* Blocks on their way to the output: what a write that makes no progress leads to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/staging.h"
#include "stream/writer.h"

enum { BYTES = 64 };

static struct staging_block *fill(struct staging *staging)
{
	static const uint8_t bytes[BYTES];
	const struct span span = {bytes, sizeof(bytes)};

	assert_int_equal(staging_init(staging, 2, BYTES), 0);
	return staging_fill(staging, &span, 1, 0);
}

static void a_write_in_parts_is_asked_for_again(void **state)
{
	static const int64_t results[] = {-EAGAIN, 10, -EINTR, -ECANCELED, 20};
	struct staging staging;
	struct staging_block *block = fill(&staging);
	struct writer writer = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++)
		assert_false(staging_progress(block, results[i]));
	assert_true(staging_progress(block, BYTES - 30));
	assert_int_equal(staging_complete(&staging, &writer), 0);
	assert_int_equal(writer.stored, BYTES);
	assert_int_equal(staging.nr, 0);
	staging_fini(&staging);
}

static void a_write_that_is_refused_for_ever_fails(void **state)
{
	static const int64_t refusals[] = {-EAGAIN, -EINTR, -ECANCELED};

	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct staging staging;
		struct staging_block *block = fill(&staging);
		struct writer writer = {0};
		unsigned nr = 0;
		assert_false(staging_progress(block, 10));
		while (!staging_progress(block, refusals[i]))
			assert_true(++nr < 1000000);
		assert_int_equal(nr, 1000);
		assert_int_equal(staging_complete(&staging, &writer), -EIO);
		assert_int_equal(writer.stored, 10);
		staging_fini(&staging);
	}
}

static void what_is_large_is_written_at_its_place(void **state)
{
	const struct span spans[2] = {{"first, ", 7}, {"second", 6}};
	struct writer writer = {.offset = 5, .queued = 3};
	struct staging staging;
	char found[32] = {0};
	int fd = memfd_create("out", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(staging_init(&staging, 2, BYTES), 0);
	assert_int_equal(staging_bypass(&staging, &writer, fd, spans, 2), 0);
	assert_int_equal(writer.queued, 3 + 13);
	assert_int_equal(writer.stored, 3 + 13);
	assert_int_equal(pread(fd, found, sizeof(found), 8), 13);
	assert_string_equal(found, "first, second");
	/* Not before what waits. */
	assert_non_null(staging_fill(&staging, spans, 2, 0));
	assert_int_equal(staging_bypass(&staging, &writer, fd, spans, 2), -EAGAIN);
	assert_int_equal(writer.queued, 3 + 13);
	staging_fini(&staging);
	assert_int_equal(staging_init(&staging, 2, BYTES), 0);
	assert_true(staging_bypass(&staging, &writer, -1, spans, 2) < 0);
	assert_int_equal(writer.queued, 3 + 13);
	staging_fini(&staging);
	close(fd);
}

static void blocks_are_used_in_turn(void **state)
{
	enum { NR = 3 };
	const struct span span = {"12345678", 8};
	struct writer writer = {0};
	struct staging staging;

	(void)state;
	assert_int_equal(staging_init(&staging, 0, BYTES), -EINVAL);
	assert_int_equal(staging_init(&staging, NR, 0), -EINVAL);
	assert_int_equal(staging_init(&staging, SIZE_MAX / 2, 4), -EINVAL);
	assert_int_equal(staging_init(&staging, 1, SIZE_MAX / 2), -ENOMEM); /* more than there are addresses */
	assert_int_equal(staging_init(&staging, NR, BYTES), 0);
	for (uint64_t i = 0; i < 10; i++) {
		while (staging.nr < NR)
			assert_non_null(staging_fill(&staging, &span, 1, writer.stored + 8 * staging.nr));
		assert_null(staging_fill(&staging, &span, 1, 0));
		/* The second is done before the first. */
		assert_true(staging_progress(staging_at(&staging, 1), 8));
		assert_int_equal(staging_complete(&staging, &writer), 0);
		assert_int_equal(writer.stored, 16 * i);
		assert_true(staging_progress(staging_at(&staging, 0), 8));
		assert_int_equal(staging_complete(&staging, &writer), 0);
		assert_int_equal(writer.stored, 16 * (i + 1));
		assert_int_equal(staging.nr, 1);
		assert_int_equal(staging_at(&staging, 0)->offset, writer.stored);
		assert_memory_equal(staging_at(&staging, 0)->data, "12345678", 8);
	}
	staging_fini(&staging);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_large_is_written_at_its_place),
		cmocka_unit_test(blocks_are_used_in_turn),
		cmocka_unit_test(a_write_in_parts_is_asked_for_again),
		cmocka_unit_test(a_write_that_is_refused_for_ever_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
