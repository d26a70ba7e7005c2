/* SPDX-License-Identifier: MIT */
/* The records of a switch give the same waits, whether they are taken together or each in its own batch. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "perfdata/sample.h"
#include "record/off_cpu/off_cpu_stage.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"
#include "stream/writer.h"
#include "tasks/off_cpu.h"

enum { CPUS = 2, TASKS = 6, SWITCHES = 3000, EXTENT_BYTES = 64 << 10, MOST_BYTES = 4 << 20 };

#define SAMPLE_TYPE                                                                                                    \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |              \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW)

/* By CPU, in the same ring. */
static const struct event_desc events[] = {
	{.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1, .context_switch = 1},
	 .name = (char *)"sched:sched_switch",
	 .ids = (uint64_t[]){5, 6},
	 .nr_ids = CPUS},
	{.attr = {.type = PERF_TYPE_TRACEPOINT, .sample_type = SAMPLE_TYPE, .sample_id_all = 1},
	 .name = (char *)"sched:sched_waking",
	 .ids = (uint64_t[]){7, 8},
	 .nr_ids = CPUS},
};

struct payload {
	uint32_t common[2];
	uint32_t task; /* that leaves, or that is woken */
	uint32_t next;
	uint64_t state;
	uint32_t end;
};

/* What is fed, in turn; when nothing is recorded of a task it is no task of the targets. */
struct load {
	bool all_tasks, keeps_switch_records;
	bool apart;                         /* each record is a batch */
	bool states_broken;                 /* of some samples the payload ends before the state */
	uint64_t one_lost_of, drains_after; /* records; steps */
	uint64_t random;
	uint64_t now_ns;
	uint32_t runs[CPUS]; /* 0: none */
	void (*fill)(struct load *load);
	struct writer *writer;
	uint8_t rings[CPUS][MOST_BYTES / 16];
	size_t ring_bytes[CPUS];
	uint64_t nr_lost[CPUS];
};

static uint64_t random_below(struct load *load, uint64_t end)
{
	load->random ^= load->random << 13, load->random ^= load->random >> 7, load->random ^= load->random << 17;
	return (load->random >> 8) % end;
}

static bool is_recorded(const struct load *load, uint32_t tid)
{
	return load->all_tasks || (tid && tid <= TASKS - 2);
}

static uint32_t pid_of(uint32_t tid)
{
	return tid ? 1 + (tid - 1) / 2 * 2 : 0;
}

static void append(struct load *load, unsigned cpu, const void *bytes, size_t len)
{
	assert_true(load->ring_bytes[cpu] + len <= sizeof(load->rings[cpu]));
	memcpy(load->rings[cpu] + load->ring_bytes[cpu], bytes, len);
	load->ring_bytes[cpu] += len;
}

/* Some are lost. The kernel tells how many in front of the next one. */
static void put(struct load *load, unsigned cpu, const void *bytes, size_t len)
{
	const struct {
		struct perf_event_header header;
		uint64_t id, nr;
		uint32_t pid, tid;
		uint64_t time_ns, cpu, trailer_id;
	} lost = {.header = {.type = PERF_RECORD_LOST, .size = sizeof(lost)},
		  .id = events[0].ids[cpu],
		  .nr = load->nr_lost[cpu],
		  .time_ns = load->now_ns - 1,
		  .cpu = cpu,
		  .trailer_id = events[0].ids[cpu]};

	if (!random_below(load, load->one_lost_of)) {
		load->nr_lost[cpu]++;
		return;
	}
	if (lost.nr)
		append(load, cpu, &lost, sizeof(lost));
	load->nr_lost[cpu] = 0;
	append(load, cpu, bytes, len);
}

static void put_sample(struct load *load, unsigned cpu, uint64_t id, uint32_t tid, const struct payload *payload)
{
	enum { RAW_BYTES = 28 };
	const bool broken = load->states_broken && !random_below(load, 3);
	const uint32_t raw_bytes = broken ? 20 : RAW_BYTES;
	struct {
		struct perf_event_header header;
		uint64_t id, ip;
		uint32_t pid, tid;
		uint64_t time_ns, cpu, period;
		uint32_t raw_bytes;
		uint8_t raw[RAW_BYTES];
	} sample = {.header = {.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_KERNEL},
		    .id = id,
		    .ip = 0xffffffff81000000 + tid,
		    .pid = pid_of(tid),
		    .tid = tid,
		    .time_ns = load->now_ns,
		    .cpu = cpu,
		    .period = 1,
		    .raw_bytes = raw_bytes};

	sample.header.size = (uint16_t)(sizeof(sample) - RAW_BYTES + raw_bytes);
	memcpy(sample.raw, payload, raw_bytes);
	put(load, cpu, &sample, sample.header.size);
}

static void put_switch(struct load *load, unsigned cpu, uint32_t tid, uint32_t other, uint16_t misc)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		uint64_t time_ns, cpu, id;
	} record = {.header = {.type = PERF_RECORD_SWITCH, .misc = misc, .size = sizeof(record)},
		    .pid = pid_of(tid),
		    .tid = tid,
		    .time_ns = load->now_ns,
		    .cpu = cpu,
		    .id = events[0].ids[cpu]};
	struct {
		struct perf_event_header header;
		uint32_t other_pid, other_tid;
		uint8_t trailer[sizeof(record) - sizeof(record.header)];
	} wide = {.header = {.type = PERF_RECORD_SWITCH_CPU_WIDE, .misc = misc, .size = sizeof(wide)},
		  .other_pid = pid_of(other),
		  .other_tid = other};

	memcpy(wide.trailer, &record.pid, sizeof(wide.trailer));
	if (load->all_tasks)
		put(load, cpu, &wide, sizeof(wide));
	else
		put(load, cpu, &record, sizeof(record));
}

/* As the kernel tells of it. */
static void put_task_switch(struct load *load, unsigned cpu, uint32_t next)
{
	const uint32_t previous = load->runs[cpu];
	const bool preempted = !random_below(load, 4);
	const struct payload payload = {.task = previous, .state = preempted ? 0x100 : 1, .next = next};

	if (is_recorded(load, previous))
		put_sample(load, cpu, events[0].ids[cpu], previous, &payload);
	load->now_ns += 2 + random_below(load, 20);
	if (is_recorded(load, previous))
		put_switch(load, cpu, previous, next,
			   PERF_RECORD_MISC_SWITCH_OUT | (preempted ? PERF_RECORD_MISC_SWITCH_OUT_PREEMPT : 0));
	load->now_ns += 2 + random_below(load, 20);
	if (is_recorded(load, next))
		put_switch(load, cpu, next, previous, 0);
	load->runs[cpu] = next;
}

static void step(struct load *load)
{
	const unsigned cpu = (unsigned)random_below(load, CPUS);
	const uint32_t next = (uint32_t)random_below(load, TASKS + 1);

	load->now_ns += 1 + random_below(load, 5000);
	if (!next || (next != load->runs[0] && next != load->runs[1])) {
		if (next != load->runs[cpu])
			put_task_switch(load, cpu, next);
	} else if (next) { /* a wake-up of another one */
		const struct payload payload = {.task = 1 + next % TASKS};
		if (payload.task != load->runs[0] && payload.task != load->runs[1])
			put_sample(load, cpu, events[1].ids[cpu], load->runs[cpu], &payload);
	}
}

/* One ring after the other, as they are drained: where one ends and the next one begins no records belong together. */
static void drain(struct load *load)
{
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		for (size_t at = 0, len; at < load->ring_bytes[cpu]; at += len) {
			struct perf_event_header header;
			memcpy(&header, load->rings[cpu] + at, sizeof(header));
			len = load->apart ? header.size : load->ring_bytes[cpu] - at;
			const struct span span = {load->rings[cpu] + at, len};
			assert_int_equal(writer_queue(load->writer, &span, 1), 0);
			if (load->apart)
				pipeline_run_stages(load->writer);
		}
		load->ring_bytes[cpu] = 0;
	}
	pipeline_run_stages(load->writer);
	load->writer->complete_ns = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(writer_commit(load->writer, true), 0);
	pipeline_run_stages(load->writer);
}

static void fill_by_chance(struct load *load)
{
	for (unsigned i = 0; i < SWITCHES; i++) {
		step(load);
		if (!random_below(load, load->drains_after))
			drain(load);
	}
}

/* Behind the sample of a switch to a task that tells nothing, another one runs, which was woken in between. */
static void fill_with_another(struct load *load)
{
	const struct payload leaves = {.task = 3, .state = 1}, to_next = {.task = 1, .state = 1, .next = 2};
	const struct payload wakes = {.task = 3};

	load->now_ns = 1000;
	put_switch(load, 0, 2, 0, 0);
	load->now_ns = 2000;
	put_sample(load, 0, events[0].ids[0], 3, &leaves);
	load->now_ns = 3000;
	put_sample(load, 0, events[0].ids[0], 1, &to_next);
	drain(load); /* what follows comes in one batch, and the tasks are known then */
	load->now_ns = 5000;
	put_sample(load, 0, events[0].ids[0], 1, &to_next);
	load->now_ns = 6000;
	put_sample(load, 1, events[1].ids[1], 4, &wakes);
	load->now_ns = 7000;
	put_switch(load, 0, 3, 0, 0);
}

/* Returns the bytes of the output. */
static size_t record(struct load *load, uint8_t *ret_bytes)
{
	const struct event_off_cpu_fields fields = {
		.previous = {.offset = offsetof(struct payload, task), .bytes = 4},
		.state = {.offset = offsetof(struct payload, state), .bytes = 8},
		.next = {.offset = offsetof(struct payload, next), .bytes = 4},
		.woken = {.offset = offsetof(struct payload, task), .bytes = 4},
	};
	const struct off_cpu_params params = {.events = events,
					      .nr_events = 2,
					      .wake_ups = 1,
					      .fields = fields,
					      .all_tasks = load->all_tasks,
					      .children = true,
					      .keeps_switch_records = load->keeps_switch_records};
	const struct batch_pool_params pool_params = {.nr_pipelines = 1,
						      .no_index = true,
						      .nr_workers = 1,
						      .extent_bytes = EXTENT_BYTES,
						      .budget_bytes = 512 * EXTENT_BYTES};
	FILE *file = tmpfile();
	struct off_cpu_stages *stages;
	struct writer *inner;
	struct writer_end ended;
	struct batch_pool *pool;
	struct stage *stage;

	assert_int_equal(off_cpu_stages_new(&params, &stages), 0);
	for (size_t event = 0; event < 2; event++)
		for (size_t i = 0; i < CPUS; i++)
			assert_int_equal(off_cpu_add_ring(stages, events[event].ids[i], i, (int)i), 0);
	assert_int_equal(batch_pool_new(&pool_params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_serial, &(struct writer_params){.fd = fileno(file)}, &inner), 0);
	assert_int_equal(pipeline_open(pool, inner, &load->writer), 0);
	struct stage_maker *maker = off_cpu_maker(stages);
	assert_int_equal(maker->make(maker, &(struct stage_output){.nr = 1, .regular = true}, &stage), 0);
	pipeline_add_stage(load->writer, stage);
	load->fill(load);
	drain(load);
	off_cpu_stop(stages, load->now_ns + 1000, 0);
	pipeline_run_stages(load->writer);
	assert_int_equal(writer_end(load->writer, &ended), 0);
	stage->ops->free(stage);
	rewind(file);
	size_t len = fread(ret_bytes, 1, MOST_BYTES, file);
	fclose(file);
	batch_pool_free(pool);
	off_cpu_stages_free(stages);
	return len;
}

struct found {
	struct perf_event_header header;
	uint64_t words[16];
};

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct found));
}

/* In any order: what is made of the records of a batch goes with that. */
static size_t sort(const uint8_t *bytes, size_t len, struct found *ret)
{
	size_t nr = 0;

	for (size_t at = 0; at < len; at += ret[nr++].header.size) {
		struct perf_event_header header;
		memcpy(&header, bytes + at, sizeof(header));
		assert_true(header.size >= sizeof(header) && header.size <= len - at && header.size <= sizeof(*ret));
		ret[nr] = (struct found){0};
		memcpy(&ret[nr], bytes + at, header.size);
	}
	qsort(ret, nr, sizeof(*ret), by_bytes);
	return nr;
}

static void compare(const struct load *first, size_t least)
{
	static _Alignas(8) uint8_t bytes[MOST_BYTES];
	static struct found found[2][4 * SWITCHES];
	static struct load load;
	size_t nr[2];

	for (int apart = 0; apart < 2; apart++) {
		load = *first;
		load.apart = apart;
		nr[apart] = sort(bytes, record(&load, bytes), found[apart]);
	}
	assert_true(nr[0] > least);
	assert_int_equal(nr[0], nr[1]);
	assert_memory_equal(found[0], found[1], nr[0] * sizeof(found[0][0]));
}

static void test_switches(void **state)
{
	static struct load load;

	(void)state;
	for (uint64_t seed = 0; seed < 32; seed++) {
		load = (struct load){.fill = fill_by_chance,
				     .random = (seed + 1) * 88172645463325252ull,
				     .now_ns = 1000,
				     .all_tasks = seed & 1,
				     .keeps_switch_records = seed & 2,
				     .states_broken = seed & 4,
				     .one_lost_of = seed & 8 ? 3 : 50,
				     .drains_after = seed & 16 ? 6 : 64};
		compare(&load, SWITCHES / 8);
	}
}

static void test_another_task(void **state)
{
	static const struct load load = {.fill = fill_with_another, .random = 1, .one_lost_of = UINT64_MAX};

	(void)state;
	compare(&load, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_switches), cmocka_unit_test(test_another_task)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
