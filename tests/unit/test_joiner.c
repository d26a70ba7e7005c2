/* SPDX-License-Identifier: MIT */
/* Batches are put together into one extent: nothing is lost, and no mark stands where it would promise too much. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "compress/zstd.h"
#include "perfdata/record.h"
#include "read/source.h"
#include "record/output/joiner.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"
#include "stream/writer.h"

enum { EXTENT_BYTES = 64 << 10, RECORD_BYTES = 64, OF_A_BATCH = 100 };

static const struct perf_event_header mark = {.type = RECORD_FINISHED_ROUND, .size = sizeof(mark)};

struct output {
	struct batch_pool *pool;
	struct joiner_maker maker;
	struct stage *stage;
	struct writer *writer, *inner;
	uint64_t nr_records;
	struct buf wanted;
};

static void open_output(struct output *output, bool holds_for_two)
{
	const struct batch_pool_params params = {
		.level = 1, .nr_pipelines = 1, .nr_workers = 1, .extent_bytes = EXTENT_BYTES};
	const struct stage_output regular = {.nr = 1, .regular = true};

	*output = (struct output){.maker = {.maker.make = joiner_make, .holds_for_two = holds_for_two}};
	assert_int_equal(batch_pool_new(&params, &output->pool, NULL), 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &output->inner), 0);
	assert_int_equal(pipeline_open(output->pool, output->inner, &output->writer), 0);
	assert_int_equal(joiner_make(&output->maker.maker, &regular, &output->stage), 0);
	pipeline_add_stage(output->writer, output->stage);
	assert_int_equal(output->writer->nr_passes_before_commit, 0); /* a commit takes no pass more */
}

/* One batch, and whether a mark stands behind it. */
static void feed(struct output *output, size_t nr, bool with_mark)
{
	uint8_t record[RECORD_BYTES] = {0};
	const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(record)};
	const struct span span = {record, sizeof(record)};

	memcpy(record, &header, sizeof(header));
	for (size_t i = 0; i < nr; i++) {
		uint64_t number = output->nr_records++;
		memcpy(record + sizeof(header), &number, sizeof(number));
		assert_int_equal(writer_queue_wait(output->writer, &span, 1), 0);
		buf_put(&output->wanted, record, sizeof(record));
	}
	if (with_mark)
		assert_int_equal(writer_put(output->writer, &mark, sizeof(mark)), 0);
	else
		assert_int_equal(writer_fix_position(output->writer), 0);
	pipeline_run_stages(output->writer);
}

struct stored {
	size_t nr_extents, nr_marks;
};

/* Every record, in order. `last_is_mark`: the last of all is one, or none is. */
static struct stored look(struct output *output)
{
	struct span bytes = writer_mem_bytes(output->inner);
	struct source_range range = {.whole = bytes, .end = bytes.len};
	struct source *under, *source;
	struct source_record record;
	struct diag why = {0};
	struct stored stored = {0};
	struct buf found = {0};
	int got;

	for (size_t at = 0; at < bytes.len;) {
		struct perf_event_header header;
		memcpy(&header, (const char *)bytes.ptr + at, sizeof(header));
		stored.nr_extents += header.type == RECORD_COMPRESSED;
		at += header.size;
	}
	assert_int_equal(source_open_range(&range, &under), 0);
	assert_int_equal(source_open_unpack(under, false, &source), 0);
	while ((got = source_next(source, &record, &why)) == 1) {
		stored.nr_marks += record.view.header->type == RECORD_FINISHED_ROUND;
		if (record.view.header->type == PERF_RECORD_SAMPLE)
			buf_put(&found, record.view.header, record.view.header->size);
	}
	assert_int_equal(got, 0);
	source_close(source);
	assert_true(found.len <= output->wanted.len);
	assert_memory_equal(found.data, output->wanted.data, found.len);
	buf_fini(&found);
	return stored;
}

static void close_output(struct output *output)
{
	struct writer_end end;
	uint64_t queued = output->writer->queued;

	assert_int_equal(writer_end(output->writer, &end), 0);
	assert_int_equal(end.stored + end.packed, queued);
	extent_list_fini(&end.extents);
	output->stage->ops->free(output->stage);
	assert_int_equal(output->pool->nr_free, output->pool->nr_jobs);
	batch_pool_free(output->pool);
	buf_fini(&output->wanted);
}

static void commit(struct output *output)
{
	assert_int_equal(writer_commit(output->writer, true), 0);
	pipeline_run_stages(output->writer);
}

static void test_batches_make_one_extent(void **state)
{
	struct output output;

	(void)state;
	open_output(&output, false);
	for (size_t i = 0; i < 5; i++)
		feed(&output, OF_A_BATCH, true);
	assert_int_equal(writer_mem_bytes(output.inner).len, 0);
	commit(&output);
	struct stored stored = look(&output);
	assert_int_equal(stored.nr_extents, 1);
	assert_int_equal(stored.nr_marks, 1); /* the last: it stands where it stood */
	/* As much as there is room for. */
	for (size_t i = 0; i < 2 * EXTENT_BYTES / (OF_A_BATCH * RECORD_BYTES); i++)
		feed(&output, OF_A_BATCH, false);
	assert_int_equal(look(&output).nr_extents, 2);
	commit(&output);
	stored = look(&output);
	assert_int_equal(stored.nr_extents, 3);
	assert_int_equal(stored.nr_marks, 1);
	close_output(&output);
}

/* What follows a mark is not put in front of it, nor the mark behind that. */
static void test_a_mark_before_others_goes(void **state)
{
	struct output output;

	(void)state;
	open_output(&output, false);
	feed(&output, OF_A_BATCH, true);
	feed(&output, OF_A_BATCH, false);
	feed(&output, 0, false); /* nothing at all */
	commit(&output);
	struct stored stored = look(&output);
	assert_int_equal(stored.nr_extents, 1);
	assert_int_equal(stored.nr_marks, 0);
	feed(&output, OF_A_BATCH, false);
	feed(&output, 0, true);
	feed(&output, 0, false);
	commit(&output);
	assert_int_equal(look(&output).nr_marks, 1);
	close_output(&output);
}

/* Readers keep in memory what no mark lets go. */
static void test_some_marks_stay(void **state)
{
	enum { BATCHES = (8 << 20) / (OF_A_BATCH * RECORD_BYTES) };
	struct output output;

	(void)state;
	open_output(&output, false);
	for (size_t i = 0; i < BATCHES; i++) {
		feed(&output, OF_A_BATCH, i % 2 == 0);
		if (i % 4 == 3) /* the mark is never the last */
			commit(&output);
	}
	assert_in_range(look(&output).nr_marks, 6, 8);
	close_output(&output);
}

/* What came before a commit is written at the next one, and never later. */
static void test_kept_for_two_commits(void **state)
{
	struct output output;

	(void)state;
	open_output(&output, true);
	feed(&output, OF_A_BATCH, false);
	commit(&output);
	assert_int_equal(writer_mem_bytes(output.inner).len, 0);
	feed(&output, OF_A_BATCH, false);
	commit(&output);
	assert_int_equal(look(&output).nr_extents, 1);
	feed(&output, OF_A_BATCH, false);
	commit(&output);
	assert_int_equal(look(&output).nr_extents, 1);
	commit(&output);
	assert_int_equal(look(&output).nr_extents, 2);
	close_output(&output);
}

static void test_a_pipe_has_none(void **state)
{
	const struct stage_output pipe = {.nr = 1};
	struct joiner_maker maker = {.maker.make = joiner_make};
	struct stage *stage;

	(void)state;
	assert_int_equal(joiner_make(&maker.maker, &pipe, &stage), 0);
	assert_null(stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batches_make_one_extent), cmocka_unit_test(test_a_mark_before_others_goes),
		cmocka_unit_test(test_some_marks_stay),         cmocka_unit_test(test_kept_for_two_commits),
		cmocka_unit_test(test_a_pipe_has_none),
	};

	return zstd_available() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
