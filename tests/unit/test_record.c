/* SPDX-License-Identifier: MIT */
/* The types of records, and records with a name in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "perfdata/record.h"

/* The first and the last type of the kernel, and of recorders; and those around them. */
static void test_types_have_names(void **state)
{
	static const struct {
		uint32_t type;
		const char *name; /* NULL: not known */
	} types[] = {
		{0, NULL},
		{PERF_RECORD_MMAP, "MMAP"},
		{PERF_RECORD_SAMPLE, "SAMPLE"},
		{21, "AUX_OUTPUT_HW_ID"},
		{RECORD_CALLCHAIN_DEFERRED, "CALLCHAIN_DEFERRED"},
		{RECORD_CALLCHAIN_DEFERRED + 1, NULL},
		{RECORD_USER_FIRST - 1, NULL},
		{RECORD_HEADER_ATTR, "ATTR"},
		{RECORD_COMPRESSED, "COMPRESSED"},
		{RECORD_USER_LAST, "SCHEDSTAT_DOMAIN"},
		{RECORD_USER_LAST + 1, NULL},
		{UINT32_MAX, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_int_equal(record_type_known(types[i].type), !!types[i].name);
		assert_string_equal(record_type_name(types[i].type), types[i].name ? types[i].name : "UNKNOWN");
	}
}

/* A name ends with a zero at least, and the record at a multiple of 8 bytes. */
static void test_names_in_records(void **state)
{
	enum { TRAILER = 16, MOST = 20 };
	const struct perf_event_header fixed = {.type = PERF_RECORD_COMM, .misc = 1};

	(void)state;
	for (size_t len = 0; len < MOST; len++) {
		AUTO_BUF struct buf out = {0};
		struct perf_event_header header;
		record_put(&out, &fixed, sizeof(fixed), (struct span){"a name as long as that", len}, TRAILER);
		memcpy(&header, out.data, sizeof(header));
		assert_int_equal(header.type, PERF_RECORD_COMM);
		assert_int_equal(header.misc, 1);
		assert_int_equal(header.size, out.len);
		assert_int_equal(out.len, sizeof(header) + len / 8 * 8 + 8 + TRAILER);
		assert_memory_equal(out.data + sizeof(header), "a name as long as that", len);
		for (size_t at = sizeof(header) + len; at < out.len; at++)
			assert_int_equal(out.data[at], 0);
	}
	AUTO_BUF struct buf out = {0};
	record_put(&out, &fixed, sizeof(fixed), (struct span){NULL, 0}, TRAILER);
	assert_int_equal(out.len, sizeof(fixed) + TRAILER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types_have_names),
		cmocka_unit_test(test_names_in_records),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
