/* SPDX-License-Identifier: MIT */
/* The front of a file, written and read; and what is none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "perfdata/attr.h"
#include "perfdata/header.h"

static void test_round_trip(void **state)
{
	uint64_t ids[] = {11, 12, 13};
	const struct event_desc events[] = {
		{.attr = {.type = 1, .size = 136, .config = 3, .sample_type = 7}, .ids = ids, .nr_ids = 2},
		{.attr = {.type = 2, .config = 300}, .ids = ids + 2, .nr_ids = 1},
	};
	struct buf out = {0};
	struct file_header written, read;
	struct perf_event_attr attr;
	size_t size;
	bool pipe = true;

	(void)state;
	assert_int_equal(header_encode(events, 2, &out, &written), 0);
	assert_int_equal(out.len, 104 + 3 * 8 + 2 * 144);
	assert_int_equal(header_decode(buf_span(&out), &read, &pipe, NULL), 0);
	assert_false(pipe);
	assert_memory_equal(&read, &written, sizeof(read));
	assert_int_equal(read.attr_size, 144);
	assert_int_equal(read.data.offset, out.len);
	assert_int_equal(read.data.size, 0);

	struct span at = {out.data + read.attrs.offset, read.attrs.size};
	assert_int_equal(attr_decode(at, &attr, &size), 0);
	assert_int_equal(size, 128);
	assert_int_equal(attr.size, 128); /* whatever the writer's attr said */
	assert_int_equal(attr.config, 3);
	struct file_section section;
	memcpy(&section, out.data + read.attrs.offset + 144 + 128, sizeof(section));
	assert_int_equal(section.offset, 104 + 2 * 8);
	assert_int_equal(section.size, 8);
	buf_fini(&out);
}

static void test_pipe(void **state)
{
	struct buf out = {0};
	struct file_header read;
	bool pipe = false;

	(void)state;
	header_encode_pipe(&out);
	assert_int_equal(out.len, 16);
	assert_int_equal(header_decode(buf_span(&out), &read, &pipe, NULL), 0);
	assert_true(pipe);
	assert_int_equal(read.size, 16);
	buf_fini(&out);
}

static void expect_refusal(const void *bytes, size_t len, const char *why)
{
	void *copy = malloc(len ? len : 1);
	struct file_header header = {.magic = 42};
	struct diag diag = {0};
	bool pipe;

	memcpy(copy, bytes, len);
	assert_int_equal(header_decode((struct span){copy, len}, &header, &pipe, &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, why));
	assert_int_equal(header.magic, 42);
	free(copy);
}

static void test_foreign_files(void **state)
{
	struct file_header header = {.magic = LAYOUT_MAGIC, .size = 104};

	(void)state;
	for (size_t len = 0; len < 16; len++)
		expect_refusal(&header, len, "only");
	for (size_t len = 16; len < 104; len++)
		expect_refusal(&header, len, "inside the header");
	header.size = 96;
	expect_refusal(&header, sizeof(header), "offset 8");
	header.magic = LAYOUT_MAGIC_SWAPPED;
	expect_refusal(&header, sizeof(header), "byte order");
	expect_refusal("PERFFILE12345678", 16, "2010");
	expect_refusal("\177ELF............", 16, "not a perf.data file");
}

static void test_header_without_features(void **state)
{
	struct file_header header = {.magic = LAYOUT_MAGIC, .size = 72, .attr_size = 80}, read;
	bool pipe;

	(void)state;
	memset(header.features, 0xff, sizeof(header.features)); /* what comes behind is not the header's */
	assert_int_equal(header_decode((struct span){&header, sizeof(header)}, &read, &pipe, NULL), 0);
	assert_int_equal(read.attr_size, 80);
	assert_int_equal(read.features[0], 0);
}

static void test_attr_of_any_size(void **state)
{
	(void)state;
	for (uint32_t size = 64; size <= 256; size += 8) {
		uint8_t *bytes = malloc(size);
		struct perf_event_attr attr;
		size_t taken;

		memset(bytes, 0x5a, size);
		memcpy(bytes + 4, &size, sizeof(size));
		assert_int_equal(attr_decode((struct span){bytes, size}, &attr, &taken), 0);
		assert_int_equal(taken, size);
		assert_int_equal(attr.sample_regs_user, size >= 88 ? 0x5a5a5a5a5a5a5a5aull : 0);
		assert_int_equal(attr_decode((struct span){bytes, size - 1}, &attr, &taken), -EBADMSG);
		free(bytes);
	}
	uint8_t old[64] = {0};
	struct perf_event_attr attr;
	size_t taken;
	assert_int_equal(attr_decode((struct span){old, 64}, &attr, &taken), 0);
	assert_int_equal(taken, 64);
	old[4] = 63;
	assert_int_equal(attr_decode((struct span){old, 64}, &attr, &taken), -EBADMSG);
}

static void expect_name(const struct perf_event_attr *attr, const char *name)
{
	char *got = attr_name(attr);

	assert_string_equal(got, name);
	free(got);
}

static void test_names(void **state)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .exclude_guest = 1};

	(void)state;
	expect_name(&attr, "cpu-clock");
	attr.exclude_guest = 0;
	expect_name(&attr, "cpu-clock:HG");
	attr = (struct perf_event_attr){.exclude_guest = 1, .exclude_kernel = 1, .exclude_hv = 1, .precise_ip = 2};
	expect_name(&attr, "cycles:uppH");
	attr = (struct perf_event_attr){.type = PERF_TYPE_HW_CACHE, .config = 0x10003, .exclude_guest = 1};
	expect_name(&attr, "dTLB-load-misses");
	attr.config = 0xffffff;
	expect_name(&attr, "cache 0xffffff");
	attr = (struct perf_event_attr){.type = PERF_TYPE_TRACEPOINT, .config = 316};
	expect_name(&attr, "tracepoint 316");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_foreign_files),    cmocka_unit_test(test_header_without_features),
		cmocka_unit_test(test_attr_of_any_size), cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
