/* SPDX-License-Identifier: MIT */
/* Recordings built in memory, read back: order, names, ids; and every way of being damaged. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/diag.h"
#include "base/log.h"
#include "read/session.h"
#include "session_file.h"

/* A copy of exactly the bytes, so that a sanitizer sees a read behind them. */
static void *exact(const struct buf *bytes, size_t len)
{
	void *copy = malloc(len ? len : 1);

	memcpy(copy, bytes->data, len);
	return copy;
}

static void expect_record(struct session *session, uint32_t type, uint64_t time, const char *event)
{
	struct session_record record;

	assert_int_equal(session_next(session, &record, NULL), 1);
	assert_int_equal(record.view.header->type, type);
	assert_int_equal(record.sample.time, time);
	assert_int_equal(session_info(session)->position, record.view.offset);
	if (event)
		assert_string_equal(record.event->name, event);
	else
		assert_null(record.event);
}

static void expect_end(struct session *session, int result, const char *why)
{
	struct session_record record;
	struct diag diag = {0};

	for (unsigned i = 0; i < 2; i++) { /* it stays the end */
		assert_int_equal(session_next(session, &record, &diag), result);
		if (why)
			assert_non_null(strstr(diag.text, why));
	}
}

static void expect_sorted_records(struct session *session, const char *second)
{
	expect_record(session, PERF_RECORD_COMM, 0, "renamed");
	expect_record(session, PERF_RECORD_SAMPLE, 10, "renamed");
	expect_record(session, PERF_RECORD_COMM, 20, "renamed");
	expect_record(session, PERF_RECORD_SAMPLE, 30, second);
	expect_record(session, PERF_RECORD_SAMPLE, 35, second);
	expect_record(session, PERF_RECORD_SAMPLE, 40, "renamed");
}

static void test_file_by_time(void **state)
{
	struct buf bytes = {0};
	struct session *session;
	size_t nr;

	(void)state;
	file_build(&bytes);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
	assert_false(session_info(session)->pipe);
	session_events(session, &nr);
	assert_int_equal(nr, 2);
	expect_sorted_records(session, "sched:sched_switch");
	expect_end(session, 0, NULL);
	session_close(session);
	buf_fini(&bytes);
}

static void test_file_as_it_lies(void **state)
{
	static const uint32_t types[] = {PERF_RECORD_COMM,   PERF_RECORD_SAMPLE,    PERF_RECORD_SAMPLE,
					 PERF_RECORD_COMM,   RECORD_FINISHED_ROUND, PERF_RECORD_SAMPLE,
					 PERF_RECORD_SAMPLE, RECORD_FINISHED_ROUND};
	struct buf bytes = {0};
	struct session *session;
	struct session_record record;

	(void)state;
	file_build(&bytes);
	assert_int_equal(session_open_memory(buf_span(&bytes), SESSION_FILE_ORDER, &session, NULL), 0);
	uint64_t offset = session_info(session)->header.data.offset;
	for (unsigned i = 0; i < FILE_NR_RECORDS + FILE_NR_MARKS; i++) {
		assert_int_equal(session_next(session, &record, NULL), 1);
		assert_int_equal(record.view.header->type, types[i]);
		assert_int_equal(record.view.offset, offset);
		offset += record.view.header->size;
	}
	expect_end(session, 0, NULL);
	session_close(session);
	buf_fini(&bytes);
}

static void expect_feature(const struct session *session, enum feature_bit bit, const char *text, size_t len)
{
	struct span payload;

	assert_true(session_feature(session, bit, &payload));
	assert_int_equal(payload.len, len);
	assert_memory_equal(payload.ptr, text, len);
}

static void expect_pipe(struct session *session)
{
	struct session_record record;
	struct span payload;

	assert_true(session_info(session)->pipe);
	assert_false(session_feature(session, FEATURE_HOSTNAME, &payload));
	for (unsigned i = 0; i < FILE_NR_PIPE_FRONT; i++) {
		assert_int_equal(session_next(session, &record, NULL), 1);
		assert_null(record.event);
	}
	expect_feature(session, FEATURE_HOSTNAME, "\5\0\0\0host\0", 9);
	expect_feature(session, FEATURE_TRACING_DATA, "tracing bytes\0\0", 16);
	expect_sorted_records(session, "tracepoint 316"); /* only the other one was told */
	expect_end(session, 0, NULL);
}

static void test_pipe(void **state)
{
	struct buf bytes = {0};
	struct session *session;

	(void)state;
	file_build_pipe(&bytes);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
	expect_pipe(session);
	session_close(session);
	buf_fini(&bytes);
}

/* So many bytes at a time; each second call is interrupted. */
struct steps {
	struct span left;
	size_t bytes;
	bool interrupted;
};

static ssize_t read_step(void *ctx, void *to, size_t len)
{
	struct steps *steps = ctx;
	size_t bytes = len < steps->bytes ? len : steps->bytes;

	steps->interrupted = !steps->interrupted;
	if (steps->interrupted)
		return -EINTR;
	bytes = bytes < steps->left.len ? bytes : steps->left.len;
	memcpy(to, steps->left.ptr, bytes);
	steps->left = (struct span){(const char *)steps->left.ptr + bytes, steps->left.len - bytes};
	return (ssize_t)bytes;
}

static ssize_t fail_to_read(void *ctx, void *to, size_t len)
{
	(void)ctx, (void)to, (void)len;
	return -EIO;
}

static void test_stream(void **state)
{
	struct buf bytes = {0};
	struct session *session;
	struct diag diag;

	(void)state;
	file_build_pipe(&bytes);
	for (size_t step = 1; step < 100; step += 7) {
		struct steps steps = {.left = buf_span(&bytes), .bytes = step};
		struct session_stream stream = {.read = read_step, .ctx = &steps};
		assert_int_equal(session_open_stream(stream, 0, &session, NULL), 0);
		expect_pipe(session);
		session_close(session);
	}
	assert_int_equal(session_open_stream((struct session_stream){.read = fail_to_read}, 0, &session, &diag), -EIO);
	buf_fini(&bytes);
}

/* How many records end at or before `len`, reading as they lie; TRACING_DATA owns what follows it. */
static unsigned whole_records(const struct buf *bytes, size_t start, size_t len)
{
	unsigned nr = 0;

	for (size_t at = start; at + sizeof(struct perf_event_header) <= len;) {
		struct perf_event_header header;
		memcpy(&header, bytes->data + at, sizeof(header));
		at += header.size + (header.type == RECORD_TRACING_DATA ? 16 : 0);
		nr += at <= len;
	}
	return nr;
}

static unsigned count_records(struct session *session, int *ret_result)
{
	struct session_record record;
	unsigned nr = 0;

	while ((*ret_result = session_next(session, &record, NULL)) > 0)
		nr++;
	return nr;
}

static void test_file_cut_anywhere(void **state)
{
	struct buf bytes = {0};
	struct file_header header;

	(void)state;
	file_build(&bytes);
	memcpy(&header, bytes.data, sizeof(header));
	for (size_t len = 0; len <= bytes.len; len++) {
		void *copy = exact(&bytes, len);
		struct session *session;
		struct diag diag = {0};
		int result;
		int err = session_open_memory((struct span){copy, len}, SESSION_FILE_ORDER, &session, &diag);

		assert_int_equal(err, len < header.data.offset ? -EBADMSG : 0);
		if (!err) {
			uint64_t end = header.data.offset + header.data.size;
			unsigned nr = count_records(session, &result);
			assert_int_equal(nr, whole_records(&bytes, header.data.offset, len < end ? len : end));
			assert_int_equal(result, len < bytes.len ? -EBADMSG : 0);
			session_close(session);
		} else {
			assert_true(diag.text[0]);
		}
		free(copy);
	}
	buf_fini(&bytes);
}

static void test_pipe_cut_anywhere(void **state)
{
	struct buf bytes = {0};

	(void)state;
	file_build_pipe(&bytes);
	for (size_t len = 16; len <= bytes.len; len++) {
		void *copy = exact(&bytes, len);
		struct session *session;
		int result;

		assert_int_equal(session_open_memory((struct span){copy, len}, SESSION_FILE_ORDER, &session, NULL), 0);
		unsigned nr = count_records(session, &result);
		assert_int_equal(nr, whole_records(&bytes, 16, len));
		bool at_an_end = len == 16 || whole_records(&bytes, 16, len - 1) < nr;
		assert_int_equal(result, at_an_end ? 0 : -EBADMSG);
		session_close(session);
		free(copy);
	}
	buf_fini(&bytes);
}

/*
 * The recorder was killed: no data size, whatever the feature bits say; all is delivered, sorted, before the failure.
 */
static void test_unfinished(void **state)
{
	struct buf bytes = {0};
	struct file_header header;
	struct session *session;
	struct span payload;

	(void)state;
	file_build(&bytes);
	memcpy(&header, bytes.data, sizeof(header));
	bytes.len = header.data.offset + header.data.size;
	header.data.size = 0;
	memcpy(bytes.data, &header, sizeof(header));
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
	assert_false(session_feature(session, FEATURE_EVENT_DESC, &payload));
	expect_record(session, PERF_RECORD_COMM, 0, "cpu-clock:HG");
	expect_record(session, PERF_RECORD_SAMPLE, 10, "cpu-clock:HG");
	expect_record(session, PERF_RECORD_COMM, 20, "cpu-clock:HG");
	expect_record(session, PERF_RECORD_SAMPLE, 30, "tracepoint 316");
	expect_record(session, PERF_RECORD_SAMPLE, 35, "tracepoint 316");
	expect_record(session, PERF_RECORD_SAMPLE, 40, "cpu-clock:HG");
	expect_end(session, -EBADMSG, "not finished");
	session_close(session);
	buf_fini(&bytes);
}

/* A part of a rotation in which nothing happened is finished; when its table is cut off that cannot be known. */
static void test_no_records(void **state)
{
	struct buf bytes = {0}, whole = {0};
	struct file_header header;
	struct feature_set features = {0};
	struct session *session;
	struct span payload;

	(void)state;
	file_build(&whole);
	memcpy(&header, whole.data, sizeof(header));
	buf_put(&bytes, whole.data, header.data.offset);
	header.data.size = 0;
	memset(header.features, 0, sizeof(header.features));
	struct buf host = {0};
	feature_put_string(&host, "somewhere");
	feature_set_add(&features, FEATURE_HOSTNAME, &host);
	feature_set_encode(&features, bytes.len, &bytes, header.features);
	feature_set_fini(&features);
	memcpy(bytes.data, &header, sizeof(header));
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
	assert_true(session_feature(session, FEATURE_HOSTNAME, &payload));
	expect_end(session, 0, NULL);
	session_close(session);
	bytes.len = header.data.offset + sizeof(struct file_section) - 1;
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
	assert_false(session_feature(session, FEATURE_HOSTNAME, &payload));
	session_close(session);
	buf_fini(&bytes);
	buf_fini(&whole);
}

/* A file of an earlier version: its private sections are features, with bits of their own. */
static void file_build_old(struct buf *bytes)
{
	static const char *const payloads[] = {"somewhere", "index", "ledger"};
	static const unsigned bits[] = {FEATURE_HOSTNAME, FEATURE_EXTENT_INDEX, FEATURE_LEDGER};
	struct file_events file;
	struct file_header header;

	file_events_init(&file);
	header_encode(file.events, 2, bytes, &header);
	file_put_records(bytes);
	header.data.size = bytes->len - header.data.offset;
	uint64_t next = bytes->len + sizeof(struct file_section) * 3;
	for (size_t i = 0; i < 3; i++) {
		struct file_section section = {next, strlen(payloads[i])};
		buf_put(bytes, &section, sizeof(section));
		next += section.size;
		header.features[bits[i] / 64] |= (uint64_t)1 << bits[i] % 64;
	}
	for (size_t i = 0; i < 3; i++)
		buf_put_text(bytes, payloads[i]);
	memcpy(bytes->data, &header, sizeof(header));
}

static void test_old_private(void **state)
{
	struct buf bytes = {0};
	struct session *session;

	(void)state;
	file_build_old(&bytes);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
	expect_feature(session, FEATURE_HOSTNAME, "somewhere", 9);
	expect_feature(session, FEATURE_EXTENT_INDEX, "index", 5);
	expect_feature(session, FEATURE_LEDGER, "ledger", 6);
	session_close(session);
	buf_fini(&bytes);
}

static void put_private(struct feature_set *set, enum feature_bit bit, const char *text)
{
	struct buf payload = {0};

	buf_put_text(&payload, text);
	assert_int_equal(feature_set_add(set, bit, &payload), 0);
}

/* Private sections are found with records and without any; damaged they are left out, and all else is read. */
static void test_private(void **state)
{
	(void)state;
	for (unsigned with_records = 0; with_records < 2; with_records++) {
		struct file_events file;
		struct file_header header;
		struct feature_set set = {0};
		struct buf bytes = {0};
		struct session *session;
		struct span payload;

		file_events_init(&file);
		header_encode(file.events, 2, &bytes, &header);
		if (with_records)
			file_put_records(&bytes);
		header.data.size = bytes.len - header.data.offset;
		put_private(&set, FEATURE_LEDGER, "ledger");
		put_private(&set, FEATURE_HOSTNAME, "somewhere");
		size_t table = bytes.len;
		assert_int_equal(feature_set_encode(&set, table, &bytes, header.features), 0);
		feature_set_fini(&set);
		memcpy(bytes.data, &header, sizeof(header));
		assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
		expect_feature(session, FEATURE_LEDGER, "ledger", 6);
		expect_feature(session, FEATURE_HOSTNAME, "somewhere", 9);
		session_close(session);

		bytes.data[table + sizeof(struct file_section) + sizeof(struct private_header)] ^= 1;
		assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, NULL), 0);
		assert_false(session_feature(session, FEATURE_LEDGER, &payload));
		if (with_records) /* without any only a sound block tells that this is the table */
			expect_feature(session, FEATURE_HOSTNAME, "somewhere", 9);
		session_close(session);
		buf_fini(&bytes);
	}
}

/* A file whose last record is one of the test's own; everything before it must be delivered all the same. */
static struct session *open_with_last(struct buf *bytes, void (*put)(struct buf *out), size_t *ret_offset)
{
	struct file_events file;
	struct file_header header;
	struct session *session;

	file_events_init(&file);
	header_encode(file.events, 2, bytes, &header);
	file_put_records(bytes);
	*ret_offset = bytes->len;
	put(bytes);
	header.data.size = bytes->len - header.data.offset;
	memcpy(bytes->data, &header, sizeof(header));
	assert_int_equal(session_open_memory(buf_span(bytes), 0, &session, NULL), 0);
	return session;
}

static void put_unknown_id(struct buf *out)
{
	file_put_sample(out, 50, 999);
}

static void put_short_sample(struct buf *out)
{
	size_t at = file_begin(out, PERF_RECORD_SAMPLE, 0);

	buf_put_u64(out, 1);
	file_end(out, at);
}

/* Long enough for id and time, not for the call chain. */
static void put_cut_chain(struct buf *out)
{
	size_t at = out->len;

	file_put_sample(out, 5, FILE_ID_CLOCK);
	out->len -= 8;
	file_end(out, at);
}

static void put_zeroes(struct buf *out)
{
	buf_extend(out, 64);
}

static void put_compressed(struct buf *out)
{
	size_t at = file_begin(out, RECORD_COMPRESSED, 0);

	buf_put_u64(out, 0);
	file_end(out, at);
}

static void put_long(struct buf *out)
{
	size_t at = file_begin(out, PERF_RECORD_COMM, 0);

	buf_extend(out, 24);
	file_end(out, at);
	out->len -= 8;
}

static void put_wild_auxtrace(struct buf *out)
{
	size_t at = file_begin(out, RECORD_AUXTRACE, 0);

	buf_put_u64(out, UINT64_MAX - 7);
	buf_extend(out, 32);
	file_end(out, at);
}

/* It ends where the data does, but a recorder writes none of this size. */
static void put_odd_unknown(struct buf *out)
{
	size_t at = file_begin(out, UINT32_MAX, 0);

	buf_extend(out, 9);
	file_end(out, at);
}

static void put_short_attr(struct buf *out)
{
	size_t at = file_begin(out, RECORD_HEADER_ATTR, 0);

	buf_extend(out, 40);
	file_end(out, at);
}

static void test_bad_records(void **state)
{
	static const struct {
		void (*put)(struct buf *out);
		int result;
		const char *why;
	} cases[] = {
		{put_unknown_id, -EBADMSG, "does not describe"}, {put_short_sample, -EBADMSG, "too short"},
		{put_cut_chain, -EBADMSG, "too short"},          {put_zeroes, -EBADMSG, "no record"},
		{put_compressed, -EBADMSG, "missing"},           {put_long, -EBADMSG, "cut off"},
		{put_wild_auxtrace, -EBADMSG, "cut off"},        {put_short_attr, -EBADMSG, "not whole"},
		{put_odd_unknown, -EBADMSG, "multiple of 8"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf bytes = {0};
		struct session_record record;
		struct diag diag = {0};
		char offset[32];
		size_t at;
		struct session *session = open_with_last(&bytes, cases[i].put, &at);

		snprintf(offset, sizeof(offset), "offset %#zx:", at);
		for (unsigned nr = 0; nr < FILE_NR_RECORDS; nr++)
			assert_int_equal(session_next(session, &record, &diag), 1);
		assert_int_equal(session_next(session, &record, &diag), cases[i].result);
		assert_non_null(strstr(diag.text, offset));
		assert_non_null(strstr(diag.text, cases[i].why));
		session_close(session);
		buf_fini(&bytes);
	}
}

/* In the midst of others: they are delivered, and the end tells. */
static void test_unknown_ids_are_left_out(void **state)
{
	struct buf bytes = {0};
	struct file_events file;
	struct session *session;
	struct session_record record;
	struct diag diag = {0};
	size_t samples = 0, at = 0;
	int got;

	(void)state;
	file_events_init(&file);
	header_encode_pipe(&bytes);
	for (unsigned i = 0; i < 2; i++)
		file_put_attr(&bytes, &file.events[i]);
	for (unsigned i = 1; i <= 9; i++) {
		if (i == 2)
			at = bytes.len;
		file_put_sample(&bytes, i, i % 4 == 2 ? 999 : FILE_ID_CLOCK);
	}
	assert_int_equal(session_open_memory((struct span){bytes.data, bytes.len}, 0, &session, &diag), 0);
	while ((got = session_next(session, &record, &diag)) == 1)
		samples += record.view.header->type == PERF_RECORD_SAMPLE;
	char expected[64];
	snprintf(expected, sizeof(expected), "offset %#zx: the first of 2 samples", at);
	assert_int_equal(got, -EBADMSG);
	assert_int_equal(samples, 7);
	assert_non_null(strstr(diag.text, expected));
	assert_int_equal(session_next(session, &record, &diag), -EBADMSG);
	session_close(session);
	buf_fini(&bytes);
}

static void put_unknown_types(struct buf *out)
{
	static const uint32_t types[] = {0, 40, 4000000000u};

	for (unsigned i = 0; i < 3; i++)
		file_end(out, file_begin(out, types[i], 0));
	file_put_comm(out, 41, "last");
}

static void test_unknown_types_are_skipped(void **state)
{
	struct buf bytes = {0};
	size_t at;
	struct session *session = open_with_last(&bytes, put_unknown_types, &at);

	(void)state;
	for (unsigned i = 0; i < FILE_NR_RECORDS; i++) {
		struct session_record record;
		assert_int_equal(session_next(session, &record, NULL), 1);
	}
	expect_record(session, PERF_RECORD_COMM, 41, "cpu-clock:HG");
	expect_end(session, 0, NULL);
	session_close(session);
	buf_fini(&bytes);
}

/* Without ids in the samples it is not known which event they are of. */
static void test_events_without_ids(void **state)
{
	struct file_events file;
	struct file_header header;
	struct session *session;
	struct diag diag = {0};
	struct buf bytes = {0};

	(void)state;
	file_events_init(&file);
	file.events[0].attr.sample_type &= ~(uint64_t)PERF_SAMPLE_ID;
	file.events[1].attr.sample_type &= ~(uint64_t)PERF_SAMPLE_ID;
	header_encode(file.events, 2, &bytes, &header);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, "id"));
	buf_fini(&bytes);

	file_events_init(&file);
	file.events[1].attr.sample_type |= PERF_SAMPLE_ADDR; /* in front of the id */
	header_encode(file.events, 2, &bytes, &header);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, "different places"));
	buf_fini(&bytes);
}

static void check_pipe_of(const struct file_events *file, const char *why)
{
	struct buf bytes = {0};
	struct session *session;
	struct session_record record;
	struct diag diag = {0};
	char expected[64];
	int got;

	header_encode_pipe(&bytes);
	file_put_attr(&bytes, &file->events[0]);
	snprintf(expected, sizeof(expected), "offset %#zx: ", bytes.len);
	file_put_attr(&bytes, &file->events[1]);
	file_put_sample(&bytes, 1, FILE_ID_CLOCK);
	assert_int_equal(session_open_memory(buf_span(&bytes), 0, &session, &diag), 0);
	while ((got = session_next(session, &record, &diag)) == 1)
		assert_int_not_equal(record.view.header->type, PERF_RECORD_SAMPLE);
	assert_int_equal(got, -EBADMSG);
	assert_non_null(strstr(diag.text, expected));
	assert_non_null(strstr(diag.text, why));
	session_close(session);
	buf_fini(&bytes);
}

/* Nor in a pipe: its samples are not those of the first event. */
static void test_pipe_of_events_without_ids(void **state)
{
	struct file_events file;

	(void)state;
	file_events_init(&file);
	file.events[0].attr.sample_type &= ~(uint64_t)PERF_SAMPLE_ID;
	file.events[1].attr.sample_type &= ~(uint64_t)PERF_SAMPLE_ID;
	check_pipe_of(&file, "no id");
	file_events_init(&file);
	file.events[1].attr.sample_type |= PERF_SAMPLE_ADDR; /* in front of the id */
	check_pipe_of(&file, "different places");
}

/* Records of old kernels have no trailer (sample_id_all): only samples have a time, the others come as they lie. */
static void test_records_without_trailers(void **state)
{
	static const uint32_t types[] = {PERF_RECORD_COMM, PERF_RECORD_SAMPLE, PERF_RECORD_SAMPLE, PERF_RECORD_COMM};
	const struct event_desc event = {.attr = {.type = PERF_TYPE_SOFTWARE,
						  .size = LAYOUT_ATTR_BYTES,
						  .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME}};
	struct file_header header;
	struct session *session;
	struct buf bytes = {0};

	(void)state;
	header_encode(&event, 1, &bytes, &header);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		size_t at = file_begin(&bytes, types[i], PERF_RECORD_MISC_USER);
		buf_put_u64(&bytes, 7ull << 32 | 7);
		buf_put_u64(&bytes, types[i] == PERF_RECORD_SAMPLE ? 100 - i : 0x6d6d6f63 /* "comm" */);
		file_end(&bytes, at);
	}
	header.data.size = bytes.len - header.data.offset;
	memcpy(bytes.data, &header, sizeof(header));
	void *copy = exact(&bytes, bytes.len);
	assert_int_equal(session_open_memory((struct span){copy, bytes.len}, 0, &session, NULL), 0);
	expect_record(session, PERF_RECORD_COMM, 0, "cpu-clock:HG");
	expect_record(session, PERF_RECORD_COMM, 0, "cpu-clock:HG");
	expect_record(session, PERF_RECORD_SAMPLE, 98, "cpu-clock:HG");
	expect_record(session, PERF_RECORD_SAMPLE, 99, "cpu-clock:HG");
	expect_end(session, 0, NULL);
	session_close(session);
	free(copy);
	buf_fini(&bytes);
}

static void test_what_cannot_be_opened(void **state)
{
	struct session *session;
	struct diag diag = {0};

	(void)state;
	assert_int_equal(session_open("/nowhere/perf.data", 0, &session, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "/nowhere/perf.data"));
	assert_int_equal(session_open("/", 0, &session, &diag), -EISDIR);
	assert_int_equal(session_open("/proc/self/exe", SESSION_FORCE, &session, &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, "not a perf.data file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_by_time),
		cmocka_unit_test(test_file_as_it_lies),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_file_cut_anywhere),
		cmocka_unit_test(test_pipe_cut_anywhere),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_no_records),
		cmocka_unit_test(test_old_private),
		cmocka_unit_test(test_private),
		cmocka_unit_test(test_bad_records),
		cmocka_unit_test(test_unknown_ids_are_left_out),
		cmocka_unit_test(test_unknown_types_are_skipped),
		cmocka_unit_test(test_events_without_ids),
		cmocka_unit_test(test_pipe_of_events_without_ids),
		cmocka_unit_test(test_records_without_trailers),
		cmocka_unit_test(test_what_cannot_be_opened),
	};
	log_set_level(LOG_ERRORS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
