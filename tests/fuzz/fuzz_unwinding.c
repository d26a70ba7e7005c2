/* SPDX-License-Identifier: MIT */
/*
 * Any registers, stacks and task events through the stage that unwinds while recording: each sample comes out once, can
 * be read, and holds no dump. Input: operations of a byte and what it takes.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "fuzz.h"
#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/unwind/unwinding.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/stage.h"
#include "stream/writer.h"

enum {
	NR_REGS = 17,
	SAMPLED_MASK = 0xff01ff, /* of x86_64, all but segments */
	SP = 7,
	IP = 8,
	MOST_WORDS = 64, /* of a stack */
	CODE = 0x7fff2000,
	EVENT_ID = 7,
	EXTENT_BYTES = 64 << 10,
};

enum operation { SAMPLE, ODD_SAMPLE, MMAP, COMM, FORK, EXIT, LOST, ROUND, COMMIT, NR_OPERATIONS };

struct input {
	const uint8_t *bytes;
	size_t len;
	uint64_t time_ns;
};

static void take(struct input *input, void *ret, size_t len)
{
	size_t part = input->len < len ? input->len : len;

	memset(ret, 0, len);
	memcpy(ret, input->bytes, part);
	input->bytes += part;
	input->len -= part;
}

static uint8_t take_byte(struct input *input)
{
	uint8_t byte;

	take(input, &byte, 1);
	return byte;
}

static uint64_t take_word(struct input *input)
{
	uint64_t word;

	take(input, &word, sizeof(word));
	return word;
}

/* Times go on as a rule. */
static uint64_t take_time(struct input *input)
{
	uint8_t step = take_byte(input);

	input->time_ns = step == 0xff ? take_word(input) : input->time_ns + step;
	return input->time_ns;
}

/* Two processes of two threads. */
static void put_task(struct input *input, struct buf *record)
{
	uint8_t who = take_byte(input);

	buf_put_u32(record, 100 + who % 2);
	buf_put_u32(record, 100 + who % 4);
}

static void put_sample(struct input *input, struct buf *record)
{
	uint64_t regs[NR_REGS], stack[MOST_WORDS], nr_ips = take_byte(input) % 8;
	size_t nr_words = take_byte(input) % (MOST_WORDS + 1);

	buf_put_u64(record, take_word(input));
	put_task(input, record);
	buf_put_u64(record, take_time(input));
	buf_put_u64(record, nr_ips);
	for (uint64_t i = 0; i < nr_ips; i++)
		buf_put_u64(record, i ? take_word(input) : (uint64_t)PERF_CONTEXT_USER);
	take(input, regs, sizeof(regs));
	take(input, stack, sizeof(stack));
	buf_put_u64(record, PERF_SAMPLE_REGS_ABI_64);
	buf_put(record, regs, sizeof(regs));
	buf_put_u64(record, nr_words * sizeof(uint64_t));
	if (!nr_words)
		return;
	buf_put(record, stack, nr_words * sizeof(uint64_t));
	buf_put_u64(record, take_byte(input) * sizeof(uint64_t));
}

static void put_mmap(struct input *input, struct buf *record)
{
	static const char *const names[] = {"[vdso]", "//anon", "/nonexistent/object", "/", "[heap]", "/dev/null"};
	char name[24] = {0};

	put_task(input, record);
	for (unsigned i = 0; i < 3; i++) /* address, length, offset */
		buf_put_u64(record, take_word(input));
	for (unsigned i = 0; i < 4; i++) /* device, inode, generation; protection and flags */
		buf_put_u64(record, 5);
	strncpy(name, names[take_byte(input) % 6], sizeof(name) - 1);
	buf_put(record, name, sizeof(name));
}

static void put_payload(enum operation operation, struct input *input, struct buf *record)
{
	uint8_t odd[256];

	switch (operation) {
	case SAMPLE: put_sample(input, record); return;
	case ODD_SAMPLE:
		take(input, odd, sizeof(odd));
		buf_put(record, odd, (size_t)odd[0] / 8 * 8);
		return;
	case MMAP: put_mmap(input, record); break;
	case COMM:
		put_task(input, record);
		buf_put(record, "program", 8);
		break;
	case FORK:
	case EXIT:
		put_task(input, record);
		put_task(input, record);
		buf_put_u64(record, take_time(input));
		break;
	default:
		buf_put_u64(record, EVENT_ID);
		buf_put_u64(record, take_byte(input));
		break;
	}
	put_task(input, record);
	buf_put_u64(record, take_time(input));
}

static bool put_record(enum operation operation, struct input *input, struct buf *record)
{
	static const uint32_t types[] = {PERF_RECORD_SAMPLE, PERF_RECORD_SAMPLE, PERF_RECORD_MMAP2, PERF_RECORD_COMM,
					 PERF_RECORD_FORK,   PERF_RECORD_EXIT,   PERF_RECORD_LOST};
	struct perf_event_header header = {.type = types[operation], .misc = PERF_RECORD_MISC_USER};

	if (operation == COMM && take_byte(input) % 2)
		header.misc |= PERF_RECORD_MISC_COMM_EXEC;
	buf_put(record, &header, sizeof(header));
	put_payload(operation, input, record);
	if (record->failed)
		return false;
	header.size = (uint16_t)record->len;
	memcpy(record->data, &header, sizeof(header));
	return true;
}

/* Behind the stage. */
struct checker {
	struct stage stage;
	struct perf_event_attr attr;
	uint64_t nr_samples;
};

static int check(struct stage *stage, struct batch *batch)
{
	struct checker *checker = (struct checker *)stage;
	struct perf_event_header header;

	for (size_t at = 0; at < batch->len; at += header.size) {
		struct sample sample;
		if (batch->len - at < sizeof(header))
			abort();
		memcpy(&header, batch->records + at, sizeof(header));
		if (header.size < sizeof(header) || header.size % 8 || header.size > batch->len - at || !header.type)
			abort();
		if (header.type != PERF_RECORD_SAMPLE)
			continue;
		if (sample_decode(&checker->attr, (const void *)(batch->records + at), &sample) ||
		    sample.user_stack.len || sample.nr_ips > 2 * CALLCHAIN_FRAMES)
			abort();
		checker->nr_samples++;
	}
	return stage_pass(stage, batch);
}

static const struct stage_ops checker_ops = {.name = "check", .process = check};

/* All operations of the input. Returns the samples that went in. */
static uint64_t feed(struct writer *writer, struct input *input)
{
	uint64_t nr = 0;

	while (input->len) {
		enum operation operation = take_byte(input) % NR_OPERATIONS;
		struct buf record = {0};
		if (operation >= ROUND)
			writer->complete_ns = clock_ns(CLOCK_MONOTONIC);
		if (operation == COMMIT && writer_commit(writer, true))
			abort();
		if (operation >= ROUND || !put_record(operation, input, &record))
			continue;
		nr += operation == SAMPLE || operation == ODD_SAMPLE;
		const struct span span = {record.data, record.len};
		int err;
		while ((err = writer_queue(writer, &span, 1)) == -EAGAIN)
			if (writer_complete(writer, WRITER_ROOM))
				abort();
		if (err)
			abort();
		buf_fini(&record);
	}
	return nr;
}

/* The threads of an input hand work to each other all the time: on one CPU that takes half of the CPU time. */
static void stay_on_one_cpu(void)
{
	static bool done;
	cpu_set_t here;

	if (done)
		return;
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t id = EVENT_ID;
	const struct event_desc event = {.ids = &id,
					 .nr_ids = 1,
					 .attr = {.type = PERF_TYPE_SOFTWARE,
						  .size = sizeof(event.attr),
						  .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
								 PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
								 PERF_SAMPLE_STACK_USER,
						  .sample_regs_user = SAMPLED_MASK,
						  .sample_stack_user = MOST_WORDS * sizeof(uint64_t),
						  .sample_id_all = 1}};
	const struct unwinding_event unwound = {.unwinds = true}; /* what a loss asks for, all of /proc, takes long */
	const struct unwinding_params params = {.events = &event, .by_event = &unwound, .nr_events = 1};
	const struct batch_pool_params pool_params = {.nr_pipelines = 1,
						      .no_index = true,
						      .nr_workers = 2,
						      .extent_bytes = EXTENT_BYTES,
						      .budget_bytes = 4 * EXTENT_BYTES};
	struct checker checker = {.stage.ops = &checker_ops, .attr = event.attr};
	struct input input = {data, size, 1};
	struct unwinding *unwinding;
	struct writer *inner, *writer;
	struct batch_pool *pool;
	struct stage *stage;

	stay_on_one_cpu();
	callchain_convert_attr(&checker.attr, 0);
	if (unwinding_new(&params, &unwinding) || batch_pool_new(&pool_params, &pool, NULL) ||
	    writer_open(&writer_null, &(struct writer_params){.fd = -1}, &inner) ||
	    pipeline_open(pool, inner, &writer) ||
	    unwinding_maker(unwinding)->make(unwinding_maker(unwinding), NULL, &stage))
		abort();
	pipeline_add_stage(writer, stage);
	pipeline_add_stage(writer, &checker.stage);
	uint64_t nr = feed(writer, &input);
	if (writer_close(writer, NULL))
		abort();
	stage->ops->free(stage);
	batch_pool_stop(pool);
	if (checker.nr_samples + pool->totals.drops[0].nr_samples != nr)
		abort();
	batch_pool_free(pool);
	unwinding_free(unwinding);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	const uint64_t where[] = {CODE, 0x2000, 0};
	uint64_t regs[NR_REGS] = {[SP] = 0x7fff8000, [IP] = CODE + 0x800}, stack[MOST_WORDS];

	if (number > 1)
		return false;
	buf_put(out, (uint8_t[]){MMAP, 0}, 2);
	buf_put(out, where, sizeof(where));
	buf_put(out, (uint8_t[]){0, 0, 1}, 3);
	for (unsigned i = 0; i < MOST_WORDS; i++)
		stack[i] = i % 2 ? CODE + 0x600 + 8 * i : 0x7fff8000 + 8 * i;
	for (unsigned i = 0; i < 3; i++) {
		buf_put(out, (uint8_t[]){SAMPLE, 0, MOST_WORDS}, 3);
		buf_put_u64(out, regs[IP]);
		buf_put(out, (uint8_t[]){0, 1}, 2);
		buf_put(out, regs, sizeof(regs));
		buf_put(out, stack, sizeof(stack));
		buf_put(out, (uint8_t[]){MOST_WORDS, number ? ROUND : COMMIT}, 2);
	}
	buf_put(out, (uint8_t[]){COMM, 1, 0, 0, 1, LOST, 1, 0, 1, COMMIT}, 10);
	return true;
}
