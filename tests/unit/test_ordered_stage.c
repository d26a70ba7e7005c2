/* SPDX-License-Identifier: MIT */
/* Records of two outputs are taken in the order of time, whatever is changed, removed and added, and all are written.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "record/order/ordered_stage.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"
#include "stream/writer.h"

enum { OUTPUTS = 2, STEPS = 300, PER_STEP = 40, PER_PASS = 5, EXTENT_BYTES = 4096, TYPE_OTHER = 77 };

struct test_record {
	struct perf_event_header header;
	uint64_t time_ns, number, padding;
};

static struct {
	uint64_t last_ns;
	size_t nr_taken, nr_taken_before, nr_removed, nr_added, nr_shortened, nr_given_up, nr_ended, nr_joined;
	bool last_end;
} seen;
static bool all_removed; /* each record is */
static bool many_rings;  /* outputs have the records of several */
static bool joins;       /* some records are taken with the next one */

/* Of some numbers the next record is taken with it. */
static int look_at(void *ctx, struct span records, const struct perf_event_header *header, struct ordered_seen *ret)
{
	const struct test_record *record = records.ptr;

	(void)ctx;
	assert_int_equal(ret->len, sizeof(*record));
	ret->time_ns = ret->last_ns = record->time_ns;
	if (joins && record->number % 4 == 1 && records.len > sizeof(*record) && header->type != TYPE_OTHER) {
		ret->len += sizeof(*record);
		ret->last_ns = record[1].time_ns;
	}
	return header->type == TYPE_OTHER && !all_removed ? ORDERED_PASS : ORDERED_WANT;
}

static int take_one(struct ordered_record *record)
{
	struct test_record *bytes = (void *)record->bytes;
	const struct test_record more = {
		.header = {.type = TYPE_OTHER, .size = sizeof(more)}, .time_ns = record->time_ns, .number = UINT64_MAX};

	seen.nr_taken++;
	if (bytes->number % 5 == 0) {
		seen.nr_added++;
		assert_int_equal(ordered_add(record, (struct span){&more, sizeof(more)}), 0);
	}
	if (!record->batch) /* a copy: the record itself went before */
		return 0;
	if (all_removed || bytes->number % 3 == 0) {
		seen.nr_removed++;
		ordered_record_shorten(record, sizeof(*bytes), 0);
	} else if (bytes->number % 7 == 0) {
		seen.nr_shortened++;
		bytes->header.size -= sizeof(bytes->padding);
		ordered_record_shorten(record, sizeof(*bytes), bytes->header.size);
	}
	return 0;
}

static int take(void *ctx, struct ordered_record *record)
{
	const uint8_t *const end = record->bytes + record->len;
	const struct test_record *first = (const void *)record->bytes;

	(void)ctx;
	assert_int_equal(record->time_ns, first->time_ns);
	assert_true(record->time_ns >= seen.last_ns);
	seen.last_ns = record->time_ns;
	seen.nr_joined += record->len > sizeof(*first);
	for (uint64_t number = first->number; record->bytes < end; number++) {
		assert_int_equal(((const struct test_record *)record->bytes)->number, number);
		assert_int_equal(take_one(record), 0);
		record->bytes += sizeof(*first);
	}
	return 0;
}

/* The record itself goes then. */
static bool give_up_all(void *ctx, struct ordered_record *record)
{
	(void)ctx;
	seen.nr_given_up++;
	for (const uint8_t *end = record->bytes + record->len; record->bytes < end;
	     record->bytes += sizeof(struct test_record))
		ordered_record_shorten(record, sizeof(struct test_record), 0);
	return true;
}

static bool give_up(void *ctx, struct ordered_record *record)
{
	(void)ctx, (void)record;
	seen.nr_given_up++;
	return true;
}

static int end(void *ctx, struct ordered_record *place, bool last)
{
	const struct test_record more = {
		.header = {.type = TYPE_OTHER, .size = sizeof(more)}, .time_ns = UINT64_MAX, .number = UINT64_MAX};

	(void)ctx;
	assert_false(seen.last_end);
	seen.last_end = last;
	seen.nr_ended++;
	seen.nr_added++;
	return ordered_add(place, (struct span){&more, sizeof(more)});
}

static void queue(struct writer *writer, const void *bytes, size_t len)
{
	const struct span span = {bytes, len};
	int err;

	while ((err = writer_queue(writer, &span, 1)) == -EAGAIN)
		assert_int_equal(writer_complete(writer, WRITER_ROOM), 0);
	assert_int_equal(err, 0);
}

/* In each step what each output gets is in order, and the outputs overlap. */
static void feed(struct writer *writers_of[OUTPUTS], uint64_t *number)
{
	static struct test_record records[PER_STEP];
	uint64_t random = 88172645463325252ull;

	for (uint64_t step = 0; step < STEPS; step++) {
		for (unsigned o = 0; o < OUTPUTS; o++) {
			uint64_t time_ns = 1 + step * 1000;
			for (size_t i = 0; i < PER_STEP; i++) {
				random ^= random << 13, random ^= random >> 7, random ^= random << 17;
				time_ns += random % 20;
				records[i] = (struct test_record){
					.header = {.type = random % 11 ? PERF_RECORD_SAMPLE : TYPE_OTHER,
						   .size = sizeof(records[i])},
					.time_ns = time_ns,
					.number = (*number)++};
			}
			queue(writers_of[o], records, sizeof(records));
		}
		for (unsigned o = 0; o < OUTPUTS; o++) {
			writers_of[o]->complete_ns = clock_ns(CLOCK_MONOTONIC);
			if (step % 16 == 15)
				assert_int_equal(writer_commit(writers_of[o], true), 0);
		}
	}
}

/* While the lock is released other outputs go on. */
static int before_pass(void *ctx, struct buf *front)
{
	const struct test_record more = {.header = {.type = TYPE_OTHER, .size = sizeof(more)}, .number = UINT64_MAX};
	struct ordered_stages *const *stages = ctx;

	if (seen.nr_taken == seen.nr_taken_before)
		return 0;
	seen.nr_taken_before = seen.nr_taken;
	seen.nr_added++;
	ordered_stages_unlock(*stages);
	buf_put(front, &more, sizeof(more));
	ordered_stages_lock(*stages);
	return buf_status(front);
}

static const struct ordered_ops test_ops = {
	.name = "test", .look_at = look_at, .take = take, .give_up = give_up, .before_pass = before_pass, .end = end};

struct output {
	struct writer *writer;
	struct stage *stage;
	FILE *file;
};

static void open_output(struct batch_pool *pool, struct ordered_stages *stages, size_t index, struct output *ret)
{
	const struct stage_output output = {.index = index, .nr = OUTPUTS, .one_ring = !many_rings};
	struct writer *inner;

	ret->file = tmpfile();
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fileno(ret->file)}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &ret->writer), 0);
	assert_int_equal(ordered_stages_make(stages, &output, &ret->stage), 0);
	pipeline_add_stage(ret->writer, ret->stage);
}

/* Returns the bytes that were stored. */
static uint64_t close_output(struct output *output)
{
	struct writer_end ended;

	assert_int_equal(writer_end(output->writer, &ended), 0);
	output->stage->ops->free(output->stage);
	fclose(output->file);
	return ended.stored;
}

static void check(size_t budget_bytes, size_t nr_workers)
{
	const struct batch_pool_params params = {.nr_pipelines = OUTPUTS,
						 .no_index = true,
						 .nr_workers = nr_workers,
						 .extent_bytes = EXTENT_BYTES,
						 .budget_bytes = budget_bytes};
	struct writer *writers_of[OUTPUTS];
	struct output outputs[OUTPUTS];
	struct ordered_stages *stages;
	struct batch_pool *pool;
	uint64_t number = 0, stored = 0;

	memset(&seen, 0, sizeof(seen));
	assert_int_equal(ordered_stages_new(&test_ops, &stages, &stages), 0);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	for (unsigned o = 0; o < OUTPUTS; o++) {
		open_output(pool, stages, o, &outputs[o]);
		writers_of[o] = outputs[o].writer;
	}
	feed(writers_of, &number);
	ordered_stages_last_outputs(stages);
	for (unsigned o = 0; o < OUTPUTS; o++)
		pipeline_run_stages(writers_of[o]);
	for (unsigned o = 0; o < OUTPUTS; o++)
		stored += close_output(&outputs[o]);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	batch_pool_free(pool);
	ordered_stages_free(stages);
	assert_true(seen.last_end);
	assert_int_equal(seen.nr_ended, OUTPUTS);
	assert_true(seen.nr_taken > number / 2 && seen.nr_removed);
	assert_int_equal(stored, (number - seen.nr_removed + seen.nr_added) * sizeof(struct test_record) -
					 seen.nr_shortened * sizeof(uint64_t));
}

static void test_order_over_outputs(void **state)
{
	(void)state;
	check(64 * EXTENT_BYTES, 1);
	check(64 * EXTENT_BYTES, 3);
	assert_int_equal(seen.nr_joined, 0);
	joins = true;
	check(64 * EXTENT_BYTES, 3);
	assert_true(seen.nr_joined > 0);
}

/* Of batches nothing is left but what was added, which is among their records or behind them; or more is left. */
static void test_all_are_removed(void **state)
{
	(void)state;
	all_removed = true;
	check(64 * EXTENT_BYTES, 2);
	many_rings = true;
	check(64 * EXTENT_BYTES, 2);
	all_removed = false;
	check(64 * EXTENT_BYTES, 2);
	many_rings = false;
	assert_true(seen.nr_added > 0);
}

/* Batches go before the turn of their records, which are still taken in the order of time. */
static void test_short_of_memory(void **state)
{
	(void)state;
	check(6 * EXTENT_BYTES, 1);
	assert_true(seen.nr_given_up > 0);
	check(6 * EXTENT_BYTES, 2);
	joins = false;
}

enum { KEPT = 20 };
static sem_t all_came;

static int look_for_the_last(void *ctx, struct span records, const struct perf_event_header *header,
			     struct ordered_seen *ret)
{
	const struct test_record *record = records.ptr;
	const int look = look_at(ctx, records, header, ret);

	if (record->number <= KEPT && KEPT < record->number + ret->len / sizeof(*record))
		sem_post(&all_came);
	return look;
}

static int fail_when_all_came(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	(void)writer, (void)spans, (void)nr_spans;
	sem_wait(&all_came);
	sem_post(&all_came);
	return -ENOSPC;
}

/* The first batch meets an error, while the others wait for what is older. None of them stays. */
static void test_nothing_is_kept_after_an_error(void **state)
{
	static const struct ordered_ops ops = {
		.name = "test", .look_at = look_for_the_last, .take = take, .give_up = give_up, .end = end};
	static const struct writer_ops full = {
		.name = "full", .state_bytes = sizeof(struct writer), .queue = fail_when_all_came};
	/* Of one pipeline there would be one worker: it waits in the writer, and none looks at the others. */
	const struct batch_pool_params params = {.nr_pipelines = 2,
						 .no_index = true,
						 .nr_workers = 2,
						 .extent_bytes = EXTENT_BYTES,
						 .budget_bytes = 8 * KEPT * EXTENT_BYTES};
	struct ordered_stages *stages;
	struct writer *inner, *writer;
	struct stage *made;
	struct batch_pool *pool;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	sem_init(&all_came, 0, 0);
	assert_int_equal(ordered_stages_new(&ops, NULL, &stages), 0);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&full, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	assert_int_equal(ordered_stages_make(stages, &(struct stage_output){.nr = 1}, &made), 0);
	pipeline_add_stage(writer, made);
	for (uint64_t number = 0; number <= KEPT; number++) {
		const struct test_record record = {
			.header = {.type = number ? PERF_RECORD_SAMPLE : TYPE_OTHER, .size = sizeof(record)},
			.time_ns = number,
			.number = number};
		queue(writer, &record, sizeof(record));
		assert_int_equal(writer_fix_position(writer), 0);
	}
	pipeline_run_stages(writer);
	assert_int_equal(seen.nr_given_up, KEPT);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	assert_int_equal(writer_close(writer, NULL), -ENOSPC);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	made->ops->free(made);
	batch_pool_free(pool);
	ordered_stages_free(stages);
	sem_destroy(&all_came);
}

/* One pass over the rings: records that follow each other from time_ns on. */
static void feed_pass(struct writer *writer, uint64_t time_ns, bool commit)
{
	struct test_record records[PER_PASS];
	uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < PER_PASS; i++)
		records[i] = (struct test_record){.header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(records[i])},
						  .time_ns = time_ns + i,
						  .number = i};
	queue(writer, records, sizeof(records));
	writer->complete_ns = began_ns;
	if (commit)
		assert_int_equal(writer_commit(writer, true), 0);
}

/*
 * The output is switched: in the last pass for the former output one ring was visited last, of which it has records
 * that are newer than some of the others', which are in the next output. All that was there before that pass is not
 * left to the next one.
 */
static void test_next_output_has_older_records(void **state)
{
	const struct batch_pool_params params = {.nr_pipelines = 2,
						 .no_index = true,
						 .nr_workers = 1,
						 .extent_bytes = EXTENT_BYTES,
						 .budget_bytes = 64 * EXTENT_BYTES};
	struct output former, next;
	struct ordered_stages *stages;
	struct batch_pool *pool;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(ordered_stages_new(&test_ops, &stages, &stages), 0);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	open_output(pool, stages, 0, &former);
	feed_pass(former.writer, 1000, true);
	open_output(pool, stages, 0, &next);
	feed_pass(former.writer, 3000, false);
	close_output(&former);
	assert_int_equal(seen.nr_taken, PER_PASS);
	assert_int_equal(seen.nr_given_up, PER_PASS);
	feed_pass(next.writer, 2000, true);
	feed_pass(next.writer, 4000, true);
	ordered_stages_last_outputs(stages);
	close_output(&next);
	assert_int_equal(seen.nr_taken, 4 * PER_PASS);
	assert_true(seen.last_end);
	batch_pool_free(pool);
	ordered_stages_free(stages);
}

static void check_order(FILE *file, size_t nr)
{
	struct test_record record;
	uint64_t newest_ns = 0;

	rewind(file);
	for (size_t i = 0; i < nr; i++) {
		assert_int_equal(fread(&record.header, sizeof(record.header), 1, file), 1);
		const size_t left = record.header.size - sizeof(record.header);
		assert_true(left <= sizeof(record) - sizeof(record.header));
		assert_int_equal(fread(&record.time_ns, left, 1, file), 1);
		assert_true(record.time_ns >= newest_ns);
		newest_ns = record.time_ns;
	}
}

/*
 * An output ends while another has batches: one whose records were taken in the meantime, and a later one. What its
 * records add, which are taken after its end, is there in the order of time.
 */
static void test_added_for_an_output_that_ended(void **state)
{
	static const struct ordered_ops ops = {
		.name = "test", .look_at = look_at, .take = take, .give_up = give_up_all, .end = end};
	const struct batch_pool_params params = {.nr_pipelines = OUTPUTS,
						 .no_index = true,
						 .nr_workers = 1,
						 .extent_bytes = EXTENT_BYTES,
						 .budget_bytes = 64 * EXTENT_BYTES};
	struct output outputs[OUTPUTS];
	struct ordered_stages *stages;
	struct batch_pool *pool;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(ordered_stages_new(&ops, NULL, &stages), 0);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	for (unsigned o = 0; o < OUTPUTS; o++)
		open_output(pool, stages, o, &outputs[o]);
	for (unsigned pass = 0; pass < 2; pass++) {
		feed_pass(outputs[1].writer, pass ? 3000 : 1000, true);
		pipeline_run_stages(outputs[1].writer);
	}
	feed_pass(outputs[0].writer, 2000, true);
	pipeline_run_stages(outputs[0].writer);
	assert_int_equal(seen.nr_taken, PER_PASS);
	ordered_stages_last_outputs(stages);
	close_output(&outputs[0]);
	assert_int_equal(seen.nr_given_up, PER_PASS);
	struct writer_end ended;
	assert_int_equal(writer_end(outputs[1].writer, &ended), 0);
	assert_int_equal(seen.nr_taken, 3 * PER_PASS);
	/* Of each pass two records are removed, those of the one that ended among them, and one is added. */
	check_order(outputs[1].file, 2 * (PER_PASS - 2) + 3);
	outputs[1].stage->ops->free(outputs[1].stage);
	fclose(outputs[1].file);
	batch_pool_free(pool);
	ordered_stages_free(stages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_over_outputs),
		cmocka_unit_test(test_all_are_removed),
		cmocka_unit_test(test_short_of_memory),
		cmocka_unit_test(test_nothing_is_kept_after_an_error),
		cmocka_unit_test(test_next_output_has_older_records),
		cmocka_unit_test(test_added_for_an_output_that_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
