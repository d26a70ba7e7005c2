/* SPDX-License-Identifier: MIT */
/* What top keeps of a stream: all of it, wherever the bytes that come are cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/top_history.h"
#include "session_file.h"

/* As file_build_pipe(), whose feature of odd size would leave all that follows it unaligned. */
static void build(struct buf *out)
{
	struct file_events file;

	file_events_init(&file);
	header_encode_pipe(out);
	for (unsigned i = 0; i < 2; i++)
		file_put_attr(out, &file.events[i]);
	size_t at = file_begin(out, RECORD_TRACING_DATA, 0);
	buf_put_u32(out, 13); /* 16 with the padding that belongs to it */
	buf_put_u32(out, 0);
	file_end(out, at);
	buf_put(out, "tracing bytes\0\0", 16);
	file_put_records(out);
}

/* Fed with so many bytes at a time. */
static void keep(const struct buf *stream, size_t step, struct buf *ret)
{
	struct top_history *history = top_history_new(1 << 20);

	assert_non_null(history);
	for (size_t at = 0; at < stream->len; at += step) {
		size_t left = stream->len - at;
		assert_int_equal(top_history_add(history, stream->data + at, left < step ? left : step), 0);
	}
	assert_int_equal(top_history_copy(history, ret), 0);
	top_history_free(history);
}

static void test_cut_anywhere(void **state)
{
	struct buf stream = {0}, whole = {0};

	(void)state;
	build(&stream);
	keep(&stream, stream.len, &whole);
	/* A mark that is the last is kept with what comes behind it. */
	assert_in_range(whole.len, stream.len - sizeof(struct perf_event_header), stream.len);
	for (size_t step = 1; step < stream.len; step++) {
		struct buf kept = {0};
		keep(&stream, step, &kept);
		assert_int_equal(kept.len, whole.len);
		assert_memory_equal(kept.data, whole.data, whole.len);
		buf_fini(&kept);
	}
	buf_fini(&whole);
	buf_fini(&stream);
}

/* Each record is larger than what is copied of the next bytes to complete one. */
static void test_large_records(void **state)
{
	enum { RECORD_BYTES = 20000, NR = 9 };
	struct buf stream = {0};

	(void)state;
	build(&stream);
	for (unsigned i = 0; i < NR; i++) {
		uint8_t record[RECORD_BYTES] = {0};
		*(struct perf_event_header *)record = (struct perf_event_header){
			.type = i % 2 ? PERF_RECORD_SAMPLE : PERF_RECORD_COMM, .size = RECORD_BYTES};
		record[RECORD_BYTES - 1] = (uint8_t)i;
		buf_put(&stream, record, sizeof(record));
	}
	for (size_t step = 1000; step < 50000; step += 777) {
		struct buf kept = {0};
		keep(&stream, step, &kept);
		assert_int_equal(kept.len, stream.len);
		assert_memory_equal(kept.data + kept.len - NR * RECORD_BYTES,
				    stream.data + stream.len - NR * RECORD_BYTES, NR * RECORD_BYTES);
		buf_fini(&kept);
	}
	buf_fini(&stream);
}

static void test_no_stream(void **state)
{
	static const uint8_t bytes[64] = {0}; /* a record of no size, behind what should be a header */
	struct top_history *history = top_history_new(1 << 20);

	(void)state;
	assert_int_equal(top_history_add(history, bytes, sizeof(bytes)), -EBADMSG);
	top_history_free(history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_large_records),
		cmocka_unit_test(test_no_stream),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
