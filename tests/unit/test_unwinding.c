/* SPDX-License-Identifier: MIT */
/* The stage that unwinds while recording: which chain a made sample gets, also where it could not be unwound. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/unwind/drained_state.h"
#include "record/unwind/row_makers.h"
#include "record/unwind/unwinding.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/ring.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "stream/writer.h"
#include "unwind/unwind.h"
#include "unwind/unwind_memory.h"

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

void __real_unwind_object_free(struct unwind_object *object);
void __wrap_unwind_object_free(struct unwind_object *object);

static unsigned nr_given_up; /* objects */

void __wrap_unwind_object_free(struct unwind_object *object)
{
	nr_given_up++;
	__real_unwind_object_free(object);
}

int __real_drained_state_start(struct drained_state *state);
int __wrap_drained_state_start(struct drained_state *state);

static struct drained_state *drained; /* the last one */
static bool has_thread;               /* else a test does the work of these threads */

int __wrap_drained_state_start(struct drained_state *state)
{
	drained = state;
	return has_thread ? __real_drained_state_start(state) : 0;
}

int __real_row_makers_start(struct row_makers *makers);
int __wrap_row_makers_start(struct row_makers *makers);

int __wrap_row_makers_start(struct row_makers *makers)
{
	return has_thread ? __real_row_makers_start(makers) : 0;
}

/* Behind the stage. It keeps the records. */
struct sink {
	struct stage stage;
	struct buf records;
};

struct fixture {
	uint64_t ids[2];
	struct event_desc events[2]; /* the second one is not unwound */
	size_t nr_events;            /* 2: records have the id of their event */
	size_t put_event;            /* of put_sample_of() */
	struct perf_event_attr converted;
	struct unwinding *unwinding;
	struct batch_pool *pool;
	struct writer *writer;
	struct stage *stage;
	struct sink sink;
	uint8_t bytes[BATCH_BYTES];
	struct batch batch;  /* of those bytes */
	struct in_rings *in; /* or NULL. Threads read these rings until the unwinding is freed */
};

static int keep(struct stage *stage, struct batch *batch)
{
	struct sink *sink = (struct sink *)stage;

	buf_put(&sink->records, batch->records, batch->len);
	return 0;
}

static const struct stage_ops sink_ops = {.name = "sink", .process = keep};

struct set_up {
	bool overwritten, carries_task_events;
	size_t nr_events;
};

static int set_up_with(struct set_up how, void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct unwinding_event by_event[2] = {{.unwinds = true, .carries_task_events = how.carries_task_events}};
	const struct batch_pool_params pool_params = {.nr_pipelines = 1,
						      .no_index = true,
						      .nr_workers = 1,
						      .extent_bytes = EXTENT_BYTES,
						      .budget_bytes = 4 * EXTENT_BYTES};
	struct writer *inner;

	assert_non_null(f);
	f->nr_events = how.nr_events;
	f->events[0].attr = (struct perf_event_attr){
		.size = sizeof(f->events[0].attr),
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = SAMPLED_MASK,
		.sample_stack_user = NR_WORDS * sizeof(uint64_t),
		.sample_id_all = 1,
		.write_backward = how.overwritten,
	};
	if (f->nr_events == 2)
		f->events[0].attr.sample_type |= PERF_SAMPLE_IDENTIFIER;
	for (size_t i = 0; i < f->nr_events; i++) {
		f->events[i].attr = f->events[0].attr;
		f->events[i].ids = &f->ids[i];
		f->events[i].nr_ids = 1;
		f->ids[i] = i;
	}
	f->converted = f->events[0].attr;
	callchain_convert_attr(&f->converted, 0);
	const struct unwinding_params params = {.events = f->events, .by_event = by_event, .nr_events = f->nr_events};
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
	return set_up_with((struct set_up){.carries_task_events = true, .nr_events = 1}, state);
}

static int set_up_two_events(void **state)
{
	return set_up_with((struct set_up){.carries_task_events = true, .nr_events = 2}, state);
}

static int set_up_for_samples_alone(void **state)
{
	return set_up_with((struct set_up){.nr_events = 1}, state);
}

static int set_up_overwritten(void **state)
{
	return set_up_with((struct set_up){.overwritten = true, .carries_task_events = true, .nr_events = 1}, state);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(writer_close(f->writer, NULL), 0);
	f->stage->ops->free(f->stage);
	batch_pool_stop(f->pool);
	batch_pool_free(f->pool);
	unwinding_free(f->unwinding);
	free(f->in);
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

	if (f->nr_events == 2)
		buf_put_u64(&payload, f->ids[f->put_event]);
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
	if (f->nr_events == 2)
		buf_put_u64(&payload, f->ids[0]);
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

/* A process maps one file after the other, each in place of the one before. */
static void test_files_that_are_not_mapped_any_more(void **state)
{
	enum { NR_FILES = 6000, NR_KEPT = 4096, NR_MORE = NR_KEPT / 4 };
	struct fixture *f = *state;

	nr_given_up = 0;
	for (unsigned i = 0; i < NR_FILES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "/none/%u", i);
		put_map_of(f, PID, name, i + 1);
		if (i % 100 != 99)
			continue;
		give(f);
		flush(f, STAGE_ROUND, 2);
		f->batch.len = 0;
	}
	assert_in_range(nr_given_up, NR_FILES - NR_KEPT - NR_MORE - 100, NR_FILES - NR_KEPT);
	put_sample(f, PERF_RECORD_MISC_USER, NR_FILES + 1);
	give(f);
	flush(f, STAGE_ROUND, 2);
	struct span records = buf_span(&f->sink.records);
	expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
	assert_int_equal(unwinding_counts(f->unwinding).by_end[UNWIND_COMPLETE], 1);
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

/* ---- samples that are unwound in their ring ---- */

enum { RING_BYTES = 8192, OTHER_PID = 200 };

/* The kernel's part of a ring. */
struct fake_ring {
	struct perf_event_mmap_page page;
	uint64_t data[RING_BYTES / 8];
	struct ring ring;
};

struct in_rings {
	struct fixture *f;
	struct fake_ring tasks; /* records about tasks */
	const struct ring *list;
	struct ring_converter *converter;
	uint64_t record[RING_BYTES / 8], unwound[RING_BYTES / 8];
};

static void start_ring(struct fake_ring *fake)
{
	fake->page.data_head = fake->page.data_tail = 0;
	ring_attach(&fake->ring, &fake->page, fake->data, RING_BYTES);
}

/* What was put into the batch comes into the ring, where it may wrap. */
static void produce(struct fixture *f, struct fake_ring *fake)
{
	uint64_t head = fake->page.data_head;

	assert_true(f->batch.len <= RING_BYTES - (head - __atomic_load_n(&fake->page.data_tail, __ATOMIC_ACQUIRE)));
	for (size_t i = 0; i < f->batch.len; i += 8)
		memcpy((uint8_t *)fake->data + (head + i) % RING_BYTES, f->bytes + i, 8);
	__atomic_store_n(&fake->page.data_head, head + f->batch.len, __ATOMIC_RELEASE);
	f->batch.len = 0;
}

static struct in_rings *open_rings(struct fixture *f)
{
	struct in_rings *in = calloc(1, sizeof(*in));

	assert_non_null(in);
	f->in = in;
	in->f = f;
	start_ring(&in->tasks);
	in->list = &in->tasks.ring;
	const struct unwinding_rings rings = {.rings = &in->list, .nr = 1, .nr_threads = 1};
	assert_int_equal(unwinding_open_rings(f->unwinding, &rings, f->pool), 0);
	in->converter = unwinding_converter(f->unwinding, 0);
	assert_non_null(in->converter);
	return in;
}

/* The first record of the ring is taken out of it: as by a thread that drains. */
static void take_first(struct in_rings *in)
{
	struct fake_ring *fake = &in->tasks;
	struct perf_event_header header;

	memcpy(&header, (uint8_t *)fake->data + fake->page.data_tail % RING_BYTES, sizeof(header));
	for (size_t i = 0; i < header.size; i += 8)
		memcpy((uint8_t *)in->record + i, (uint8_t *)fake->data + (fake->page.data_tail + i) % RING_BYTES, 8);
	in->f->pool->observer->see(in->f->pool->observer, (const uint8_t *)in->record);
	__atomic_store_n(&fake->page.data_tail, fake->page.data_tail + header.size, __ATOMIC_RELEASE);
}

/* And looked at and applied, with all that is as old. */
static void give_taken(struct in_rings *in, uint64_t complete_ns)
{
	struct fixture *f = in->f;
	struct perf_event_header header;

	memcpy(&header, in->record, sizeof(header));
	f->batch.len = header.size;
	memcpy(f->bytes, in->record, header.size);
	give(f);
	flush(f, STAGE_ROUND, complete_ns);
	f->batch.len = 0;
}

/* Bytes of the chain that is made of a sample of that process in a ring; 0: none is. */
static size_t unwind_in_ring(struct in_rings *in, uint32_t pid, uint64_t time_ns)
{
	struct fixture *f = in->f;
	size_t bytes = 0;

	put_sample_of(f, pid, PERF_RECORD_MISC_KERNEL, time_ns);
	if (in->converter->begin(in->converter)) {
		bytes = in->converter->convert(in->converter, f->bytes, (uint8_t *)in->unwound);
		in->converter->end(in->converter);
	}
	f->batch.len = 0;
	return bytes;
}

static void put_map_at_once(struct in_rings *in, uint32_t pid, uint64_t time_ns)
{
	put_map_of(in->f, pid, "//anon", time_ns);
	produce(in->f, &in->tasks);
	take_first(in);
	if (!has_thread)
		assert_false(drained_state_work(drained));
	give_taken(in, time_ns);
}

/* The stage gets it as it was made, and counts it once. */
static void test_a_sample_is_unwound_in_its_ring(void **state)
{
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	f->sink.records.len = 0;
	size_t bytes = unwind_in_ring(in, PID, 2);
	assert_in_range(bytes, 1, RING_BYTES);
	assert_int_equal(unwinding_counts(f->unwinding).by_end[UNWIND_COMPLETE], 1);
	memcpy(f->bytes, in->unwound, bytes);
	f->batch.len = bytes;
	put_sample(f, PERF_RECORD_MISC_USER, 3);
	give(f);
	flush(f, STAGE_ROUND, 3);
	struct span records = buf_span(&f->sink.records);
	expect_chain(f, &records, true, FRAMES(CALL, CALLER - 1));
	expect_chain(f, &records, false, FRAMES(CALL, CALLER - 1));
	assert_int_equal(records.len, 0);
	assert_int_equal(unwinding_counts(f->unwinding).by_end[UNWIND_COMPLETE], 2);
	assert_int_equal(unwinding_counts(f->unwinding).nr_stacks, 2);
}

/* A sample of a process that has changed what it has mapped waits until that is known; those of others do not. */
static void test_samples_of_a_changed_process_are_left(void **state)
{
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	assert_int_equal(unwind_in_ring(in, PID, 1), 0); /* of which nothing is known */
	put_map_at_once(in, PID, 1);
	put_map_at_once(in, OTHER_PID, 2);
	put_map_of(f, PID, "//anon", 3);
	produce(f, &in->tasks);
	assert_int_equal(unwind_in_ring(in, PID, 4), 0); /* it is in the ring, */
	assert_int_not_equal(unwind_in_ring(in, OTHER_PID, 4), 0);
	take_first(in);
	assert_int_equal(unwind_in_ring(in, PID, 4), 0); /* on its way, */
	assert_int_not_equal(unwind_in_ring(in, OTHER_PID, 4), 0);
	assert_false(drained_state_work(drained));
	assert_int_not_equal(unwind_in_ring(in, PID, 4), 0); /* and applied */
	assert_int_not_equal(unwind_in_ring(in, OTHER_PID, 4), 0);
	assert_int_equal(unwind_in_ring(in, PID, 2), 0); /* older than that */
}

static void put_task_event(struct fixture *f, uint32_t type, uint16_t misc, const uint32_t words[4])
{
	struct buf payload = {0};

	buf_put(&payload, words, 4 * sizeof(*words));
	for (unsigned i = 0; i < 2; i++)
		buf_put_u64(&payload, 9); /* its time, and that of sample_id */
	buf_put_u32(&payload, words[0]);
	buf_put_u32(&payload, words[0]);
	buf_put_u64(&payload, 9);
	put(f, type, misc, &payload);
	buf_fini(&payload);
}

/* The last task is not looked up again, but never taken as it was at an earlier visit. */
static void test_visits_of_one_process(void **state)
{
	static const uint32_t exec[4] = {PID, PID, 'a', 0};
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	assert_int_not_equal(unwind_in_ring(in, PID, 4), 0);
	put_map_at_once(in, PID, 5);
	assert_int_equal(unwind_in_ring(in, PID, 4), 0); /* older than what it has mapped now */
	assert_int_not_equal(unwind_in_ring(in, PID, 6), 0);
	put_task_event(f, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, exec);
	produce(f, &in->tasks);
	take_first(in);
	assert_false(drained_state_work(drained));
	assert_int_equal(unwind_in_ring(in, PID, 8), 0); /* its time is 9. ASan: the maps before that are freed */
}

/* Samples of an event that is not unwound stay as they are, also between others in one ring. */
static void test_two_events_in_a_ring(void **state)
{
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	for (unsigned i = 0; i < 6; i++) {
		f->put_event = i % 3 == 1;
		assert_int_equal(unwind_in_ring(in, PID, 2) > 0, !f->put_event);
	}
}

/* Which records about a process keep its samples from being unwound in their ring. */
static void test_what_changes_a_process(void **state)
{
	static const struct {
		uint32_t type;
		uint16_t misc;
		uint32_t words[4];
		bool of_pid, of_other;
	} cases[] = {
		{PERF_RECORD_FORK, 0, {PID, PID, PID + 1, PID}, false, false}, /* a thread */
		{PERF_RECORD_FORK, 0, {OTHER_PID, PID, OTHER_PID, PID}, false, true},
		{PERF_RECORD_EXIT, 0, {PID, PID, PID + 1, PID}, false, false},
		{PERF_RECORD_COMM, 0, {PID, PID, 'a', 0}, false, false},
		{PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, {PID, PID, 'a', 0}, true, false},
		{PERF_RECORD_MMAP, 0, {PID, PID, 0, 0}, true, false},
		{PERF_RECORD_SWITCH, 0, {PID, PID, 0, 0}, false, false},
		{PERF_RECORD_LOST, 0, {0, 0, 1, 0}, true, true},
	};
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	put_map_at_once(in, OTHER_PID, 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_task_event(f, cases[i].type, cases[i].misc, cases[i].words);
		produce(f, &in->tasks);
		assert_int_equal(!unwind_in_ring(in, PID, 5), cases[i].of_pid);
		assert_int_equal(!unwind_in_ring(in, OTHER_PID, 5), cases[i].of_other);
		start_ring(&in->tasks);
	}
}

/* After a loss nothing is known, until all of it was looked at. */
static void test_a_loss_is_looked_at_first(void **state)
{
	static const uint32_t lost[4] = {0, 0, 1, 0}; /* of an event without task events: f->ids[0] is 0 */
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	put_task_event(f, PERF_RECORD_LOST, 0, lost);
	produce(f, &in->tasks);
	take_first(in);
	assert_int_equal(unwind_in_ring(in, PID, 5), 0);
	give_taken(in, 2); /* these may have been task events: the maps are read again */
	assert_int_equal(unwind_in_ring(in, PID, 5), 0);
}

/* But the maps are known where samples alone were lost. */
static void test_a_loss_of_samples_changes_nothing(void **state)
{
	static const uint32_t lost[4] = {0, 0, 1, 0}; /* f->ids[0] is 0 */
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	put_task_event(f, PERF_RECORD_LOST, 0, lost);
	produce(f, &in->tasks);
	take_first(in);
	assert_int_not_equal(unwind_in_ring(in, PID, 5), 0);
	give_taken(in, 2);
	assert_int_not_equal(unwind_in_ring(in, PID, 5), 0);
}

/* More than a few that have changed are as good as all. */
static void test_many_changed_processes(void **state)
{
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);

	put_map_at_once(in, PID, 1);
	for (unsigned i = 0; i < 16; i++)
		put_map_of(f, OTHER_PID + i, "//anon", 3);
	produce(f, &in->tasks);
	assert_int_not_equal(unwind_in_ring(in, PID, 5), 0);
	put_map_of(f, OTHER_PID + 16, "//anon", 3);
	produce(f, &in->tasks);
	assert_int_equal(unwind_in_ring(in, PID, 5), 0);
}

/* Samples whose rules are yet to be found are not tried at each visit, but soon again. */
static void test_visits_in_vain(void **state)
{
	struct fixture *f = *state;
	struct in_rings *in = open_rings(f);
	static const unsigned left[] = {1, 2, 4, 8, 16, 16};

	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		assert_true(in->converter->begin(in->converter));
		for (unsigned k = 0; k < 8; k++) { /* of which nothing is known */
			put_sample_of(f, PID, PERF_RECORD_MISC_KERNEL, 5);
			assert_int_equal(in->converter->convert(in->converter, f->bytes, (uint8_t *)in->unwound), 0);
			f->batch.len = 0;
		}
		in->converter->end(in->converter);
		for (unsigned k = 0; k < left[i]; k++)
			assert_false(in->converter->begin(in->converter));
	}
	put_map_at_once(in, PID, 1); /* which is a new chance */
	assert_int_not_equal(unwind_in_ring(in, PID, 5), 0);
}

/* One that counts how often it is used. */
struct counting_converter {
	struct ring_converter converter;
	struct ring_converter *real;
	unsigned nr_begun, nr_converted;
};

static bool count_begin(struct ring_converter *converter)
{
	struct counting_converter *counting = (struct counting_converter *)converter;

	counting->nr_begun++;
	return counting->real->begin(counting->real);
}

static size_t count_convert(struct ring_converter *converter, const uint8_t *record, uint8_t *to)
{
	struct counting_converter *counting = (struct counting_converter *)converter;
	size_t bytes = counting->real->convert(counting->real, record, to);

	counting->nr_converted += bytes != 0;
	return bytes;
}

static void count_end(struct ring_converter *converter)
{
	struct counting_converter *counting = (struct counting_converter *)converter;

	counting->real->end(counting->real);
}

/*
 * From the rings through the pump to the stages: the same chains in the same order, whether they were made in the ring
 * or not. Who comes late to a ring copies as it is for 64 visits; a record that wraps is copied, too.
 */
static void test_rings_are_drained_with_it(void **state)
{
	struct fixture *f = *state;
	struct batch_pool_params params = {.nr_pipelines = 1,
					   .no_index = true,
					   .nr_workers = 1,
					   .extent_bytes = EXTENT_BYTES,
					   .budget_bytes = 4 * EXTENT_BYTES,
					   .events = f->events,
					   .nr_events = 1};
	struct fake_ring *samples = calloc(1, sizeof(*samples));
	struct stage_maker *maker = unwinding_maker(f->unwinding);
	struct batch_pool *no_dumps = f->pool;
	struct sink sink = {.stage.ops = &sink_ops};
	struct writer *inner;
	struct stage *stage;
	unsigned nr = 0;

	assert_non_null(samples);
	assert_int_equal(batch_pool_new(&params, &f->pool, NULL), 0);
	struct in_rings *in = open_rings(f);
	start_ring(samples);
	struct ring rings[] = {in->tasks.ring, samples->ring};
	struct counting_converter counting = {{count_begin, count_convert, count_end, false}, in->converter, 0, 0};
	struct stream stream = {.rings = rings, .nr_rings = 2, .flush_bytes = 1, .converter = &counting.converter};
	assert_int_equal(writer_open(&writer_null, &(struct writer_params){.fd = -1}, &inner), 0);
	assert_int_equal(pipeline_open(f->pool, inner, &stream.writer), 0);
	assert_int_equal(maker->make(maker, NULL, &stage), 0);
	pipeline_add_stage(stream.writer, stage);
	pipeline_add_stage(stream.writer, &sink.stage);
	flush(f, STAGE_ROUND, UINT64_MAX); /* another output, in which nothing comes */

	put_map(f, 1);
	produce(f, &in->tasks);
	put_sample(f, PERF_RECORD_MISC_USER, 2);
	produce(f, samples);
	nr++;
	for (unsigned i = 0; i < 3; i++) { /* the map is applied when a later pass has begun */
		assert_true(stream_pump(&stream, STREAM_COMMIT) >= 0);
		pipeline_run_stages(stream.writer);
	}
	assert_int_equal(counting.nr_converted, 0);
	assert_false(drained_state_work(drained));
	const uint64_t left_out = stream.writer->left_out;
	unsigned nr_begun = counting.nr_begun;
	while (samples->page.data_head < 3 * RING_BYTES) {
		put_sample(f, nr % 3 ? PERF_RECORD_MISC_USER : PERF_RECORD_MISC_KERNEL, 3 + nr);
		produce(f, samples);
		nr++;
		assert_true(stream_pump(&stream, STREAM_ALL) > 0);
	}
	assert_int_equal(counting.nr_begun - nr_begun, nr - 1);
	assert_in_range(counting.nr_converted, nr - 5, nr - 2);
	/* Of each at least the registers and the words of the stack. */
	assert_true(stream.writer->left_out - left_out >= counting.nr_converted * UINT64_C(8) * NR_WORDS);
	nr_begun = counting.nr_begun;
	while (samples->page.data_head - samples->page.data_tail <= RING_BYTES / 8 * 5) {
		put_sample(f, nr % 3 ? PERF_RECORD_MISC_USER : PERF_RECORD_MISC_KERNEL, 3 + nr);
		produce(f, samples);
		nr++;
	}
	assert_true(stream_pump(&stream, STREAM_ALL) > 0);
	for (unsigned i = 1; i < 70; i++, nr++) {
		assert_int_equal(counting.nr_begun - nr_begun, i > 64 ? i - 64 : 0);
		put_sample(f, nr % 3 ? PERF_RECORD_MISC_USER : PERF_RECORD_MISC_KERNEL, 3 + nr);
		produce(f, samples);
		assert_true(stream_pump(&stream, STREAM_ALL) > 0);
	}
	/* But not where that is no sooner done. */
	counting.converter.takes_no_longer = true;
	nr_begun = counting.nr_begun;
	while (samples->page.data_head - samples->page.data_tail <= RING_BYTES / 8 * 5) {
		put_sample(f, nr % 3 ? PERF_RECORD_MISC_USER : PERF_RECORD_MISC_KERNEL, 3 + nr);
		produce(f, samples);
		nr++;
	}
	assert_true(stream_pump(&stream, STREAM_ALL) > 0);
	assert_int_equal(counting.nr_begun - nr_begun, 1);
	assert_true(stream_pump(&stream, STREAM_DRAIN) >= 0);
	assert_int_equal(writer_close(stream.writer, NULL), 0);
	struct span records = buf_span(&sink.records);
	for (unsigned i = 0; i < nr; i++)
		expect_chain(f, &records, i && i % 3 == 0, FRAMES(CALL, CALLER - 1));
	assert_int_equal(records.len, 0);
	assert_int_equal(unwinding_counts(f->unwinding).by_end[UNWIND_COMPLETE], nr);
	stage->ops->free(stage);
	buf_fini(&sink.records);
	batch_pool_free(f->pool);
	f->pool = no_dumps;
	free(samples);
}

/* Unwinds again and again, as a thread that drains. */
struct drainer {
	struct in_rings *in;
	uint8_t sample[4096];
	atomic_bool stop;
	_Atomic unsigned nr_wrong, nr_unwound;
};

static void *drain(void *arg)
{
	struct drainer *drainer = arg;
	struct ring_converter *converter = drainer->in->converter;
	uint8_t first[4096], next[4096];
	size_t bytes = 0;

	while (!atomic_load(&drainer->stop)) {
		if (!converter->begin(converter))
			continue;
		size_t len = converter->convert(converter, drainer->sample, bytes ? next : first);
		converter->end(converter);
		drainer->nr_wrong += len && bytes && (len != bytes || memcmp(first, next, len));
		bytes = bytes ? bytes : len;
		drainer->nr_unwound += len != 0;
	}
	return NULL;
}

/* While another thread changes the state. */
static void test_threads(void **state)
{
	enum { ROUNDS = 200 };
	static struct drainer drainer;
	struct fixture *f = *state;
	has_thread = true;
	struct in_rings *in = open_rings(f);
	pthread_t thread;

	put_map_at_once(in, PID, 1);
	put_sample_of(f, PID, PERF_RECORD_MISC_KERNEL, 1000000);
	memcpy(drainer.sample, f->bytes, f->batch.len);
	f->batch.len = 0;
	drainer.in = in;
	assert_int_equal(pthread_create(&thread, NULL, drain, &drainer), 0);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		put_map_at_once(in, i % 2 ? PID : OTHER_PID + (uint32_t)i, 2 + i);
		unsigned before = drainer.nr_unwound;
		while (drainer.nr_unwound == before)
			sched_yield();
	}
	atomic_store(&drainer.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(drainer.nr_wrong, 0);
	assert_int_equal(unwinding_counts(f->unwinding).by_end[UNWIND_COMPLETE], drainer.nr_unwound);
	has_thread = false;
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
		cmocka_unit_test_setup_teardown(test_files_that_are_not_mapped_any_more, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unknown_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_runs_short, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_process_that_has_changed_since, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_memory_to_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_events_before_a_snapshot, set_up_overwritten, tear_down),
		cmocka_unit_test_setup_teardown(test_broken_samples_of_a_snapshot, set_up_overwritten, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_kept_after_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_sample_is_unwound_in_its_ring, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_samples_of_a_changed_process_are_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_visits_of_one_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_two_events_in_a_ring, set_up_two_events, tear_down),
		cmocka_unit_test_setup_teardown(test_what_changes_a_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_loss_is_looked_at_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_visits_in_vain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_loss_of_samples_changes_nothing, set_up_for_samples_alone,
						tear_down),
		cmocka_unit_test_setup_teardown(test_many_changed_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rings_are_drained_with_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("unwinding", tests, NULL, NULL);
}
