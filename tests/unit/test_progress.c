/* SPDX-License-Identifier: MIT */
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
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

/* What a process shows on a terminal of that width, 0: it is not known. */
static const char *shown_on(unsigned short columns, void (*show)(void))
{
	static char text[1024];
	const struct winsize size = {.ws_row = 24, .ws_col = columns};
	size_t len = 0;
	int master, status;
	pid_t pid = forkpty(&master, NULL, NULL, &size);

	assert_true(pid >= 0);
	if (!pid) {
		show();
		_exit(0);
	}
	for (ssize_t got; len < sizeof(text) - 1 && (got = read(master, text + len, sizeof(text) - 1 - len)) > 0;)
		len += (size_t)got;
	text[len] = '\0';
	close(master);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return text;
}

static void show_hostile_name(void)
{
	log_status("looking for %s on the servers", "a\033[31m\r\nb");
}

static void show_wide_line(void)
{
	log_status("%s", "0123456789\u00e4\u00e4\u00e4\u00e4\u00e4");
}

/* Names in it are those of objects of the recording. */
static void test_status_is_escaped(void **state)
{
	(void)state;
	assert_string_equal(shown_on(80, show_hostile_name),
			    "millrace: looking for a\\x1b[31m\\x0d\\nb on the servers");
}

/* Of a line that goes on in the next row of the terminal the first row would stay. */
static void test_status_is_cut(void **state)
{
	(void)state;
	assert_string_equal(shown_on(0, show_wide_line), "millrace: 0123456789\u00e4\u00e4\u00e4\u00e4\u00e4");
	assert_string_equal(shown_on(80, show_wide_line), "millrace: 0123456789\u00e4\u00e4\u00e4\u00e4\u00e4");
	assert_string_equal(shown_on(24, show_wide_line), "millrace: 0123456789\u00e4");
	assert_string_equal(shown_on(20, show_wide_line), "millrace: 012345678");
	assert_string_equal(shown_on(12, show_wide_line), "millrace: 0");
	assert_string_equal(shown_on(11, show_wide_line), "");
	assert_string_equal(shown_on(1, show_wide_line), "");
}

static void show_progress(void)
{
	struct progress progress = {.what = "looking for the last whole record",
				    .start_ns = clock_ns(CLOCK_MONOTONIC) - 4 * second_ns,
				    .nr_records = 1000000,
				    .done = 250,
				    .total = 1000};

	progress_show(&progress);
}

/* The bar becomes shorter, so that the end of the line can be read. */
static void test_progress_of_narrow_terminals(void **state)
{
	static const char begin[] = "millrace: looking for the last whole record:  25 % [";

	(void)state;
	for (unsigned short columns = 95; columns <= 130; columns++) {
		const char *shown = shown_on(columns, show_progress);
		assert_true(strlen(shown) < columns);
		assert_memory_equal(shown, begin, sizeof(begin) - 1);
		assert_string_equal(shown + strlen(shown) - strlen(" s left"), " s left");
		if (strcspn(shown + strlen(begin), "]") < 20)
			assert_int_equal(strlen(shown) + 1, columns);
	}
	assert_int_equal(strlen(shown_on(60, show_progress)), 59);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_total),
		cmocka_unit_test(test_with_total),
		cmocka_unit_test(test_status_is_escaped),
		cmocka_unit_test(test_status_is_cut),
		cmocka_unit_test(test_progress_of_narrow_terminals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
