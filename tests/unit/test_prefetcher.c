/* SPDX-License-Identifier: MIT */
/*
 * Records that a thread finds ahead are those of session_next(), to the same end; in small and in many batches, one by
 * one and in runs that several threads decode.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/diag.h"
#include "base/log.h"
#include "read/prefetcher.h"
#include "session_file.h"

static struct session *open_session(const struct buf *file)
{
	struct session *session;

	assert_int_equal(session_open_memory((struct span){file->data, file->len}, 0, &session, NULL), 0);
	return session;
}

static void expect_same(const struct session_record *a, const struct session_record *b)
{
	assert_int_equal(a->view.offset, b->view.offset);
	assert_int_equal(a->view.header->type, b->view.header->type);
	assert_int_equal(a->sample.time, b->sample.time);
	assert_int_equal(a->sample.ip, b->sample.ip);
	assert_int_equal(!a->event, !b->event);
	if (a->event)
		assert_string_equal(a->event->name, b->event->name);
}

/* Both ways at once; the same end for the same reason. Returns how many records there were. */
static size_t read_both(const struct buf *file)
{
	struct session *plain = open_session(file), *session = open_session(file);
	struct session_record record;
	const struct session_record *other;
	struct prefetcher *prefetcher;
	struct diag why = {0}, other_why = {0};
	size_t nr = 0;
	int got;

	assert_int_equal(prefetcher_start(session, 1, &prefetcher), 0);
	while ((got = session_next(plain, &record, &why)) > 0) {
		assert_int_equal(prefetcher_next(prefetcher, &other, NULL), 1);
		expect_same(&record, other);
		nr++;
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(prefetcher_next(prefetcher, &other, &other_why), got);
	assert_string_equal(why.text, other_why.text);
	prefetcher_close(prefetcher);
	session_close(session);
	session_close(plain);
	return nr;
}

enum { CHUNKS_MAX = PREFETCHER_SPAN_MAX, CHUNK_RECORDS = PREFETCHER_CHUNK_MAX };

/* What was decoded of a run. */
struct decoded {
	const struct prefetcher *prefetcher;
	const struct prefetcher_chunk *chunks;
	struct {
		int got;
		struct session_record record;
	} of[CHUNKS_MAX][CHUNK_RECORDS];
};

static void decode_chunk(void *ctx, unsigned worker, unsigned index)
{
	struct decoded *decoded = ctx;
	const struct prefetcher_chunk *chunk = &decoded->chunks[index];

	(void)worker;
	for (size_t at = 0; at < chunk->nr; at++)
		decoded->of[index][at].got =
			prefetcher_decode(decoded->prefetcher, chunk, at, &decoded->of[index][at].record);
}

static size_t expect_chunk(struct session *plain, struct prefetcher *prefetcher, const struct decoded *decoded,
			   size_t index)
{
	const struct prefetcher_chunk *chunk = &decoded->chunks[index];
	const struct session_record *again;
	struct session_record record;
	size_t nr = 0;

	for (size_t at = 0; at < chunk->nr; at++) {
		bool there = prefetcher_decode_again(prefetcher, chunk, at, &again);
		assert_int_equal(decoded->of[index][at].got > 0, there);
		if (!there)
			continue;
		assert_int_equal(session_next(plain, &record, NULL), 1);
		assert_int_equal(record.view.header->type, PERF_RECORD_SAMPLE);
		expect_same(&record, again);
		expect_same(&record, &decoded->of[index][at].record);
		nr++;
	}
	return nr;
}

/*
 * As read_both(), in runs; of some only a part is used, and what follows one by one. Returns how many records were in
 * runs.
 */
static size_t read_runs(const struct buf *file, const struct session_times *times)
{
	struct session *plain = open_session(file), *session = open_session(file);
	struct decoded *decoded = malloc(sizeof(*decoded));
	const struct session_record *other;
	struct session_record record;
	struct diag why = {0}, other_why = {0};
	size_t nr = 0, nr_chunks;
	struct prefetcher *prefetcher;
	int got;

	assert_non_null(decoded);
	assert_int_equal(session_limit_time(plain, times, 1), 0);
	assert_int_equal(session_limit_time(session, times, 1), 0);
	assert_int_equal(prefetcher_start(session, 3, &prefetcher), 0);
	decoded->prefetcher = prefetcher;
	do {
		while ((nr_chunks = prefetcher_span_begin(prefetcher, &decoded->chunks))) {
			assert_in_range(nr_chunks, 1, CHUNKS_MAX);
			prefetcher_share(prefetcher, decode_chunk, decoded, (unsigned)nr_chunks);
			size_t used = nr % 3 ? nr_chunks : (nr_chunks + 1) / 2;
			for (size_t i = 0; i < used; i++)
				nr += expect_chunk(plain, prefetcher, decoded, i);
			prefetcher_span_end(prefetcher, used);
		}
		for (unsigned i = 0; i < 700; i++) {
			got = prefetcher_next(prefetcher, &other, &other_why);
			assert_int_equal(session_next(plain, &record, &why), got);
			if (got <= 0)
				break;
			expect_same(&record, other);
		}
	} while (got > 0);
	assert_string_equal(why.text, other_why.text);
	prefetcher_close(prefetcher);
	session_close(session);
	session_close(plain);
	free(decoded);
	return nr;
}

static const struct session_times always = {0, UINT64_MAX};

static void put_many(struct buf *file, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		file_put_sample(file, 100 + i, FILE_ID_CLOCK);
		if (i % 1501 == 7)
			file_put_comm(file, 100 + i, "changes");
		if (i % 1000 == 999)
			file_put_mark(file);
	}
}

static void test_few(void **state)
{
	struct buf file = {0};

	(void)state;
	file_build(&file);
	assert_true(read_both(&file) > 3);
	read_runs(&file, &always);
	buf_fini(&file);
}

/* Many more than all batches hold; in a stream, where records change the session before and between the others. */
static void test_many_and_changes(void **state)
{
	struct file_events events;
	struct buf file = {0};

	(void)state;
	file_build_pipe(&file);
	put_many(&file, 40000);
	file_events_init(&events);
	events.ids[1] = 7000;
	file_put_attr(&file, &events.events[1]);
	put_many(&file, 20000);
	assert_true(read_both(&file) > 60000);
	assert_true(read_runs(&file, &always) > 30000);
	buf_fini(&file);
}

static void test_damage(void **state)
{
	struct buf file = {0};

	(void)state;
	file_build_pipe(&file);
	put_many(&file, 3000);
	file.len -= 12;
	read_both(&file);
	read_runs(&file, &always);
	buf_fini(&file);
}

/* Samples that are not wanted are in the runs, and left out when they are decoded. */
static void test_times(void **state)
{
	static const struct session_times some = {300, 5000};
	struct buf file = {0};

	(void)state;
	file_build_pipe(&file);
	put_many(&file, 9000);
	assert_in_range(read_runs(&file, &some), 1000, 4701);
	buf_fini(&file);
}

/* The reader closes it early, while the thread waits for room. */
static void test_close_early(void **state)
{
	struct buf file = {0};
	const struct session_record *record;
	struct prefetcher *prefetcher;

	(void)state;
	file_build_pipe(&file);
	put_many(&file, 20000);
	struct session *session = open_session(&file);
	assert_int_equal(prefetcher_start(session, 3, &prefetcher), 0);
	assert_int_equal(prefetcher_next(prefetcher, &record, NULL), 1);
	prefetcher_close(prefetcher);
	session_close(session);
	buf_fini(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few),   cmocka_unit_test(test_many_and_changes), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_times), cmocka_unit_test(test_close_early),
	};

	log_set_level(LOG_ERRORS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
