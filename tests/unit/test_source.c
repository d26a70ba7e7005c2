/* SPDX-License-Identifier: MIT */
/* read/source.h: records of a file and of a pipe, what is left out, what is cut, and COMPRESSED2 records in chunks. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/zstd.h"
#include "perfdata/record.h"
#include "read/source.h"
#include "read/unpack_pool.h"

enum { RECORD_BYTES = 24, MOST_BYTES = UINT16_MAX };

static void put_record(struct buf *out, uint32_t type, size_t size, uint64_t word)
{
	struct perf_event_header header = {.type = type, .size = (uint16_t)size};

	buf_put(out, &header, sizeof(header));
	buf_put_u64(out, word);
	memset(buf_extend(out, size - 16), (int)word, size - 16);
}

static struct source *open_range(const struct buf *bytes, size_t end, enum source_shortage shortage)
{
	struct source_range range = {.whole = buf_span(bytes), .end = end, .shortage = shortage};
	struct source *source;

	assert_int_equal(source_open_range(&range, &source), 0);
	return source;
}

/* The bytes as those of a pipe; a file is one that has all at once. */
static struct source *open_pipe(const struct buf *bytes, size_t len)
{
	static const volatile sig_atomic_t *const stop = NULL;
	int fd = memfd_create("pipe", MFD_CLOEXEC);
	struct source *source;

	assert_int_equal(write(fd, bytes->data, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	assert_int_equal(source_open_pipe(STDIN_FILENO, &stop, &source), 0);
	return source;
}

static void expect_record(struct source *source, uint32_t type, size_t size, uint64_t word)
{
	struct source_record record;
	struct diag why = {""};
	uint64_t found;

	int got = source_next(source, &record, &why);
	if (got != 1)
		fail_msg("%d: %s", got, why.text);
	assert_int_equal((uintptr_t)record.view.header % 8, 0);
	assert_int_equal(record.view.header->type, type);
	assert_int_equal(record.view.header->size, size);
	memcpy(&found, record.view.header + 1, sizeof(found));
	assert_int_equal(found, word);
	assert_int_equal(record.outside.len, 0);
}

static void expect_gap(struct source *source, const char *words)
{
	struct source_record record;
	struct diag why = {""};

	assert_int_equal(source_next(source, &record, &why), SOURCE_GAP);
	if (!strstr(why.text, words))
		fail_msg("%s", why.text);
}

static void expect_end(struct source *source, int result, const char *words)
{
	struct source_record record;
	struct diag why = {""};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(source_next(source, &record, &why), result);
		if (!strstr(why.text, words))
			fail_msg("%s", why.text);
	}
	source_close(source);
}

static void test_what_is_left_out(void **state)
{
	AUTO_BUF struct buf bytes = {0};
	static const struct source_skip skips[] = {
		{RECORD_BYTES, RECORD_BYTES},          {2 * RECORD_BYTES, RECORD_BYTES}, /* right behind it */
		{3 * RECORD_BYTES + 8, RECORD_BYTES},                                    /* at no record: not */
		{4 * RECORD_BYTES, UINT64_MAX},        /* further than there is anything: not */
		{5 * RECORD_BYTES, 4 * RECORD_BYTES},  /* likewise, by one */
		{7 * RECORD_BYTES, 1 * RECORD_BYTES},  /* the last one */
		{20 * RECORD_BYTES, 1 * RECORD_BYTES}, /* behind the end */
	};
	static const uint64_t left[] = {0, 3, 4, 5, 6};

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
	for (int stretches = 0; stretches < 2; stretches++) {
		struct source *source = open_range(&bytes, bytes.len, SOURCE_COMPLETE);
		struct source_skip *list = malloc(sizeof(skips));
		struct source_stretch stretch;
		memcpy(list, skips, sizeof(skips));
		source_skip(source, list, sizeof(skips) / sizeof(skips[0]));
		for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
			if (!stretches) {
				expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, left[i]);
				continue;
			}
			assert_true(source_stretch(source, &stretch));
			assert_int_equal(stretch.offset, left[i] * RECORD_BYTES);
			assert_in_range(stretch.records.len, 1, (size_t)(8 - left[i]) * RECORD_BYTES);
			assert_ptr_equal(stretch.records.ptr, bytes.data + stretch.offset);
			if (!i) /* up to the first that is left out */
				assert_int_equal(stretch.records.len, RECORD_BYTES);
			source_pass(source, &(struct source_passed){RECORD_BYTES, 1, stretch.offset});
		}
		assert_false(source_stretch(source, &stretch));
		expect_end(source, 0, "");
	}
}

static void test_what_is_cut(void **state)
{
	AUTO_BUF struct buf bytes = {0};

	(void)state;
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 2);
	for (size_t end = RECORD_BYTES + 1; end < bytes.len; end++) {
		struct source *source = open_range(&bytes, end, SOURCE_COMPLETE);
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
		expect_end(source, -EBADMSG, end < RECORD_BYTES + 8 ? "a record takes 8 bytes" : "SAMPLE takes 24");
		source = open_pipe(&bytes, end);
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
		expect_end(source, -EBADMSG, "offset");
		source = open_range(&bytes, end, SOURCE_TRUNCATED);
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
		expect_end(source, -EBADMSG, "more was recorded");
	}
	static const struct {
		enum source_shortage shortage;
		const char *words;
	} ends[] = {{SOURCE_UNFINISHED, "was not finished"},
		    {SOURCE_TRUNCATED, "more was recorded"},
		    {SOURCE_UNDESCRIBED, "all records were read"}};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct source *source = open_range(&bytes, RECORD_BYTES, ends[i].shortage);
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
		expect_end(source, -EBADMSG, ends[i].words);
	}
	((struct perf_event_header *)(void *)bytes.data)->size = 7;
	expect_end(open_range(&bytes, bytes.len, SOURCE_COMPLETE), -EBADMSG, "no record");
	expect_end(open_pipe(&bytes, bytes.len), -EBADMSG, "no record");
}

/* Bytes that belong to a record but stand behind it. */
static void test_what_stands_outside(void **state)
{
	enum { TRACING_DATA_BYTES = 12 }; /* as perf writes it */
	const struct perf_event_header tracing_data = {.type = RECORD_TRACING_DATA, .size = TRACING_DATA_BYTES};
	AUTO_BUF struct buf bytes = {0};
	struct source_record record;

	(void)state;
	buf_put(&bytes, &tracing_data, sizeof(tracing_data));
	buf_put(&bytes, &(uint32_t){13}, sizeof(uint32_t)); /* rounded up to 16 */
	buf_put(&bytes, "of the tracing..", 16);
	put_record(&bytes, RECORD_AUXTRACE, 16, 5); /* not rounded: what follows is not aligned */
	buf_put(&bytes, "trace", 5);
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 9);
	for (int pipe = 0; pipe < 2; pipe++) {
		struct source *source =
			pipe ? open_pipe(&bytes, bytes.len) : open_range(&bytes, bytes.len, SOURCE_COMPLETE);
		assert_int_equal(source_next(source, &record, NULL), 1);
		assert_int_equal(record.outside.len, 16);
		assert_memory_equal(record.outside.ptr, "of the tracing..", 16);
		assert_int_equal(source_next(source, &record, NULL), 1);
		assert_int_equal(record.outside.len, pipe ? 0 : 5); /* of a pipe it is only passed */
		if (!pipe)
			assert_memory_equal(record.outside.ptr, "trace", 5);
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 9);
		expect_end(source, 0, "");
	}
	for (size_t cut = 0; cut < 2; cut++) { /* nothing follows */
		struct source *source = open_range(&bytes, TRACING_DATA_BYTES + 16 - cut, SOURCE_COMPLETE);
		if (!cut)
			assert_int_equal(source_next(source, &record, NULL), 1);
		expect_end(source, cut ? -EBADMSG : 0, cut ? "TRACING_DATA takes 28 bytes" : "");
	}
	/* Records that are too short to say how much it is have none, and a header alone is a record. */
	bytes.len = 0;
	for (size_t i = 0; i < 2; i++) {
		const struct perf_event_header header = {.type = i ? RECORD_AUXTRACE : RECORD_TRACING_DATA,
							 .size = sizeof(header)};
		buf_put(&bytes, &header, sizeof(header));
	}
	for (int pipe = 0; pipe < 2; pipe++) {
		struct source *source =
			pipe ? open_pipe(&bytes, bytes.len) : open_range(&bytes, bytes.len, SOURCE_COMPLETE);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(source_next(source, &record, NULL), 1);
			assert_int_equal(record.view.header->size, sizeof(*record.view.header));
			assert_int_equal(record.outside.len, 0);
		}
		expect_end(source, 0, "");
	}
}

enum { SECOND_BYTES = 40000, CHUNK_BYTES = MOST_BYTES + SECOND_BYTES };

/* Two records, the first of which says that it is both; perf 6.16 writes them so. */
static void put_chunk(struct buf *out, uint32_t second_type, uint16_t second_bytes)
{
	const struct perf_event_header first = {.type = RECORD_COMPRESSED2, .size = (uint16_t)((CHUNK_BYTES + 7) & ~7)};
	const struct perf_event_header second = {.type = second_type, .size = second_bytes};
	size_t at = out->len;

	put_record(out, RECORD_COMPRESSED2, CHUNK_BYTES, CHUNK_BYTES - 16);
	memcpy(out->data + at, &first, sizeof(first));
	memcpy(out->data + at + MOST_BYTES, &second, sizeof(second));
}

static void test_records_that_claim_to_be_one(void **state)
{
	static const struct {
		uint32_t type;
		uint16_t bytes;
	} wrong[] = {
		{RECORD_COMPRESSED, SECOND_BYTES}, {RECORD_COMPRESSED2, 16}, {RECORD_COMPRESSED2, SECOND_BYTES + 1}};
	AUTO_BUF struct buf bytes = {0};

	(void)state;
	for (int i = 0; i < 2; i++)
		put_chunk(&bytes, RECORD_COMPRESSED2, SECOND_BYTES);
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 5);
	for (int pipe = 0; pipe < 2; pipe++) {
		struct source *source =
			pipe ? open_pipe(&bytes, bytes.len) : open_range(&bytes, bytes.len, SOURCE_COMPLETE);
		for (int i = 0; i < 2; i++) {
			expect_record(source, RECORD_COMPRESSED2, MOST_BYTES, MOST_BYTES - 16);
			expect_record(source, RECORD_COMPRESSED2, SECOND_BYTES, SECOND_BYTES - 16);
		}
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 5);
		expect_end(source, 0, "");
	}
	for (size_t cut = MOST_BYTES - 1; cut < CHUNK_BYTES; cut += 777) {
		expect_end(open_range(&bytes, cut, SOURCE_COMPLETE), -EBADMSG, "cut off");
		expect_end(open_range(&bytes, cut, SOURCE_TRUNCATED), -EBADMSG, "more was recorded");
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		bytes.len = 0;
		put_chunk(&bytes, wrong[i].type, wrong[i].bytes);
		for (int pipe = 0; pipe < 2; pipe++) {
			struct source *source =
				pipe ? open_pipe(&bytes, bytes.len) : open_range(&bytes, bytes.len, SOURCE_COMPLETE);
			expect_record(source, RECORD_COMPRESSED2, MOST_BYTES, MOST_BYTES - 16);
			expect_end(source, -EBADMSG, pipe ? "offset 0x1000f" : "offset 0xffff"); /* 16 of the header */
		}
	}
	/* What is not all there is not judged. */
	bytes.len = 0;
	put_chunk(&bytes, RECORD_COMPRESSED, SECOND_BYTES);
	struct source *source = open_pipe(&bytes, MOST_BYTES + 15);
	expect_record(source, RECORD_COMPRESSED2, MOST_BYTES, MOST_BYTES - 16);
	expect_end(source, -EBADMSG, "the pipe ends inside a record");
}

/* Where the data end inside of a chunk, it says how much there should be. */
static void test_a_chunk_that_is_cut(void **state)
{
	AUTO_BUF struct buf bytes = {0};
	char words[100];

	(void)state;
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	put_chunk(&bytes, RECORD_COMPRESSED2, SECOND_BYTES);
	struct source *source = open_range(&bytes, RECORD_BYTES + CHUNK_BYTES - 1, SOURCE_COMPLETE);
	snprintf(words, sizeof(words), "takes %u bytes, the data ends after %u", CHUNK_BYTES, CHUNK_BYTES - 1);
	expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	expect_end(source, -EBADMSG, words);
}

static ssize_t read_until_it_fails(void *ctx, void *to, size_t len)
{
	struct span *left = ctx;
	size_t part = left->len < len ? left->len : len;

	if (!part)
		return -EIO;
	memcpy(to, left->ptr, part);
	*left = (struct span){(const uint8_t *)left->ptr + part, left->len - part};
	return (ssize_t)part;
}

static void expect_failure(struct span left)
{
	static const volatile sig_atomic_t *const stop = NULL;
	const struct session_stream stream = {.read = read_until_it_fails, .ctx = &left};
	const bool has_record = left.len >= RECORD_BYTES;
	struct source *source;

	assert_int_equal(source_open_stream(stream, &stop, &source), 0);
	if (has_record)
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	expect_end(source, -EIO, "reading the pipe: Input/output error");
}

/* A pipe that cannot be read any more says why, wherever it was. */
static void test_a_pipe_that_fails(void **state)
{
	enum { OUTSIDE = 1000, BEFORE = RECORD_BYTES + 16 };
	AUTO_BUF struct buf bytes = {0};

	(void)state;
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	put_record(&bytes, RECORD_TRACING_DATA, 16, OUTSIDE);
	memset(buf_extend(&bytes, OUTSIDE), 7, OUTSIDE);
	for (size_t len = 0; len < bytes.len; len += len < BEFORE ? 4 : 100)
		expect_failure((struct span){bytes.data, len});
	bytes.len = RECORD_BYTES;
	put_chunk(&bytes, RECORD_COMPRESSED2, SECOND_BYTES);
	for (size_t len = 0; len < BEFORE; len += 4)
		expect_failure((struct span){bytes.data, len});
}

/* What claims to be more than 1 GiB is no chunk of one ring: such a record is what its header says. */
static void test_claims_are_bounded(void **state)
{
	static const uint64_t claims[] = {1 << 30, (1 << 30) + 1, 1ull << 40, UINT64_MAX};
	struct source_record record;

	(void)state;
	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		AUTO_BUF struct buf bytes = {0};
		put_record(&bytes, RECORD_COMPRESSED2, 2 * MOST_BYTES, claims[i]);
		struct perf_event_header *header = (void *)bytes.data;
		header->size = (uint16_t)((16 + claims[i] + 7) & ~7ull);
		struct source *source = open_pipe(&bytes, bytes.len);
		assert_int_equal(source_next(source, &record, NULL), 1);
		assert_int_equal(record.view.header->size, claims[i] <= 1 << 30 ? MOST_BYTES : header->size);
		source_close(source);
	}
}

/* A record that is a header alone. */
static void expect_header(struct source *source, uint32_t type)
{
	struct source_record record;

	assert_int_equal(source_next(source, &record, NULL), 1);
	assert_int_equal(record.view.header->type, type);
	assert_int_equal(record.view.header->size, sizeof(*record.view.header));
}

/* A mark has eight bytes, and nothing may come behind it for a while: no more is read to find out what it is. */
static void test_marks_around_records_that_claim_to_be_one(void **state)
{
	const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};
	AUTO_BUF struct buf bytes = {0};

	(void)state;
	buf_put(&bytes, &mark, sizeof(mark));
	struct source *source = open_pipe(&bytes, bytes.len);
	expect_header(source, RECORD_FINISHED_ROUND);
	expect_end(source, 0, "");
	put_chunk(&bytes, RECORD_COMPRESSED2, SECOND_BYTES);
	buf_put(&bytes, &mark, sizeof(mark));
	source = open_pipe(&bytes, bytes.len);
	expect_header(source, RECORD_FINISHED_ROUND);
	expect_record(source, RECORD_COMPRESSED2, MOST_BYTES, MOST_BYTES - 16);
	expect_record(source, RECORD_COMPRESSED2, SECOND_BYTES, SECOND_BYTES - 16);
	expect_header(source, RECORD_FINISHED_ROUND);
	expect_end(source, 0, "");
}

enum { NR_MIXED = 6000, HELD_EACH = 7, HELD_FOR = 900 };

/* A record of the mixed ones: its bytes, and those that stand behind it. */
struct mixed {
	size_t at, bytes, outside;
	const void *held; /* NULL: it is not, or not any more */
};

/* Records of any size, of which some have bytes behind them. */
static void put_mixed(struct buf *out, struct mixed list[NR_MIXED])
{
	uint64_t seed = 1;

	for (size_t i = 0; i < NR_MIXED; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1;
		size_t bytes = 16 + (seed >> 40) % (i % 50 ? 1000 : 60000), outside = 0;
		uint32_t type = i % 11 == 3 ? RECORD_HEADER_FEATURE : PERF_RECORD_SAMPLE;
		list[i] = (struct mixed){.at = out->len};
		if (i % 97 == 5) {
			type = RECORD_TRACING_DATA;
			bytes = 16;
			outside = (seed >> 33) % 3000000 / 8 * 8; /* more than memory is given at a time */
		} else if (type == PERF_RECORD_SAMPLE) {
			bytes &= ~(size_t)7;
		}
		put_record(out, type, bytes, outside ? outside - 7 : i << 32);
		for (size_t k = 0; k < outside / 8; k++)
			buf_put_u64(out, seed + k);
		list[i].bytes = bytes;
		list[i].outside = outside;
	}
}

struct feeder {
	const struct buf *bytes;
	int fd;
};

/* In pieces, as programs write them. */
static void *feed(void *arg)
{
	const struct feeder *feeder = arg;
	size_t piece;

	for (size_t at = 0; at < feeder->bytes->len; at += piece) {
		size_t left = feeder->bytes->len - at, most = 1 + at % 100003;
		piece = most < left ? most : left;
		if (fd_write(feeder->fd, feeder->bytes->data + at, piece))
			break; /* the reader misses it */
	}
	close(feeder->fd);
	return NULL;
}

static void check_and_release(struct source *source, struct mixed *mixed, const struct buf *bytes)
{
	if (mixed->held) {
		assert_memory_equal(mixed->held, bytes->data + mixed->at, mixed->bytes);
		source_release(source, mixed->held);
	}
	mixed->held = NULL;
}

static void expect_mixed(struct source *source, const struct buf *bytes, struct mixed list[NR_MIXED])
{
	for (size_t i = 0; i < NR_MIXED; i++) {
		struct source_record record;
		struct diag why = {""};
		int got = source_next(source, &record, &why);
		if (got != 1)
			fail_msg("record %zu: %d: %s", i, got, why.text);
		assert_int_equal((uintptr_t)record.view.header % 8, 0);
		assert_int_equal(record.view.header->size, list[i].bytes);
		assert_memory_equal(record.view.header, bytes->data + list[i].at, list[i].bytes);
		assert_int_equal(record.outside.len, list[i].outside);
		if (list[i].outside)
			assert_memory_equal(record.outside.ptr, bytes->data + list[i].at + list[i].bytes,
					    list[i].outside);
		if (i % HELD_EACH == 0) {
			source_hold(source, record.view.header);
			list[i].held = record.view.header;
		}
		if (i >= HELD_FOR)
			check_and_release(source, &list[i - HELD_FOR], bytes);
	}
	for (size_t i = NR_MIXED - HELD_FOR; i < NR_MIXED; i++)
		check_and_release(source, &list[i], bytes);
}

/* Whatever their sizes, and in whatever pieces they come: the same records, which stay while they are held. */
static void test_records_of_any_size(void **state)
{
	static const volatile sig_atomic_t *const stop = NULL;
	struct mixed *list = calloc(NR_MIXED, sizeof(*list));
	AUTO_BUF struct buf bytes = {0};
	struct source *source;
	pthread_t thread;
	int ends[2];

	(void)state;
	put_mixed(&bytes, list);
	source = open_range(&bytes, bytes.len, SOURCE_COMPLETE);
	expect_mixed(source, &bytes, list);
	expect_end(source, 0, "");
	assert_int_equal(pipe(ends), 0);
	struct feeder feeder = {&bytes, ends[1]};
	assert_int_equal(pthread_create(&thread, NULL, feed, &feeder), 0);
	assert_int_equal(source_open_pipe(ends[0], &stop, &source), 0);
	expect_mixed(source, &bytes, list);
	expect_end(source, 0, "");
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(ends[0]);
	free(list);
}

static void *feed_later(void *ctx)
{
	const struct timespec while_it_waits = {.tv_nsec = 50000000};

	nanosleep(&while_it_waits, NULL);
	return feed(ctx);
}

/* As another process that shares standard input may have made it. */
static void test_a_pipe_that_does_not_block(void **state)
{
	static const volatile sig_atomic_t *stop;
	AUTO_BUF struct buf bytes = {0};
	struct source *source;
	pthread_t thread;
	int ends[2];

	(void)state;
	put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	struct feeder feeder = {&bytes, ends[1]};
	assert_int_equal(pthread_create(&thread, NULL, feed_later, &feeder), 0);
	assert_int_equal(source_open_pipe(ends[0], &stop, &source), 0);
	expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
	expect_end(source, 0, "");
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(ends[0]);
}

/* Reading of a pipe that does not end stops where it is told to, also within a record. */
static void test_a_pipe_that_is_stopped(void **state)
{
	volatile sig_atomic_t stopped = 0;
	const volatile sig_atomic_t *stop = &stopped;
	static const uint32_t types[] = {PERF_RECORD_SAMPLE, RECORD_COMPRESSED2, RECORD_TRACING_DATA};
	struct source *source;
	int ends[2];

	(void)state;
	for (size_t i = 0; i < 3 * 2 * RECORD_BYTES; i++) {
		AUTO_BUF struct buf bytes = {0};
		size_t more = i / 3;
		put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
		put_record(&bytes, types[i % 3], RECORD_BYTES, RECORD_BYTES + 8); /* which may stand outside it */
		put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, 3);
		bool outside = types[i % 3] == RECORD_TRACING_DATA;
		bool whole = more == 0 || (more == RECORD_BYTES && !outside);
		for (unsigned stops = 0; stops < 2; stops++) {
			assert_int_equal(pipe(ends), 0);
			assert_int_equal(fd_write(ends[1], bytes.data, RECORD_BYTES + more), 0);
			close(ends[1]);
			assert_int_equal(source_open_pipe(ends[0], &stop, &source), 0);
			stopped = 0;
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
			stopped = (int)stops;
			if (more >= RECORD_BYTES && !outside)
				expect_record(source, types[i % 3], RECORD_BYTES, RECORD_BYTES + 8);
			struct diag why = {""};
			struct source_record record;
			assert_int_equal(source_next(source, &record, &why), whole || stops ? 0 : -EBADMSG);
			assert_int_equal(!strstr(why.text, "inside a record"), whole || stops);
			source_close(source);
			close(ends[0]);
		}
	}
	/* What cannot be read is said. */
	stopped = 0;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(source_open_pipe(ends[1], &stop, &source), 0);
	expect_end(source, -EBADF, "reading the pipe");
	close(ends[0]);
	close(ends[1]);
}

/* Behind a damaged place reading goes on at the next COMPRESSED record that a frame of zstd begins. */
static void test_the_next_extent(void **state)
{
	static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x01, 0x09, 0x00, 0x00, 'x'}; /* one byte, raw */
	const struct perf_event_header compressed = {.type = RECORD_COMPRESSED, .size = 8 + sizeof(frame)};
	struct perf_event_header wrong[3] = {compressed, compressed, compressed};
	AUTO_BUF struct buf bytes = {0};
	uint64_t starts[2];

	(void)state;
	wrong[0].type = PERF_RECORD_SAMPLE;
	wrong[1].size = 8;          /* holds nothing */
	wrong[2].size = UINT16_MAX; /* goes on behind the end */
	buf_put(&bytes, "12345", 5);
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < 3; k++) {
			buf_put(&bytes, &wrong[k], sizeof(wrong[k]));
			buf_put(&bytes, frame, sizeof(frame));
		}
		starts[i] = bytes.len;
		buf_put(&bytes, &compressed, sizeof(compressed));
		buf_put(&bytes, frame, sizeof(frame));
	}
	struct source *source = open_range(&bytes, bytes.len, SOURCE_COMPLETE);
	struct source_record record;
	for (uint64_t from = 0; from <= bytes.len; from++) {
		bool there = source->ops->find_extent(source, from);
		assert_int_equal(there, from <= starts[1]);
		if (!there)
			continue;
		assert_int_equal(source_next(source, &record, NULL), 1);
		assert_int_equal(record.view.offset, from <= starts[0] ? starts[0] : starts[1]);
		assert_int_equal(record.view.header->size, compressed.size);
		assert_memory_equal(record.view.header + 1, frame, sizeof(frame));
	}
	expect_end(source, 0, "");
	/* The last one is not whole. */
	source = open_range(&bytes, bytes.len - 1, SOURCE_COMPLETE);
	assert_true(source->ops->find_extent(source, starts[0]));
	assert_false(source->ops->find_extent(source, starts[1]));
	source_close(source);
}

enum { NR_EXTENTS = 12, EXTENT_RECORDS = 3000 };

/* Extents of numbered samples, each with a plain record behind it. */
static void put_extents(struct buf *out)
{
	const struct extent_pack_params how = {.level = 1};
	struct extent_packer *packer;
	uint64_t number = 0;

	assert_int_equal(extent_packer_new(&packer), 0);
	for (size_t i = 0; i < NR_EXTENTS; i++) {
		AUTO_BUF struct buf records = {0};
		for (size_t k = 0; k < EXTENT_RECORDS; k++)
			put_record(&records, PERF_RECORD_SAMPLE, RECORD_BYTES, number++);
		size_t before = out->len;
		uint8_t *room = buf_extend(out, records.len);
		int64_t len = extent_pack(packer, &how, buf_span(&records), room, records.len);
		assert_in_range(len, 1, records.len - 1);
		out->len = before + (size_t)len;
		put_record(out, PERF_RECORD_COMM, RECORD_BYTES, number++);
	}
	extent_packer_free(packer);
}

/* The record that comes next, held; `stretches`: one of all that lie there, if there are some. */
static void take_numbered(struct source *source, bool stretches, const struct perf_event_header **ret, size_t *ret_nr)
{
	struct source_stretch stretch;
	struct source_record record;
	struct diag why = {""};

	*ret_nr = 0;
	if (stretches && source_stretch(source, &stretch) && stretch.packed) {
		const uint8_t *at = stretch.records.ptr;
		assert_int_equal(stretch.records.len % RECORD_BYTES, 0);
		for (; *ret_nr < stretch.records.len / RECORD_BYTES && *ret_nr < 700; (*ret_nr)++)
			ret[*ret_nr] = (const void *)(at + *ret_nr * RECORD_BYTES);
		source_pass(source, &(struct source_passed){*ret_nr * RECORD_BYTES, *ret_nr, stretch.offset});
		return;
	}
	int got = source_next(source, &record, &why);
	if (got < 0)
		fail_msg("%s", why.text);
	if (got == 1) {
		source_hold(source, record.view.header);
		ret[(*ret_nr)++] = record.view.header;
	}
}

/* Record by record, or many at once; ahead or not; each stays while it is held. Ended before the end, too. */
static void test_records_of_extents(void **state)
{
	enum { RECORDS = NR_EXTENTS * (EXTENT_RECORDS + 1) };
	AUTO_BUF struct buf bytes = {0};
	const struct perf_event_header *held[700];
	size_t nr;

	(void)state;
	if (!zstd_available())
		skip();
	put_extents(&bytes);
	for (unsigned way = 0; way < 8; way++) {
		uint64_t number = 0, until = way & 4 ? RECORDS / 3 : RECORDS + 1;
		size_t most = 0;
		struct source *source;
		assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), way & 1, &source),
				 0);
		do {
			take_numbered(source, way & 2, held, &nr);
			most = nr > most ? nr : most;
			for (size_t i = 0; i < nr; i++, number++) {
				uint64_t found;
				memcpy(&found, held[i] + 1, sizeof(found));
				assert_int_equal(found, number);
				assert_int_equal(held[i]->type, number % (EXTENT_RECORDS + 1) == EXTENT_RECORDS
									? PERF_RECORD_COMM
									: PERF_RECORD_SAMPLE);
			}
			for (size_t i = 0; i < nr; i++)
				source_release(source, held[i]);
		} while (nr && number < until);
		assert_int_equal(most, way & 2 ? 700 : 1); /* many at once, where that was wanted */
		if (!(way & 4))
			assert_int_equal(number, RECORDS);
		if (!(way & 4))
			assert_in_range(source->nr_compressed[0], NR_EXTENTS, bytes.len);
		assert_int_equal(source->nr_compressed[1], 0);
		source_close(source);
	}
}

/* Until something compressed comes the records of a file are given where they lie, as many as there are. */
static void test_plain_records_in_a_stretch(void **state)
{
	enum { PLAIN = 5 };
	AUTO_BUF struct buf bytes = {0};
	struct source_stretch stretch;
	struct source *source;

	(void)state;
	for (uint64_t i = 0; i < PLAIN; i++)
		put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
	assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), false, &source), 0);
	for (uint64_t i = 0; i < PLAIN; i += 2) {
		assert_true(source_stretch(source, &stretch));
		assert_false(stretch.packed);
		assert_int_equal(stretch.offset, i * RECORD_BYTES);
		assert_ptr_equal(stretch.records.ptr, bytes.data + i * RECORD_BYTES);
		assert_int_equal(stretch.records.len, (PLAIN - i) * RECORD_BYTES);
		source_pass(source, &(struct source_passed){RECORD_BYTES, 1, i * RECORD_BYTES});
		if (i + 1 < PLAIN)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, i + 1);
	}
	assert_false(source_stretch(source, &stretch));
	expect_end(source, 0, "");
}

/* The frame of an extent as records of that type: perf writes the length of the data into each COMPRESSED2. */
static void put_compressed2(struct buf *out, const struct buf *extents)
{
	enum { FIRST = 64 }; /* needs no padding */

	for (size_t at = 0; at < extents->len;) {
		struct perf_event_header header;
		memcpy(&header, extents->data + at, sizeof(header));
		if (header.type != RECORD_COMPRESSED) {
			buf_put(out, extents->data + at, header.size);
			at += header.size;
			continue;
		}
		for (size_t done = sizeof(header), bytes; done < header.size; done += bytes) {
			bytes = done + FIRST < header.size && done == sizeof(header) ? FIRST : header.size - done;
			const size_t padding = -bytes & 7;
			const struct perf_event_header packed = {.type = RECORD_COMPRESSED2,
								 .size = (uint16_t)(16 + bytes + padding)};
			buf_put(out, &packed, sizeof(packed));
			buf_put_u64(out, bytes);
			buf_put(out, extents->data + at + done, bytes);
			buf_put(out, "\1\2\3\4\5\6\7", padding); /* is not data */
		}
		at += header.size;
	}
}

static void test_extents_in_compressed2_records(void **state)
{
	AUTO_BUF struct buf extents = {0}, bytes = {0};
	const struct perf_event_header *record;
	uint64_t number = 0, found;
	struct source *source;
	size_t nr;

	(void)state;
	if (!zstd_available())
		skip();
	put_extents(&extents);
	put_compressed2(&bytes, &extents);
	assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), true, &source), 0);
	for (take_numbered(source, false, &record, &nr); nr; take_numbered(source, false, &record, &nr)) {
		memcpy(&found, record + 1, sizeof(found));
		assert_int_equal(found, number++);
		source_release(source, record);
	}
	assert_int_equal(number, NR_EXTENTS * (EXTENT_RECORDS + 1));
	assert_int_equal(source->nr_compressed[0], 0);
	assert_in_range(source->nr_compressed[1], NR_EXTENTS, bytes.len);
	source_close(source);
}

/* The files of a directory have threads together. One that is closed early leaves the others what they wait for. */
static void test_sources_that_share_threads(void **state)
{
	enum { NR_SOURCES = 3, FEW = EXTENT_RECORDS + 2 };
	AUTO_BUF struct buf bytes = {0};

	(void)state;
	if (!zstd_available())
		skip();
	put_extents(&bytes);
	for (size_t nr_threads = 0; nr_threads < 3; nr_threads++) {
		struct source *sources[NR_SOURCES];
		struct unpack_pool *pool;
		uint64_t numbers[NR_SOURCES] = {0};
		size_t nr_open = NR_SOURCES;
		assert_int_equal(unpack_pool_new(nr_threads, &pool), 0);
		for (size_t i = 0; i < NR_SOURCES; i++)
			assert_int_equal(source_open_unpack_beside(open_range(&bytes, bytes.len, SOURCE_COMPLETE), pool,
								   NR_SOURCES, &sources[i]),
					 0);
		for (size_t i = 0; nr_open; i = (i + 1) % NR_SOURCES) {
			const struct perf_event_header *record;
			uint64_t found;
			size_t nr;
			if (!sources[i])
				continue;
			take_numbered(sources[i], false, &record, &nr);
			if (nr) {
				memcpy(&found, record + 1, sizeof(found));
				assert_int_equal(found, numbers[i]++);
				source_release(sources[i], record);
			}
			if (!nr || (i == 1 && numbers[i] == FEW)) {
				source_close(sources[i]);
				sources[i] = NULL;
				nr_open--;
			}
		}
		assert_int_equal(numbers[0], NR_EXTENTS * (EXTENT_RECORDS + 1));
		assert_int_equal(numbers[1], FEW);
		assert_int_equal(numbers[2], NR_EXTENTS * (EXTENT_RECORDS + 1));
		unpack_pool_free(pool);
	}
}

/* One frame of these bytes in COMPRESSED records. */
static void put_extent(struct buf *out, struct extent_packer *packer, struct span records)
{
	const struct extent_pack_params how = {.level = 3};
	size_t room = records.len + 1000, before = out->len;
	void *exact = malloc(records.len); /* a sanitizer sees what is behind it */

	memcpy(exact, records.ptr, records.len);
	int64_t len = extent_pack(packer, &how, (struct span){exact, records.len}, buf_extend(out, room), room);
	free(exact);
	assert_in_range(len, 1, room);
	out->len = before + (size_t)len;
}

/* Ahead of what is given some extents are decompressed, and no more; otherwise only what is needed is read. */
static void test_how_far_it_reads_ahead(void **state)
{
	enum { NR = 200, RECORDS = 10 };
	const size_t nr_threads = unpack_pool_useful_size();
	const uint64_t both = 2 * (nr_threads + 1); /* an extent that each does, and one that waits for it */
	AUTO_BUF struct buf bytes = {0};
	struct extent_packer *packer;

	(void)state;
	if (!zstd_available() || both > NR / 2)
		skip();
	assert_int_equal(extent_packer_new(&packer), 0);
	for (uint64_t i = 0; i < NR; i++) {
		AUTO_BUF struct buf records = {0};
		for (size_t k = 0; k < RECORDS; k++)
			put_record(&records, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
		put_extent(&bytes, packer, buf_span(&records));
		if (!i)
			put_record(&bytes, PERF_RECORD_COMM, RECORD_BYTES, NR);
	}
	extent_packer_free(packer);
	for (size_t way = 0; way < 5; way++) { /* not ahead, ahead, and ahead with threads of 1, 2, 3 sources */
		const size_t nr_sharing = way > 1 ? way - 1 : 0;
		const uint64_t most = nr_sharing ? 2 + both / nr_sharing : way ? both : 1;
		const uint64_t expected = nr_threads ? most : 1;
		struct source *source, *range = open_range(&bytes, bytes.len, SOURCE_COMPLETE);
		struct unpack_pool *pool = NULL;
		if (nr_sharing) {
			assert_int_equal(unpack_pool_new(nr_threads, &pool), 0);
			assert_int_equal(source_open_unpack_beside(range, pool, nr_sharing, &source), 0);
		} else {
			assert_int_equal(source_open_unpack(range, way, &source), 0);
		}
		for (size_t k = 0; k < RECORDS; k++)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 0);
		assert_int_equal(source->nr_compressed[0], expected);
		expect_record(source, PERF_RECORD_COMM, RECORD_BYTES, NR);
		assert_int_equal(source->nr_compressed[0], way && nr_threads ? expected + 1 : 1);
		source_close(source);
		unpack_pool_free(pool);
	}
}

static void count_call(void *ctx)
{
	++*(unsigned *)ctx;
}

/* A thread that helps is called when there is something to do, from the first extent on, until it does not help. */
static void test_a_helper_is_called(void **state)
{
	enum { NR_SAMPLES = NR_EXTENTS * (EXTENT_RECORDS + 1) };
	const size_t nr_threads = unpack_pool_useful_size();
	AUTO_BUF struct buf bytes = {0};
	struct source *source;
	unsigned nr_calls = 0;
	const struct unpack_helper helper = {.wanted = count_call, .ctx = &nr_calls}, none = {0};

	(void)state;
	if (!zstd_available())
		skip();
	put_extents(&bytes);
	assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), true, &source), 0);
	source_set_helper(source, &helper);
	assert_int_equal(nr_calls, 0);
	for (uint64_t i = 0; i < NR_SAMPLES; i++) {
		expect_record(source, (i + 1) % (EXTENT_RECORDS + 1) ? PERF_RECORD_SAMPLE : PERF_RECORD_COMM,
			      RECORD_BYTES, i);
		if (i)
			continue;
		assert_int_equal(nr_calls, nr_threads ? 2 * (nr_threads + 1) : 0); /* as many as are read ahead */
		if (nr_threads == 1) /* it is in the place of that one, and some jobs were not begun */
			assert_true(source_help(source));
		source_set_helper(source, &none);
		nr_calls = 0;
	}
	assert_int_equal(nr_calls, 0);
	expect_end(source, 0, "");
}

static void put_compressed(struct buf *out, struct span frame)
{
	enum { PAYLOAD_BYTES = 1 << 15 };

	for (size_t at = 0, part; at < frame.len; at += part) {
		part = frame.len - at < PAYLOAD_BYTES ? frame.len - at : PAYLOAD_BYTES;
		const struct perf_event_header header = {.type = RECORD_COMPRESSED,
							 .size = (uint16_t)(sizeof(header) + part)};
		buf_put(out, &header, sizeof(header));
		buf_put(out, (const char *)frame.ptr + at, part);
	}
}

/* One that is closed while an extent is not yet whole, and the queue full: its threads wait for none that never came.
 */
static void test_closed_within_an_extent(void **state)
{
	enum { NR_PLAIN = 60, QUARTER = 1 << 15 }; /* as many as fit into its queue, but for two extents */
	AUTO_BUF struct buf small = {0}, bytes = {0}, frame = {0};
	struct extent_packer *packer;
	struct unpack_pool *pool;
	struct source *source;

	(void)state;
	if (!zstd_available())
		skip();
	put_record(&small, PERF_RECORD_SAMPLE, RECORD_BYTES, 0);
	assert_int_equal(extent_packer_new(&packer), 0);
	put_extent(&bytes, packer, buf_span(&small));
	extent_packer_free(packer);
	for (uint64_t i = 1; i <= NR_PLAIN; i++)
		put_record(&bytes, PERF_RECORD_COMM, RECORD_BYTES, i);
	/* A frame of zstd, RFC 8878: one segment, which says its length in four bytes, in blocks of bytes as they are.
	 */
	buf_put(&frame, (const uint8_t[]){0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 4 * QUARTER >> 16, 0}, 9);
	for (unsigned i = 0; i < 4; i++) {
		buf_put(&frame, (const uint8_t[]){i == 3, 0, QUARTER >> 13}, 3);
		memset(buf_extend(&frame, QUARTER), 0, QUARTER);
	}
	put_compressed(&bytes, buf_span(&frame));
	for (size_t nr_threads = 0; nr_threads < 2; nr_threads++) {
		assert_int_equal(unpack_pool_new(nr_threads, &pool), 0);
		assert_int_equal(
			source_open_unpack_beside(open_range(&bytes, bytes.len, SOURCE_COMPLETE), pool, 1, &source), 0);
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 0);
		assert_int_equal(source->nr_compressed[0], unpack_pool_useful_size() ? 2 : 1);
		source_close(source);
		unpack_pool_free(pool);
	}
}

/* A frame of so many bytes, the two records of which it holds in blocks of one byte and of none. */
static void put_long_frame(struct buf *out, size_t len)
{
	enum { HEADER_BYTES = 6, BYTES = 2 * RECORD_BYTES, EMPTY_BYTES = 3, ONE_BYTES = 4 };
	AUTO_BUF struct buf records = {0}, frame = {0};
	size_t nr_ones = BYTES - 1;

	for (uint64_t i = 0; i < 2; i++)
		put_record(&records, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
	const size_t nr_empty = (len - HEADER_BYTES - nr_ones * ONE_BYTES) / EMPTY_BYTES;
	assert_int_equal(HEADER_BYTES + nr_ones * ONE_BYTES + nr_empty * EMPTY_BYTES, len);
	buf_put(&frame, (const uint8_t[]){0x28, 0xb5, 0x2f, 0xfd, 0x20, BYTES}, HEADER_BYTES);
	for (size_t i = 0; i < nr_ones; i++) {
		buf_put(&frame, (const uint8_t[]){1 << 3, 0, 0}, EMPTY_BYTES);
		buf_put(&frame, records.data + i, 1);
	}
	for (size_t i = 0; i < nr_empty; i++)
		buf_put(&frame, (const uint8_t[]){0, 0, 0}, EMPTY_BYTES);
	put_compressed(out, buf_span(&frame));
	put_compressed(out, (struct span){(const uint8_t[]){1 << 3 | 1, 0, 0, (uint8_t)records.data[BYTES - 1]}, 4});
}

/* More than twice its records, and as much again as one may have, is no extent: it is given up, and the next one read.
 */
static void test_an_extent_that_does_not_end(void **state)
{
	enum { MOST = 2 * (2 * RECORD_BYTES + (1 << 16)) };
	AUTO_BUF struct buf bytes = {0};
	struct source *source;

	(void)state;
	if (!zstd_available())
		skip();
	for (size_t more = 0; more <= 3; more += 3) {
		bytes.len = 0;
		put_long_frame(&bytes, MOST + more);
		put_long_frame(&bytes, MOST);
		assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), false, &source), 0);
		if (more)
			expect_gap(source, "offset 0: compressed bytes that never end: an extent is missing");
		for (unsigned i = more ? 1 : 0; i < 2; i++) {
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 0);
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 1);
		}
		expect_end(source, 0, "");
	}
}

/* What a frame has of a record that is not whole belongs before the next frame, wherever it was cut. */
static void test_records_that_go_on_in_the_next_extent(void **state)
{
	enum { NR = 310 };
	const struct perf_event_header last = {.type = PERF_RECORD_SWITCH, .size = sizeof(last)};
	AUTO_BUF struct buf records = {0};
	struct extent_packer *packer;

	(void)state;
	if (!zstd_available())
		skip();
	for (uint64_t i = 0; i < NR; i++)
		put_record(&records, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
	buf_put(&records, &last, sizeof(last));
	assert_int_equal(extent_packer_new(&packer), 0);
	for (size_t cut = 100 * RECORD_BYTES; cut <= 102 * RECORD_BYTES; cut++) {
		AUTO_BUF struct buf bytes = {0};
		struct source *source;
		put_extent(&bytes, packer, (struct span){records.data, cut});
		put_extent(&bytes, packer, (struct span){records.data + cut, 2 * cut});
		put_extent(&bytes, packer, (struct span){records.data + 3 * cut, records.len - 3 * cut});
		assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), cut % 2, &source),
				 0);
		for (uint64_t i = 0; i < NR; i++)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
		expect_header(source, PERF_RECORD_SWITCH);
		expect_end(source, 0, "");
	}
	extent_packer_free(packer);
}

/* Bytes that are no records, well compressed: what follows in that extent is missing, the next one is not. */
static void test_no_records_in_an_extent(void **state)
{
	static const uint16_t sizes[] = {0, 4, 7, 9, RECORD_BYTES + 4};
	struct extent_packer *packer;

	(void)state;
	if (!zstd_available())
		skip();
	assert_int_equal(extent_packer_new(&packer), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		AUTO_BUF struct buf good = {0}, bad = {0}, bytes = {0};
		struct source *source;
		for (uint64_t k = 0; k < 100; k++) {
			put_record(&good, PERF_RECORD_SAMPLE, RECORD_BYTES, k);
			put_record(&bad, PERF_RECORD_SAMPLE, RECORD_BYTES, k);
		}
		((struct perf_event_header *)(void *)(bad.data + 50 * RECORD_BYTES))->size = sizes[i];
		put_extent(&bytes, packer, buf_span(&good));
		put_extent(&bytes, packer, buf_span(&bad));
		put_extent(&bytes, packer, buf_span(&good));
		assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), i % 2, &source), 0);
		for (uint64_t k = 0; k < 150; k++)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, k % 100);
		expect_gap(source, "no record among what was decompressed");
		for (uint64_t k = 0; k < 100; k++)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, k);
		expect_end(source, 0, "");
	}
	extent_packer_free(packer);
}

/* The kernel's records are made of words, others of bytes, and types are small: what is none of these is passed over.
 */
static void test_what_is_no_record_between_extents(void **state)
{
	enum { NR = 100 };
	static const struct {
		uint32_t type;
		size_t bytes;
		bool is_record;
	} cases[] = {{RECORD_USER_FIRST - 1, 24, true},
		     {RECORD_USER_FIRST - 1, 20, false},
		     {RECORD_USER_FIRST, 20, true},
		     {255, 20, true},
		     {256, 24, false}};
	AUTO_BUF struct buf records = {0};
	struct extent_packer *packer;

	(void)state;
	if (!zstd_available())
		skip();
	for (uint64_t i = 0; i < NR; i++)
		put_record(&records, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
	assert_int_equal(extent_packer_new(&packer), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		AUTO_BUF struct buf bytes = {0};
		struct source *source;
		put_extent(&bytes, packer, buf_span(&records));
		put_record(&bytes, cases[i].type, cases[i].bytes, NR);
		put_extent(&bytes, packer, buf_span(&records));
		assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), i % 2, &source), 0);
		for (uint64_t k = 0; k < NR; k++)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, k);
		if (cases[i].is_record)
			expect_record(source, cases[i].type, cases[i].bytes, NR);
		else
			expect_gap(source, "no record: what is left of a damaged extent is passed over");
		for (uint64_t k = 0; k < NR; k++)
			expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, k);
		expect_end(source, 0, "");
	}
	extent_packer_free(packer);
}

/* A compressed record that holds nothing, or less than it says, is one that has lost it. */
static void test_empty_compressed_records(void **state)
{
	static const struct {
		uint32_t type;
		uint16_t bytes;
		uint64_t data_bytes; /* that it says */
	} damaged[] = {{RECORD_COMPRESSED, 8, 0},
		       {RECORD_COMPRESSED2, 8, 0},
		       {RECORD_COMPRESSED2, 16, 0},
		       {RECORD_COMPRESSED2, 24, 9}};
	AUTO_BUF struct buf extents = {0};

	(void)state;
	if (!zstd_available())
		skip();
	put_extents(&extents);
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		const struct perf_event_header header = {.type = damaged[i].type, .size = damaged[i].bytes};
		const uint64_t record[] = {0, damaged[i].data_bytes, 0};
		AUTO_BUF struct buf bytes = {0};
		struct source *source;
		buf_put(&bytes, record, damaged[i].bytes);
		memcpy(bytes.data, &header, sizeof(header));
		buf_put(&bytes, extents.data, extents.len);
		assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), false, &source), 0);
		expect_gap(source, "offset 0: a compressed record is damaged: what it held is missing");
		expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 0);
		source_close(source);
	}
}

static const struct source_ops *searched_ops;
static unsigned nr_searches;

static bool search_counted(struct source *source, uint64_t offset)
{
	nr_searches++;
	return searched_ops->find_extent(source, offset);
}

/* Where no extent follows, the rest of the file is searched once, not for each record that could hide one. */
static void test_damaged_extents_without_a_next_one(void **state)
{
	enum { NR = 1000, BODY_BYTES = 16 };
	static const struct {
		uint32_t type;
		uint8_t body[BODY_BYTES];
	} damaged[] = {{73, {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x01, 0x09, 0x00, 0x00, 'x'}}, /* begins like a frame */
		       {RECORD_COMPRESSED, "of no frame"}};

	(void)state;
	if (!zstd_available())
		skip();
	for (size_t i = 0; i < 4; i++) {
		struct perf_event_header header = {.type = damaged[i / 2].type, .size = sizeof(header) + BODY_BYTES};
		AUTO_BUF struct buf bytes = {0};
		uint64_t nr_before = 0;
		if (i % 2) {
			put_extents(&bytes);
			nr_before = (uint64_t)NR_EXTENTS * (EXTENT_RECORDS + 1);
		}
		for (size_t k = 0; k < NR; k++) {
			buf_put(&bytes, &header, sizeof(header));
			buf_put(&bytes, damaged[i / 2].body, BODY_BYTES);
		}
		struct source *under = open_range(&bytes, bytes.len, SOURCE_COMPLETE), *source;
		searched_ops = under->ops;
		struct source_ops counting = *searched_ops;
		counting.find_extent = search_counted;
		under->ops = &counting;
		nr_searches = 0;
		assert_int_equal(source_open_unpack(under, false, &source), 0);
		for (uint64_t k = 0; k < nr_before; k++)
			expect_record(source,
				      k % (EXTENT_RECORDS + 1) == EXTENT_RECORDS ? PERF_RECORD_COMM
										 : PERF_RECORD_SAMPLE,
				      RECORD_BYTES, k);
		for (size_t k = 0; k < NR; k++)
			expect_gap(source, "");
		expect_end(source, 0, "");
		assert_int_equal(nr_searches, 1);
	}
}

/* A file of a data directory begins with an extent. Where its record has lost its header the next one is read. */
static void test_a_damaged_extent_at_the_start(void **state)
{
	AUTO_BUF struct buf bytes = {0};
	struct perf_event_header wrong = {.type = 100, .size = 64};
	struct source *source;

	(void)state;
	if (!zstd_available())
		skip();
	put_extents(&bytes);
	memcpy(bytes.data, &wrong, sizeof(wrong));
	assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), false, &source), 0);
	expect_gap(source, "offset 0: a compressed record is damaged");
	for (uint64_t i = EXTENT_RECORDS + 1; i < NR_EXTENTS * (EXTENT_RECORDS + 1); i++)
		expect_record(source,
			      i % (EXTENT_RECORDS + 1) == EXTENT_RECORDS ? PERF_RECORD_COMM : PERF_RECORD_SAMPLE,
			      RECORD_BYTES, i);
	expect_end(source, 0, "");
}

/* The list of what is left out reaches the source below one that decompresses. */
static void test_what_is_left_out_of_compressed_files(void **state)
{
	AUTO_BUF struct buf bytes = {0};
	struct source_skip *list = calloc(1, sizeof(*list));
	struct source *source;

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		put_record(&bytes, PERF_RECORD_SAMPLE, RECORD_BYTES, i);
	*list = (struct source_skip){RECORD_BYTES, RECORD_BYTES};
	assert_int_equal(source_open_unpack(open_range(&bytes, bytes.len, SOURCE_COMPLETE), false, &source), 0);
	source_skip(source, list, 1);
	expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 0);
	expect_record(source, PERF_RECORD_SAMPLE, RECORD_BYTES, 2);
	expect_end(source, 0, "");
}

static void test_memory_is_used_again_when_it_is_not_held(void **state)
{
	struct arena arena = {.block_bytes = 4096};

	(void)state;
	struct arena_block *first = arena_renew(&arena);
	assert_int_equal(arena_block_bytes(&arena), 4096);
	assert_int_equal((uintptr_t)first % 4096, 0);
	assert_int_equal(first->end - (uint8_t *)first, 4096);
	arena_hold(&arena, first->bytes + 100);
	arena_hold(&arena, first->end - 1);
	struct arena_block *second = arena_renew(&arena);
	assert_ptr_not_equal(second, first);
	arena_release(&arena, first->bytes);
	struct arena_block *third = arena_renew(&arena); /* the first is still held */
	assert_ptr_not_equal(third, first);
	arena_release(&arena, first->bytes);
	struct arena_block *fourth = arena_renew(&arena);
	assert_ptr_equal(fourth, first);
	arena_hold(&arena, fourth->bytes);
	arena_release(&arena, fourth->bytes); /* the current one is none to be used again */
	assert_ptr_not_equal(arena_renew(&arena), first);
	assert_int_equal(arena.current->nr_refs, 0);
	arena_fini(&arena);
	assert_int_equal(arena_block_bytes(&arena), 4096);
	assert_int_equal(arena_block_bytes(&(struct arena){0}), ARENA_BLOCK_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_left_out),
		cmocka_unit_test(test_what_is_cut),
		cmocka_unit_test(test_what_stands_outside),
		cmocka_unit_test(test_records_that_claim_to_be_one),
		cmocka_unit_test(test_a_chunk_that_is_cut),
		cmocka_unit_test(test_a_pipe_that_fails),
		cmocka_unit_test(test_claims_are_bounded),
		cmocka_unit_test(test_marks_around_records_that_claim_to_be_one),
		cmocka_unit_test(test_records_of_any_size),
		cmocka_unit_test(test_a_pipe_that_does_not_block),
		cmocka_unit_test(test_a_pipe_that_is_stopped),
		cmocka_unit_test(test_the_next_extent),
		cmocka_unit_test(test_records_of_extents),
		cmocka_unit_test(test_plain_records_in_a_stretch),
		cmocka_unit_test(test_extents_in_compressed2_records),
		cmocka_unit_test(test_sources_that_share_threads),
		cmocka_unit_test(test_how_far_it_reads_ahead),
		cmocka_unit_test(test_a_helper_is_called),
		cmocka_unit_test(test_closed_within_an_extent),
		cmocka_unit_test(test_an_extent_that_does_not_end),
		cmocka_unit_test(test_records_that_go_on_in_the_next_extent),
		cmocka_unit_test(test_no_records_in_an_extent),
		cmocka_unit_test(test_what_is_no_record_between_extents),
		cmocka_unit_test(test_empty_compressed_records),
		cmocka_unit_test(test_damaged_extents_without_a_next_one),
		cmocka_unit_test(test_a_damaged_extent_at_the_start),
		cmocka_unit_test(test_what_is_left_out_of_compressed_files),
		cmocka_unit_test(test_memory_is_used_again_when_it_is_not_held),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
