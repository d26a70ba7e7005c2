/* SPDX-License-Identifier: MIT */
/* The blob that describes tracepoints, made from a tracefs of our own. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/span.h"
#include "record/features/features_private.h"

static const char *const dirs[] = {"events",        "events/sched",       "events/sched/switch", "events/sched/wakeup",
				   "events/ftrace", "events/ftrace/print"};
static const char *const files[] = {
	"events/header_page",
	"events/header_event",
	"events/sched/switch/format",
	"events/sched/wakeup/format",
	"events/ftrace/print/format",
	"printk_formats",
	"saved_cmdlines",
};

/* Every file holds its own path. */
static int make_tree(void **state)
{
	static char root[] = "/tmp/millrace-tracing-XXXXXX";
	char path[PATH_MAX];

	if (!mkdtemp(root))
		return -1;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		if (mkdir(path, 0700))
			return -1;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, files[i]);
		FILE *file = fopen(path, "we");
		if (!file || fputs(files[i], file) < 0 || fclose(file))
			return -1;
	}
	*state = root;
	return 0;
}

static int remove_tree(void **state)
{
	char path[PATH_MAX];

	for (size_t i = sizeof(files) / sizeof(files[0]); i--;) {
		snprintf(path, sizeof(path), "%s/%s", (char *)*state, files[i]);
		unlink(path);
	}
	for (size_t i = sizeof(dirs) / sizeof(dirs[0]); i--;) {
		snprintf(path, sizeof(path), "%s/%s", (char *)*state, dirs[i]);
		rmdir(path);
	}
	return rmdir(*state);
}

static void expect_name(struct cursor *at, const char *name)
{
	const char *got = cursor_string(at, strlen(name) + 1);

	assert_non_null(got);
	assert_string_equal(got, name);
}

static void expect_text(struct cursor *at, uint64_t len, const char *text)
{
	const void *got = cursor_take(at, len);

	assert_int_equal(len, strlen(text));
	assert_non_null(got);
	assert_memory_equal(got, text, len);
}

static void test_layout(void **state)
{
	const char *const names[] = {"sched:wakeup", "ftrace:print", "sched:wakeup"};
	struct buf out = {0};
	struct diag diag = {""};

	assert_int_equal(tracing_data_read(*state, names, 3, &out, &diag), 0);
	struct cursor at = cursor_over(buf_span(&out));
	expect_text(&at, 10, "\x17\x08\x44tracing");
	expect_name(&at, "0.6");
	cursor_u8(&at);
	assert_int_equal(cursor_u8(&at), sizeof(long));
	assert_int_equal(cursor_u32(&at), sysconf(_SC_PAGESIZE));
	expect_name(&at, "header_page");
	expect_text(&at, cursor_u64(&at), "events/header_page");
	expect_name(&at, "header_event");
	expect_text(&at, cursor_u64(&at), "events/header_event");
	assert_int_equal(cursor_u32(&at), 1); /* of ftrace */
	expect_text(&at, cursor_u64(&at), "events/ftrace/print/format");
	assert_int_equal(cursor_u32(&at), 1); /* systems */
	expect_name(&at, "sched");
	assert_int_equal(cursor_u32(&at), 1); /* its events */
	expect_text(&at, cursor_u64(&at), "events/sched/wakeup/format");
	assert_int_equal(cursor_u32(&at), 0); /* kallsyms */
	expect_text(&at, cursor_u32(&at), "printk_formats");
	expect_text(&at, cursor_u64(&at), "saved_cmdlines");
	assert_int_equal(cursor_left(&at), 0);
	assert_false(at.bad);
	buf_fini(&out);
}

/* The texts that readers can do without are empty then. The last test: it takes them away. */
static void test_without_texts(void **state)
{
	const char *const names[] = {"sched:wakeup"};
	struct buf with = {0}, without = {0};
	struct diag diag = {""};
	char path[PATH_MAX];

	assert_int_equal(tracing_data_read(*state, names, 1, &with, &diag), 0);
	snprintf(path, sizeof(path), "%s/printk_formats", (char *)*state);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/saved_cmdlines", (char *)*state);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tracing_data_read(*state, names, 1, &without, &diag), 0);
	size_t common = with.len - 4 - strlen("printk_formats") - 8 - strlen("saved_cmdlines");
	assert_int_equal(without.len, common + 4 + 8);
	assert_memory_equal(with.data, without.data, common);
	for (size_t i = common; i < without.len; i++)
		assert_int_equal(((const uint8_t *)without.data)[i], 0);
	buf_fini(&with);
	buf_fini(&without);
}

static void test_refused(void **state)
{
	const char *const unknown[] = {"sched:switch", "sched:nothing"};
	const char *const part[] = {"sched:switc"};
	struct buf out = {0};
	struct diag diag = {""};

	assert_int_equal(tracing_data_read(*state, unknown, 2, &out, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, *state));
	assert_int_equal(tracing_data_read(*state, part, 1, &out, &diag), -ENOENT);
	assert_int_equal(tracing_data_read("/nowhere", part, 1, &out, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "/nowhere/events/header_page"));
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout), cmocka_unit_test(test_refused),
					   cmocka_unit_test(test_without_texts)};

	return cmocka_run_group_tests_name("tracing_data", tests, make_tree, remove_tree);
}
