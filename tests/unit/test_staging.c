/* SPDX-License-Identifier: MIT */
/* Blocks on their way to the output: what a write that makes no progress leads to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
	assert_int_equal(staging_retire(&staging, &writer), 0);
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
		assert_true(nr > 10);
		assert_int_equal(staging_retire(&staging, &writer), -EIO);
		assert_int_equal(writer.stored, 10);
		staging_fini(&staging);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_in_parts_is_asked_for_again),
		cmocka_unit_test(a_write_that_is_refused_for_ever_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
