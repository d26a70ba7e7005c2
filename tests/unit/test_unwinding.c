/* SPDX-License-Identifier: MIT */
/* The stage that unwinds while recording: which chain a made sample gets, also where it could not be unwound. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/unwind/unwinding.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"
#include "stream/writer.h"
#include "unwind/unwind.h"

/* Source: <asm/perf_regs.h>. FP, SP, PC: where they are among the registers that are sampled. */
#ifdef __aarch64__
#define SAMPLED_MASK 0x1ffffffff
enum { NR_REGS = 33, FP = 29, SP = 31, PC = 32 };
#else
#define SAMPLED_MASK 0xff01ff
enum { NR_REGS = 17, FP = 6, SP = 7, PC = 8 };
#endif

enum {
	PID = 100,
	CODE = 0x7f000000, /* in no file: frame pointers lead to callers */
	CALL = CODE + 0x100,
	CALLER = CODE + 0x200, /* what CALL returns to */
	STACK = 0x7fff8000,
	NR_WORDS = 16, /* of a stack */
	BATCH_BYTES = 64 << 10,
	EXTENT_BYTES = 64 << 10,
};

static const uint64_t kernel_part[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002};
/* Of code without frame pointers: callers that are none. */
static const uint64_t user_part[] = {(uint64_t)PERF_CONTEXT_USER, CALL, CODE + 0x1111, CODE + 0x2222};

/* The linker puts it in the place of libc's (--wrap). */
void *__real_reallocarray(void *old, size_t nr, size_t bytes);
void *__wrap_reallocarray(void *old, size_t nr, size_t bytes);

static atomic_bool next_fails;

void *__wrap_reallocarray(void *old, size_t nr, size_t bytes)
{
	return atomic_exchange(&next_fails, false) ? NULL : __real_reallocarray(old, nr, bytes);
}

int __real_unwind_object_build(struct unwind_object *object, int fd, struct diag *reterr);
int __wrap_unwind_object_build(struct unwind_object *object, int fd, struct diag *reterr);

static pthread_mutex_t meeting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static const struct buf *passed_on; /* NULL: not of interest */
static size_t passed_on_bytes;      /* when the last table was begun */
static unsigned nr_building,
	nr_to_meet; /* under the lock: tables that were begun; that are to be begun before one ends */

int __wrap_unwind_object_build(struct unwind_object *object, int fd, struct diag *reterr)
{
	pthread_mutex_lock(&meeting);
	nr_building++;
	passed_on_bytes = passed_on ? passed_on->len : 0;
	pthread_cond_broadcast(&met);
	while (nr_building < nr_to_meet)
		pthread_cond_wait(&met, &meeting);
	pthread_mutex_unlock(&meeting);
	return __real_unwind_object_build(object, fd, reterr);
}

/* Behind the stage. It keeps the records. */
struct sink {
	struct stage stage;
	struct buf records;
};

struct fixture {
	uint64_t id;
	struct event_desc event;
	struct perf_event_attr converted;
	struct unwinding *unwinding;
	struct batch_pool *pool;
	struct writer *writer;
	struct stage *stage;
	struct sink sink;
	uint8_t bytes[BATCH_BYTES];
	struct batch batch; /* of those bytes */
};

static int keep(struct stage *stage, struct batch *batch)
{
	struct sink *sink = (struct sink *)stage;

	buf_put(&sink->records, batch->records, batch->len);
	return 0;
}

static const struct stage_ops sink_ops = {.name = "sink", .process = keep};

static int set_up_with(bool overwritten, void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct unwinding_event by_event = {.unwinds = true, .carries_task_events = true};
	const struct batch_pool_params pool_params = {.nr_pipelines = 1,
						      .no_index = true,
						      .nr_workers = 1,
						      .extent_bytes = EXTENT_BYTES,
						      .budget_bytes = 4 * EXTENT_BYTES};
	struct writer *inner;

	assert_non_null(f);
	f->event.ids = &f->id;
	f->event.nr_ids = 1;
	f->event.attr = (struct perf_event_attr){
		.size = sizeof(f->event.attr),
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = SAMPLED_MASK,
		.sample_stack_user = NR_WORDS * sizeof(uint64_t),
		.sample_id_all = 1,
		.write_backward = overwritten,
	};
	f->converted = f->event.attr;
	callchain_convert_attr(&f->converted, 0);
	const struct unwinding_params params = {.events = &f->event, .by_event = &by_event, .nr_events = 1};
	assert_int_equal(unwinding_new(&params, &f->unwinding), 0);
	assert_int_equal(batch_pool_new(&pool_params, &f->pool, NULL), 0);
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(f->pool, inner, &f->writer), 0);
	struct stage_maker *maker = unwinding_maker(f->unwinding);
	assert_int_equal(maker->make(maker, NULL, &f->stage), 0);
	f->sink.stage.ops = &sink_ops;
	pipeline_add_stage(f->writer, f->stage);
	pipeline_add_stage(f->writer, &f->sink.stage);
	f->batch = (struct batch){.records = f->bytes, .room = BATCH_BYTES, .read_ns = 1};
	*state = f;
	return 0;
}

static int set_up(void **state)
{
	return set_up_with(false, state);
}

static int set_up_overwritten(void **state)
{
	return set_up_with(true, state);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(writer_close(f->writer, NULL), 0);
	f->stage->ops->free(f->stage);
	batch_pool_stop(f->pool);
	batch_pool_free(f->pool);
	unwinding_free(f->unwinding);
	buf_fini(&f->sink.records);
	free(f);
	return 0;
}

/* Puts a record into the batch. */
static void put(struct fixture *f, uint32_t type, uint16_t misc, const struct buf *payload)
{
	struct perf_event_header header = {
		.type = type, .misc = misc, .size = (uint16_t)(sizeof(header) + payload->len)};

	assert_true(f->batch.len + header.size <= BATCH_BYTES);
	memcpy(f->bytes + f->batch.len, &header, sizeof(header));
	memcpy(f->bytes + f->batch.len + sizeof(header), payload->data, payload->len);
	f->batch.len += header.size;
}

/* In the program at CALL, or in the kernel, where that was called from. The caller's return address: on the stack. */
static void put_sample_of(struct fixture *f, uint32_t pid, uint16_t cpumode, uint64_t time_ns)
{
	const bool in_kernel = cpumode == PERF_RECORD_MISC_KERNEL;
	uint64_t regs[NR_REGS] = {[FP] = STACK + 16, [SP] = STACK, [PC] = CALL}, stack[NR_WORDS] = {[3] = CALLER};
	const size_t kernel_bytes = in_kernel ? sizeof(kernel_part) : 0;
	struct buf payload = {0};

	buf_put_u64(&payload, in_kernel ? kernel_part[1] : CALL);
	buf_put_u32(&payload, pid);
	buf_put_u32(&payload, pid);
	buf_put_u64(&payload, time_ns);
	buf_put_u64(&payload, (kernel_bytes + sizeof(user_part)) / sizeof(uint64_t));
	buf_put(&payload, kernel_part, kernel_bytes);
	buf_put(&payload, user_part, sizeof(user_part));
	buf_put_u64(&payload, PERF_SAMPLE_REGS_ABI_64);
	buf_put(&payload, regs, sizeof(regs));
	buf_put_u64(&payload, sizeof(stack));
	buf_put(&payload, stack, sizeof(stack));
	buf_put_u64(&payload, sizeof(stack));
	put(f, PERF_RECORD_SAMPLE, cpumode, &payload);
	buf_fini(&payload);
}

static void put_sample(struct fixture *f, uint16_t cpumode, uint64_t time_ns)
{
	put_sample_of(f, PID, cpumode, time_ns);
}

/* The process has that file at CODE. */
static void put_map_of(struct fixture *f, uint32_t pid, const char *name, uint64_t time_ns)
{
	const uint64_t where[] = {CODE, 0x10000, 0}, of_file[4] = {0};
	struct buf payload = {0};
	char padded[16] = "";

	assert_true(strlen(name) < sizeof(padded));
	memcpy(padded, name, strlen(name));
	for (unsigned i = 0; i < 2; i++)
		buf_put_u32(&payload, pid);
	buf_put(&payload, where, sizeof(where));
	buf_put(&payload, of_file, sizeof(of_file));
	buf_put(&payload, padded, sizeof(padded));
	for (unsigned i = 0; i < 2; i++) /* sample_id */
		buf_put_u32(&payload, pid);
	buf_put_u64(&payload, time_ns);
	put(f, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, &payload);
	buf_fini(&payload);
}

/* Memory without a file. */
static void put_map(struct fixture *f, uint64_t time_ns)
{
	put_map_of(f, PID, "//anon", time_ns);
}

/* A record that means nothing here, of which each word looks like another one. */
static void put_other(struct fixture *f, unsigned nr_words)
{
	const struct perf_event_header none = {.type = PERF_RECORD_SWITCH, .size = sizeof(none)};
	struct buf payload = {0};

	for (unsigned i = 0; i < nr_words; i++)
		buf_put(&payload, &none, sizeof(none));
	put(f, PERF_RECORD_SWITCH, 0, &payload);
	buf_fini(&payload);
}

/* The stage gets the batch. */
static void give(struct fixture *f)
{
	assert_int_equal(f->stage->ops->process(f->stage, &f->batch), 0);
}

/* All records of all outputs have come up to that time. */
static void flush(struct fixture *f, enum stage_flush why, uint64_t complete_ns)
{
	f->stage->complete_ns = complete_ns;
	assert_int_equal(f->stage->ops->flush(f->stage, why), 0);
}

/* The chain of the next sample of *records is: `kernel`'s part, then these frames of the program. */
static void expect_chain(const struct fixture *f, struct span *records, bool kernel, const uint64_t *user,
			 size_t nr_user)
{
	const size_t nr_kernel = kernel ? sizeof(kernel_part) / sizeof(kernel_part[0]) : 0;
	struct perf_event_header header = {0};
	struct sample sample;

	while (records->len) {
		memcpy(&header, records->ptr, sizeof(header));
		assert_in_range(header.size, sizeof(header), records->len);
		if (header.type == PERF_RECORD_SAMPLE)
			break;
		*records = (struct span){(const uint8_t *)records->ptr + header.size, records->len - header.size};
	}
	assert_int_equal(header.type, PERF_RECORD_SAMPLE);
	assert_int_equal(sample_decode(&f->converted, records->ptr, &sample), 0);
	assert_int_equal(sample.nr_ips, nr_kernel + (nr_user ? 1 + nr_user : 0));
	assert_memory_equal(sample.ips, kernel_part, nr_kernel * sizeof(uint64_t));
	if (nr_user) {
		assert_int_equal(sample.ips[nr_kernel], (uint64_t)PERF_CONTEXT_USER);
		assert_memory_equal(sample.ips + nr_kernel + 1, user, nr_user * sizeof(uint64_t));
	}
	*records = (struct span){(const uint8_t *)records->ptr + header.size, records->len - header.size};
}

#define FRAMES(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

/* With the maps of its process: by frame pointers here, as the code is in no file. */
static void test_known_maps(void **state)
{
	struct fixture *f = *state;

	put_map(f, 1);
	put_sample(f, PERF_RECORD_MISC_USER, 2);
	put_sample(f, PERF_RECORD_MISC_KERNEL, 3);
	give(f);
	flush(f, STAGE_ROUND, 2);
	struct span records = buf_span(&f->sink.records);
	expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
	expect_chain(f, &records, true, FRAMES(CALL, CALLER - 1));
	assert_int_equal(records.len, 0);
	assert_int_equal(unwinding_counts(f->unwinding).by_end[UNWIND_COMPLETE], 2);
}

/* The stage gets what was put as a batch of its own, which it keeps. */
static void give_copy(struct fixture *f, struct batch *copy)
{
	uint8_t *records = malloc(f->batch.len);

	assert_non_null(records);
	*copy = f->batch;
	copy->records = memcpy(records, f->bytes, f->batch.len);
	assert_int_equal(f->stage->ops->process(f->stage, copy), 0);
	f->batch.len = 0;
}

/*
 * The tables of different files are built by several threads at the same time: here the first is not ready until
 * another one was begun. The second batch waits for the first table, but the thread that took it does not. No table is
 * begun twice.
 */
static void test_tables_are_built_beside_each_other(void **state)
{
	struct fixture *f = *state;
	const uint32_t pids[] = {PID, PID, PID + 1, PID + 1};
	enum { NR = sizeof(pids) / sizeof(pids[0]) };
	struct batch batches[NR];

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	put_map_of(f, PID, "/dev/null", 1);
	put_map_of(f, PID + 1, "/dev/full", 1);
	for (unsigned i = 0; i < NR; i++) {
		put_sample_of(f, pids[i], PERF_RECORD_MISC_USER, 2 + i);
		give_copy(f, &batches[i]);
	}
	nr_building = 0;
	nr_to_meet = 2;
	flush(f, STAGE_ROUND, 2);
	nr_to_meet = 0;
	assert_int_equal(nr_building, 2);
	struct span records = buf_span(&f->sink.records);
	for (unsigned i = 0; i < NR; i++)
		expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
	assert_int_equal(records.len, 0);
	for (unsigned i = 0; i < NR; i++)
		free(batches[i].records);
}

/*
 * What is unwound is passed on, and its memory is free, before all is that could be: here before the table is built
 * that the last of many batches needs.
 */
static void test_batches_are_passed_on_early(void **state)
{
	enum { NR = 300 };
	static struct batch batches[NR];
	struct fixture *f = *state;

	put_map(f, 1);
	put_map_of(f, PID + 1, "/dev/null", 1);
	for (unsigned i = 0; i < NR; i++) {
		put_sample_of(f, i < NR - 1 ? PID : PID + 1, PERF_RECORD_MISC_USER, 2 + i);
		give_copy(f, &batches[i]);
	}
	passed_on = &f->sink.records;
	flush(f, STAGE_ROUND, 2);
	passed_on = NULL;
	assert_in_range(passed_on_bytes, 1, f->sink.records.len - 1);
	struct span records = buf_span(&f->sink.records);
	for (unsigned i = 0; i < NR; i++) {
		expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
		free(batches[i].records);
	}
	assert_int_equal(records.len, 0);
}

/*
 * One frame of the program is known of a sample that could not be unwound, be it in the program or in the kernel. What
 * the kernel found by frame pointers is not taken for its callers.
 */
static void expect_one_frame(struct fixture *f)
{
	struct span records = buf_span(&f->sink.records);

	expect_chain(f, &records, false, FRAMES(CALL));
	expect_chain(f, &records, true, FRAMES(CALL));
	assert_int_equal(records.len, 0);
}

static void test_unknown_process(void **state)
{
	struct fixture *f = *state;

	put_sample(f, PERF_RECORD_MISC_USER, 2);
	put_sample(f, PERF_RECORD_MISC_KERNEL, 3);
	give(f);
	flush(f, STAGE_ROUND, 2);
	expect_one_frame(f);
	assert_int_equal(unwinding_counts(f->unwinding).nr_unmapped, 2);
}

static void test_memory_runs_short(void **state)
{
	struct fixture *f = *state;

	put_map(f, 1);
	put_sample(f, PERF_RECORD_MISC_USER, 2);
	put_sample(f, PERF_RECORD_MISC_KERNEL, 3);
	give(f);
	flush(f, STAGE_MEMORY, 0);
	expect_one_frame(f);
	assert_int_equal(unwinding_counts(f->unwinding).nr_too_soon, 2);
}

static void test_a_process_that_has_changed_since(void **state)
{
	struct fixture *f = *state;

	put_map(f, 9);
	give(f);
	flush(f, STAGE_ROUND, 2);
	f->sink.records.len = 0;
	f->batch.len = 0;
	put_sample(f, PERF_RECORD_MISC_USER, 2);
	put_sample(f, PERF_RECORD_MISC_KERNEL, 3);
	give(f);
	flush(f, STAGE_ROUND, 2);
	expect_one_frame(f);
	assert_int_equal(unwinding_counts(f->unwinding).nr_too_late, 2);
}

/* A sample for which there is no memory to wait becomes shorter at once: what is behind it counts all the same. */
static void test_no_memory_to_wait(void **state)
{
	struct fixture *f = *state;

	put_sample(f, PERF_RECORD_MISC_USER, 1);
	put_map(f, 2);
	put_other(f, 100);
	next_fails = true;
	give(f);
	flush(f, STAGE_ROUND, 2);
	assert_false(next_fails);
	f->batch.len = 0;
	put_sample(f, PERF_RECORD_MISC_USER, 3);
	give(f);
	flush(f, STAGE_ROUND, 2);
	struct span records = buf_span(&f->sink.records);
	expect_chain(f, &records, false, FRAMES(CALL));
	expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
	assert_int_equal(records.len, 0);
	assert_int_equal(unwinding_counts(f->unwinding).nr_too_soon, 1);
}

/* What the batch holds is what overwritten rings held. */
static void take_snapshot(struct fixture *f, struct buf *ret)
{
	buf_put(ret, f->bytes, f->batch.len);
	f->batch.len = 0;
}

/* Task events that came before it count, whether or not there was a flush since. */
static void test_events_before_a_snapshot(void **state)
{
	struct fixture *f = *state;
	struct buf snapshot = {0};

	put_sample(f, PERF_RECORD_MISC_USER, 2);
	take_snapshot(f, &snapshot);
	put_map(f, 1);
	give(f);
	assert_int_equal(unwinding_snapshot(f->unwinding, f->pool, &snapshot), 0);
	struct span records = buf_span(&snapshot);
	expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
	assert_int_equal(records.len, 0);
	assert_int_equal(unwinding_counts(f->unwinding).nr_unmapped, 0);
	buf_fini(&snapshot);
}

/* What is left out of a snapshot, as it cannot be read, is counted as lost. */
static void test_broken_samples_of_a_snapshot(void **state)
{
	struct fixture *f = *state;
	struct buf snapshot = {0}, too_short = {0};

	for (unsigned i = 0; i < 4; i++) /* breaks off behind the time */
		buf_put_u64(&too_short, 1);
	put(f, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, &too_short);
	put_sample(f, PERF_RECORD_MISC_USER, 2);
	put(f, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, &too_short);
	take_snapshot(f, &snapshot);
	assert_int_equal(unwinding_snapshot(f->unwinding, f->pool, &snapshot), 0);
	struct span records = buf_span(&snapshot);
	expect_chain(f, &records, false, FRAMES(CALL));
	assert_int_equal(records.len, 0);
	assert_non_null(f->pool->totals.drops[0].reason);
	assert_string_equal(f->pool->totals.drops[0].reason, "unwinding: cannot be read");
	assert_int_equal(f->pool->totals.drops[0].nr_samples, 2);
	buf_fini(&too_short);
	buf_fini(&snapshot);
}

static int has_no_space(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	(void)writer, (void)spans, (void)nr_spans;
	return -ENOSPC;
}

/* Batches wait for a flush when the output fails: all of them go, not only the first. */
static void test_nothing_is_kept_after_an_error(void **state)
{
	enum { KEPT = 20 };
	static const struct writer_ops full = {
		.name = "full", .state_bytes = sizeof(struct writer), .queue = has_no_space};
	const struct batch_pool_params params = {.nr_pipelines = 1,
						 .no_index = true,
						 .extent_bytes = EXTENT_BYTES,
						 .budget_bytes = 8 * KEPT * EXTENT_BYTES};
	const uint8_t long_bytes[BATCH_TAIL_BYTES + 8] = {0};
	struct fixture *f = *state;
	struct stage_maker *maker = unwinding_maker(f->unwinding);
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct stage *stage;

	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&full, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	assert_int_equal(maker->make(maker, NULL, &stage), 0);
	pipeline_add_stage(writer, stage);
	put_map(f, 1);
	for (unsigned i = 0; i < KEPT; i++) {
		assert_int_equal(writer_queue(writer, &(struct span){f->bytes, f->batch.len}, 1), 0);
		assert_int_equal(writer_fix_position(writer), 0);
	}
	pipeline_run_stages(writer);
	assert_int_equal(pool->nr_jobs - pool->nr_free, KEPT);
	assert_int_equal(writer_put(writer, long_bytes, sizeof(long_bytes)), -ENOSPC);
	pipeline_run_stages(writer);
	assert_int_equal(pool->nr_free, pool->nr_jobs);
	assert_int_equal(writer_close(writer, NULL), -ENOSPC);
	stage->ops->free(stage);
	batch_pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_known_maps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_tables_are_built_beside_each_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_batches_are_passed_on_early, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unknown_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_runs_short, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_process_that_has_changed_since, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_memory_to_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_events_before_a_snapshot, set_up_overwritten, tear_down),
		cmocka_unit_test_setup_teardown(test_broken_samples_of_a_snapshot, set_up_overwritten, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_kept_after_an_error, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("unwinding", tests, NULL, NULL);
}
