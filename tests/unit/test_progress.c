/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"

static const uint64_t second_ns = 1000000000;

static void check(const struct progress *progress, uint64_t now_ns, const char *expected)
{
	char line[PROGRESS_BYTES];

	progress_line(progress, now_ns, line);
	assert_string_equal(line, expected);
}

static void test_without_total(void **state)
{
	(void)state;
	struct progress progress = {.what = "reading", .start_ns = second_ns, .nr_records = 900};

	check(&progress, 4 * second_ns, "reading: 900 records, 300/s");
	progress.nr_records = 12345678;
	progress.done = 77;
	check(&progress, 3 * second_ns, "reading: 12.3 M records, 6.2 M/s");
}

static void test_with_total(void **state)
{
	(void)state;
	struct progress progress = {.what = "reading", .nr_records = 1000000, .done = 250, .total = 1000};

	check(&progress, 2 * second_ns, "reading:  25 % [#####               ] 1.0 M records, 500.0 k/s, 6 s left");
	progress.done = 1000;
	check(&progress, 4 * second_ns, "reading: 100 % [####################] 1.0 M records, 250.0 k/s, 0 s left");
	/* A file that grows has no end. */
	progress.bytes = true;
	check(&progress, 4 * second_ns, "reading: 100 % [####################] 1.0 MB, 250.0 kB/s, 0 s left");
	progress.bytes = false;
	progress.done = 1001;
	check(&progress, 4 * second_ns, "reading: 1.0 M records, 250.0 k/s");
	progress.done = 1;
	progress.total = UINT64_MAX;
	check(&progress, 4 * second_ns,
	      "reading:   0 % [                    ] 1.0 M records, 250.0 k/s, 360000 s left");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_total), cmocka_unit_test(test_with_total)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
