/* SPDX-License-Identifier: MIT */
/* -D and --control: what is typed, and lines as they come through a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/diag.h"
#include "record/run/control.h"
#include "record/setup/options.h"

static void assert_moments(const char *text, bool delayed, const char *want)
{
	struct enable_times times;
	char got[256] = "";
	int64_t ms;
	bool on;

	assert_int_equal(enable_times_parse(text, &times, NULL), 0);
	assert_int_equal(times.delayed, delayed);
	for (size_t i = 0; enable_times_next(&times, i, &ms, &on); i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%lld ", on ? "+" : "-", (long long)ms);
	assert_string_equal(got, want);
}

static void test_times(void **state)
{
	(void)state;
	assert_moments("0", false, "");
	assert_moments("-1", true, "");
	assert_moments("100", true, "+100 ");
	assert_moments("10-20,30-40", true, "+10 -20 +30 -40 ");
	assert_moments("0-5", true, "+0 -5 ");

	const char *bad[] = {"",       "-2",          "x",           "10-",         "10-10",       "20-10",
			     "10-20,", "10-20,15-30", "10-20,20-30", "10-20;30-40", "99999999999", "1-99999999999",
			     " 5",     "5 "};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct enable_times times = {.nr = 77};
		struct diag diag = {0};
		assert_int_equal(enable_times_parse(bad[i], &times, &diag), -EINVAL);
		assert_int_equal(times.nr, 77);
		assert_string_not_equal(diag.text, "");
	}
}

static void test_spec(void **state)
{
	struct control_spec spec;

	(void)state;
	assert_int_equal(control_parse("fd:10,11", &spec, NULL), 0);
	assert_true(spec.given && !spec.fifo && spec.fd == 10 && spec.ack_fd == 11);
	assert_int_equal(control_parse("fd:10", &spec, NULL), 0);
	assert_int_equal(spec.ack_fd, -1);
	assert_int_equal(control_parse("fifo:/a/b,c", &spec, NULL), 0);
	assert_true(spec.fifo);
	assert_string_equal(spec.path, "/a/b");
	assert_string_equal(spec.ack_path, "c");

	const char *bad[] = {"", "fd:", "fd:x", "fd:1,2,3", "fd:-1", "fifo:", "fifo:,a", "pipe:1", "fd:99999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(control_parse(bad[i], &spec, NULL), -EINVAL);
}

struct wire {
	int in;
	struct control control;
};

static int open_wire(void **state)
{
	static struct wire wire;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	wire = (struct wire){.in = fds[1], .control = {.fd = fds[0], .ack_fd = -1, .ours = true}};
	*state = &wire;
	return 0;
}

static int close_wire(void **state)
{
	struct wire *wire = *state;

	if (wire->in >= 0)
		close(wire->in);
	control_close(&wire->control);
	return 0;
}

static void send_bytes(struct wire *wire, const void *bytes, size_t len)
{
	assert_int_equal(write(wire->in, bytes, len), (ssize_t)len);
	assert_true(control_read(&wire->control));
}

static void test_lines(void **state)
{
	struct wire *wire = *state;

	send_bytes(wire, "ena", 3);
	assert_null(control_next(&wire->control));
	send_bytes(wire, "ble\n\n\0ping\0stop\npi", 18);
	assert_string_equal(control_next(&wire->control), "enable");
	assert_string_equal(control_next(&wire->control), "ping");
	assert_string_equal(control_next(&wire->control), "stop");
	assert_null(control_next(&wire->control));
	send_bytes(wire, "ng\n", 3);
	assert_string_equal(control_next(&wire->control), "ping");
	assert_null(control_next(&wire->control));
	assert_false(control_read(&wire->control) && wire->control.fd < 0);
}

/* What no newline ends for long is thrown away up to the newline, and answered then; what follows it is a line again.
 */
static void test_line_without_end(void **state)
{
	struct wire *wire = *state;
	char junk[CONTROL_LINE_BYTES], answer[64];
	int answers[2];

	memset(junk, 'x', sizeof(junk));
	for (int i = 0; i < 10; i++) {
		send_bytes(wire, junk, sizeof(junk));
		assert_null(control_next(&wire->control));
	}
	assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
	wire->control.ack_fd = answers[1];
	send_bytes(wire, "yy\nping\n", 8);
	while (control_read(&wire->control))
		;
	assert_string_equal(control_next(&wire->control), "ping");
	close(answers[1]);
	assert_int_equal(read(answers[0], answer, sizeof(answer)), 21); /* once */
	assert_memory_equal(answer, "error: line too long\n", 21);
	close(answers[0]);
	wire->control.ack_fd = -1;
	assert_null(control_next(&wire->control));
}

static void test_other_side_closes(void **state)
{
	struct wire *wire = *state;

	send_bytes(wire, "ping\n", 5);
	close(wire->in);
	wire->in = -1;
	assert_string_equal(control_next(&wire->control), "ping");
	assert_false(control_read(&wire->control));
	assert_int_equal(wire->control.fd, -1);
	assert_null(control_next(&wire->control));
	assert_false(control_read(&wire->control));
}

/* A pipe that is not read takes what it can hold, and then nothing: without waiting. */
static void test_reply_that_is_not_read(void **state)
{
	struct wire *wire = *state;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	wire->control.ack_fd = fds[1];
	for (int i = 0; i < 100000; i++)
		control_reply(&wire->control, "ack\n");
	close(fds[0]);
	close(fds[1]);
	wire->control.ack_fd = -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_spec),
		cmocka_unit_test_setup_teardown(test_lines, open_wire, close_wire),
		cmocka_unit_test_setup_teardown(test_line_without_end, open_wire, close_wire),
		cmocka_unit_test_setup_teardown(test_other_side_closes, open_wire, close_wire),
		cmocka_unit_test_setup_teardown(test_reply_that_is_not_read, open_wire, close_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
