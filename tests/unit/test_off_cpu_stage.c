/* SPDX-License-Identifier: MIT */
/* What the stage makes of records of several rings, of which some were lost. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "perfdata/sample.h"
#include "record/off_cpu/off_cpu_stage.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"
#include "stream/writer.h"
#include "tasks/off_cpu.h"

/* ALL_READ: all that was drained before is given to the stage, and nothing else was in the rings. */
enum {
	TASK = 7,
	IN = PERF_RECORD_SWITCH,
	OUT = 0,
	LOST = PERF_RECORD_LOST,
	EXIT = PERF_RECORD_EXIT,
	FORK = PERF_RECORD_FORK,
	NEXT = 100, /* a switch from the idle task to itself, which says nothing */
	ALL_READ = -1,
	MOST = 8
};
enum { EXTENT_BYTES = 4096 };

/* The first ring has the event with id 5, of CPU 0, the second one that with id 6, of CPU 1. */
static const struct event_desc desc = {
	.attr = {.type = PERF_TYPE_SOFTWARE,
		 .config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW,
		 .sample_id_all = 1},
	.name = (char *)"offcpu-time",
	.ids = (uint64_t[]){5, 6},
	.nr_ids = 2,
};

struct step {
	int what; /* IN, OUT, LOST, EXIT, FORK, NEXT, ALL_READ */
	uint32_t cpu;
	uint64_t time_ns;
};

#define ALL_WAS_READ                                                                                                   \
	{                                                                                                              \
		.what = ALL_READ                                                                                       \
	}

struct losses {
	uint64_t counted[2]; /* by ring, as the kernel counts */
	bool full;           /* a ring was found full */
	bool gone;           /* the task has ended when it is asked for */
};

static struct off_cpu_wait seen[MOST];
static uint64_t seen_end_ns[MOST];
static size_t nr_seen;

static void queue(struct writer *writer, const struct step *step)
{
	const uint32_t tid = step->what == NEXT ? 0 : TASK;
	const struct {
		uint64_t id, nr;
	} lost = {5 + step->cpu, 1};
	const struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time_ns;
	} task = {TASK, TASK, TASK, TASK, step->time_ns};
	const struct {
		uint32_t pid, tid;
		uint64_t time_ns, cpu, id;
	} trailer = {.pid = tid, .tid = tid, .time_ns = step->time_ns, .cpu = step->cpu, .id = 5 + step->cpu};
	const struct span body = step->what == LOST                         ? (struct span){&lost, sizeof(lost)}
				 : step->what == EXIT || step->what == FORK ? (struct span){&task, sizeof(task)}
									    : (struct span){0};
	const struct perf_event_header header = {.type = step->what == OUT || step->what == NEXT ? IN
												 : (uint32_t)step->what,
						 .misc = step->what == OUT ? PERF_RECORD_MISC_SWITCH_OUT : 0,
						 .size = (uint16_t)(sizeof(header) + body.len + sizeof(trailer))};
	uint8_t record[sizeof(header) + sizeof(task) + sizeof(trailer)];

	memcpy(record, &header, sizeof(header));
	if (body.len)
		memcpy(record + sizeof(header), body.ptr, body.len);
	memcpy(record + sizeof(header) + body.len, &trailer, sizeof(trailer));
	const struct span spans[] = {{record, sizeof(header)}, {record + sizeof(header), header.size - sizeof(header)}};
	assert_int_equal(writer_queue(writer, spans, 2), 0);
}

static void read_waits(FILE *file)
{
	static _Alignas(8) uint8_t bytes[EXTENT_BYTES];
	const struct perf_event_header *record;
	struct sample sample;

	nr_seen = 0;
	rewind(file);
	size_t len = fread(bytes, 1, sizeof(bytes), file);
	for (size_t at = 0; at < len; at += record->size) {
		record = (const void *)(bytes + at);
		assert_true(record->size >= sizeof(*record) && record->size <= len - at);
		if (record->type != PERF_RECORD_SAMPLE)
			continue;
		assert_true(nr_seen < MOST);
		assert_int_equal(sample_decode(&desc.attr, record, &sample), 0);
		assert_int_equal(off_cpu_decode(&sample, &seen[nr_seen]), 0);
		seen_end_ns[nr_seen++] = sample.time;
	}
}

/* off_cpu_params.count_lost */
static void count_lost(void *ctx, uint64_t ret_nr_lost[])
{
	const struct losses *losses = ctx;

	for (size_t i = 0; i < desc.nr_ids; i++)
		ret_nr_lost[i] += losses->counted[i];
}

/* off_cpu_params.has_ended */
static bool has_ended(void *ctx, uint32_t tid)
{
	const struct losses *losses = ctx;

	assert_int_equal(tid, TASK);
	return losses->gone;
}

/* Until the stage was told so. */
static void end_pass(struct writer *writer)
{
	pipeline_run_stages(writer);
	writer->complete_ns = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(writer_commit(writer, true), 0);
	pipeline_run_stages(writer);
}

/* In the order in which rings are drained. children: as in struct off_cpu_params. */
static void take_of(bool children, const struct step steps[], size_t nr_steps, struct losses losses)
{
	const struct off_cpu_params params = {.events = &desc,
					      .nr_events = 1,
					      .wake_ups = 1,
					      .children = children,
					      .count_lost = count_lost,
					      .has_ended = has_ended,
					      .ctx = &losses};
	const struct batch_pool_params pool_params = {.nr_pipelines = 1,
						      .no_index = true,
						      .nr_workers = 1,
						      .extent_bytes = EXTENT_BYTES,
						      .budget_bytes = 64 * EXTENT_BYTES};
	FILE *file = tmpfile();
	struct off_cpu_stages *stages;
	struct writer *inner, *writer;
	struct writer_end ended;
	struct batch_pool *pool;
	struct stage *stage;

	assert_int_equal(off_cpu_stages_new(&params, &stages), 0);
	for (size_t i = 0; i < desc.nr_ids; i++)
		assert_int_equal(off_cpu_add_ring(stages, desc.ids[i], i, (int)i), 0);
	assert_int_equal(batch_pool_new(&pool_params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fileno(file)}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &writer), 0);
	struct stage_maker *maker = off_cpu_maker(stages);
	assert_int_equal(maker->make(maker, &(struct stage_output){.nr = 1, .regular = true}, &stage), 0);
	pipeline_add_stage(writer, stage);
	*off_cpu_full_ns(stages) = losses.full;
	for (size_t i = 0; i < nr_steps; i++)
		if (steps[i].what == ALL_READ)
			end_pass(writer);
		else
			queue(writer, &steps[i]);
	off_cpu_stop(stages, 20000, losses.counted[0] + losses.counted[1]);
	pipeline_run_stages(writer);
	assert_int_equal(writer_end(writer, &ended), 0);
	stage->ops->free(stage);
	read_waits(file);
	fclose(file);
	batch_pool_free(pool);
	off_cpu_stages_free(stages);
}

static void take(const struct step steps[], size_t nr_steps, struct losses losses)
{
	take_of(true, steps, nr_steps, losses);
}

static void expect(size_t at, uint64_t end_ns, uint64_t ns, bool unknown)
{
	assert_true(at < nr_seen);
	assert_int_equal(seen_end_ns[at], end_ns);
	assert_int_equal(seen[at].ns, ns);
	assert_int_equal(!!(seen[at].flags & OFF_CPU_UNKNOWN), unknown);
}

/* The ring says so with its next record, long after the task has gone on elsewhere. */
static void test_loss_found_later(void **state)
{
	static const struct step steps[] = {
		{IN, 0, 1000},   {OUT, 0, 1200}, {IN, 0, 1500},  {OUT, 0, 2000},
		{LOST, 0, 9000}, {IN, 1, 5000},  {OUT, 1, 9100}, {IN, 1, 9500},
	};

	(void)state;
	take(steps, sizeof(steps) / sizeof(steps[0]), (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 3);
	expect(0, 1500, 300, false); /* before the loss */
	expect(1, 5000, 3000, true);
	expect(2, 9500, 400, false); /* behind it */
}

/* No record comes in that ring any more: the kernel's count tells. */
static void test_loss_without_a_record(void **state)
{
	static const struct step steps[] = {{IN, 0, 1000}, {OUT, 0, 2000}, {IN, 1, 5000}};

	(void)state;
	take(steps, sizeof(steps) / sizeof(steps[0]), (struct losses){0});
	assert_int_equal(nr_seen, 1);
	expect(0, 5000, 3000, false);
	take(steps, sizeof(steps) / sizeof(steps[0]), (struct losses){.counted = {1}});
	assert_true(nr_seen > 0);
	expect(0, 5000, 3000, true);
}

/* The ring is quiet when it has lost records: it says so when waits that ended since then are stored, or never. */
static void test_loss_of_a_ring_that_is_quiet(void **state)
{
	static const struct step steps[] = {
		{IN, 0, 1000},  {OUT, 0, 1200},  {IN, 0, 1500},   {OUT, 0, 2000}, {IN, 1, 5000}, ALL_WAS_READ,
		{OUT, 1, 5100}, {IN, 1, 5200},   {OUT, 1, 6000},  ALL_WAS_READ,   {IN, 1, 6400}, ALL_WAS_READ,
		{OUT, 1, 7000}, {LOST, 0, 9000}, ALL_WAS_READ,    {IN, 1, 9500},  ALL_WAS_READ,  {OUT, 1, 13000},
		ALL_WAS_READ,   {IN, 1, 13500},  {LOST, 0, 15000}};

	(void)state;
	take(steps, 6, (struct losses){.full = true});
	assert_int_equal(nr_seen, 2);
	expect(1, 5000, 3000, false); /* it was full, and lost nothing */
	take(steps, sizeof(steps) / sizeof(steps[0]), (struct losses){.counted = {1}, .full = true});
	assert_int_equal(nr_seen, 6);
	expect(0, 1500, 300, false);
	expect(1, 5000, 3000, true);
	expect(2, 5200, 100, true); /* before the time when it was counted */
	expect(3, 6400, 400, false);
	expect(4, 9500, 2500, false); /* the record is of what was counted */
	expect(5, 13500, 500, true);  /* it is of another loss */
}

/* It may have left the CPU in the gap, and did so at its end: that time is neither known nor left out. */
static void test_loss_before_the_end_of_a_task(void **state)
{
	static const struct step steps[] = {{IN, 0, 1000},   {OUT, 0, 1200},  {IN, 0, 1500},
					    {LOST, 0, 4000}, {EXIT, 1, 4500}, {IN, 1, 9000}};

	(void)state;
	take(steps, 5, (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 2);
	expect(0, 1500, 300, false);
	expect(1, 4500, 3000, true);
	/* Its number is that of another task then. */
	take(steps, 6, (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 2);
}

static void test_loss_while_a_task_runs(void **state)
{
	static const struct step steps[] = {{IN, 0, 1000},  {OUT, 0, 1200}, {IN, 0, 1500}, {LOST, 0, 4000},
					    {OUT, 0, 4600}, {IN, 1, 5000},  {OUT, 1, 6000}};

	(void)state;
	take(steps, sizeof(steps) / sizeof(steps[0]), (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 4);
	expect(1, 4600, 3100, true);
	expect(2, 5000, 400, false);
	expect(3, 20000, 14000, false);
}

/* The events end: it may have run until then, or its end was lost. */
static void test_loss_of_the_last_records_of_a_task(void **state)
{
	static const struct step steps[] = {{IN, 0, 1000}, {OUT, 0, 1200}, {IN, 0, 1500}, {LOST, 0, 4000}};
	static const struct step reused[] = {{IN, 0, 1000},   {OUT, 0, 1200},  {IN, 0, 1500},
					     {LOST, 0, 4000}, {FORK, 0, 7000}, {IN, 0, 7300}};

	(void)state;
	take(steps, sizeof(steps) / sizeof(steps[0]), (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 2);
	expect(1, 20000, 18500, true);
	take(reused, sizeof(reused) / sizeof(reused[0]), (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 3);
	expect(1, 7000, 5500, true);
	expect(2, 7300, 300, false);
}

/* That is asked for when all up to the loss has been taken, so that it has no time up to the end of the recording. */
static void test_loss_of_the_end_of_a_task(void **state)
{
	static const struct step steps[] = {
		{IN, 0, 1000},   {OUT, 0, 1200},  {IN, 0, 1500},   {OUT, 0, 2000},  {LOST, 0, 4000},
		ALL_WAS_READ,    {NEXT, 0, 4100}, ALL_WAS_READ,    {NEXT, 0, 4200}, ALL_WAS_READ,
		{NEXT, 0, 5000}, ALL_WAS_READ,    {NEXT, 0, 6000}, ALL_WAS_READ,
	};
	const size_t nr = sizeof(steps) / sizeof(steps[0]);

	(void)state;
	take(steps, nr, (struct losses){.counted = {1}, .gone = true});
	assert_int_equal(nr_seen, 2);
	expect(1, 4200, 2200, true);
	assert_false(seen[1].flags & OFF_CPU_GOES_ON);
	take(steps, nr, (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 2);
	expect(1, 20000, 18000, true);
}

/* Of those nothing follows; and whose number one gets has ended. */
static void test_children_that_are_not_recorded(void **state)
{
	static const struct step steps[] = {{IN, 0, 1000}, {OUT, 0, 2000}, {FORK, 0, 5000}};
	static const struct step lost[] = {{IN, 0, 1000}, {OUT, 0, 2000}, {LOST, 0, 4000}, {FORK, 0, 5000}};

	(void)state;
	take_of(true, steps + 2, 1, (struct losses){0});
	assert_int_equal(nr_seen, 1);
	expect(0, 20000, 15000, false);
	take_of(false, steps + 2, 1, (struct losses){0});
	assert_int_equal(nr_seen, 0);
	take_of(false, steps, 2, (struct losses){0});
	assert_int_equal(nr_seen, 1);
	expect(0, 20000, 18000, false);
	take_of(false, steps, 3, (struct losses){0});
	assert_int_equal(nr_seen, 0);
	take_of(false, lost, 4, (struct losses){.counted = {1}});
	assert_int_equal(nr_seen, 1);
	expect(0, 5000, 3000, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loss_found_later),
		cmocka_unit_test(test_loss_without_a_record),
		cmocka_unit_test(test_loss_of_a_ring_that_is_quiet),
		cmocka_unit_test(test_loss_before_the_end_of_a_task),
		cmocka_unit_test(test_loss_while_a_task_runs),
		cmocka_unit_test(test_loss_of_the_last_records_of_a_task),
		cmocka_unit_test(test_loss_of_the_end_of_a_task),
		cmocka_unit_test(test_children_that_are_not_recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
