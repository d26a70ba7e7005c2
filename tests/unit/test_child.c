/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/agent/child.h"

enum { LINES = 40000, LINE_BYTES = 200, MOST_BYTES = 3 << 20 /* with a huge page */, STATUS = 7 };

struct ends {
	int said[2], go[2]; /* pipes: to the parent, and back */
};

/* Writes very much, and waits. */
static int run(void *ctx)
{
	struct ends *ends = ctx;
	char byte = 0;

	for (int i = 0; i < LINES; i++)
		fprintf(stderr, "millrace: line %*d\n", LINE_BYTES, i);
	if (write(ends->said[1], &byte, 1) != 1 || read(ends->go[0], &byte, 1) != 1)
		return 1;
	fprintf(stderr, "millrace: the last line\n");
	return STATUS;
}

/* It may run for months. */
static void messages_take_no_more_memory_than_the_last_of_them(void **state)
{
	struct child child = {0};
	struct ends ends;
	char message[CHILD_MESSAGE_BYTES], byte;
	struct stat st;
	int status;

	(void)state;
	assert_false(child_reap(&child, &status));
	assert_int_equal(pipe(ends.said), 0);
	assert_int_equal(pipe(ends.go), 0);
	assert_int_equal(child_start(&child, run, &ends, NULL), 0);
	assert_int_equal(read(ends.said[0], &byte, 1), 1);
	assert_false(child_reap(&child, &status));
	assert_int_equal(fstat(child.message_fd, &st), 0);
	assert_true(st.st_size > LINES * LINE_BYTES);
	assert_true(st.st_blocks * 512 <= MOST_BYTES);
	assert_int_equal(write(ends.go[1], &byte, 1), 1);
	while (!child_reap(&child, &status))
		usleep(1000);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
	child_message(&child, message);
	assert_string_equal(message, "the last line");
	for (int i = 0; i < 2; i++) {
		close(ends.said[i]);
		close(ends.go[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_take_no_more_memory_than_the_last_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
