/* SPDX-License-Identifier: MIT */
/* Stack dumps leave a stage as short as what is in them, and nothing else of a record has changed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "compress/extent_stats.h"
#include "compress/stack_cut.h"
#include "compress/zstd.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "read/source.h"
#include "stream/batch_pool.h"
#include "stream/pipeline.h"
#include "stream/writer.h"

enum { DUMP_BYTES = 512, EXTENT_BYTES = 8192, NR_RECORDS = 1500, NR_REGS = 3 };

static uint64_t dumping_id = 11, plain_id = 12;
static const struct event_desc events[] = {
	{.attr = {.size = sizeof(struct perf_event_attr),
		  .sample_id_all = 1,
		  .sample_regs_user = 7,
		  .sample_stack_user = DUMP_BYTES,
		  .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER |
				 PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC},
	 .ids = &dumping_id,
	 .nr_ids = 1},
	{.attr = {.size = sizeof(struct perf_event_attr),
		  .sample_id_all = 1,
		  .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TIME},
	 .ids = &plain_id,
	 .nr_ids = 1},
};

static void put_words(struct buf *to, const uint64_t words[], size_t nr)
{
	buf_put(to, words, nr * sizeof(words[0]));
}

/* As kernel/events/core.c perf_output_sample() lays them out; behind what is used stands rubbish. */
static void put_stack(struct buf *to, unsigned *seed)
{
	uint64_t used = (uint64_t)rand_r(seed) % 4 ? (uint64_t)rand_r(seed) % (DUMP_BYTES / 8 + 1) * 8 : 0;
	bool kernel_thread = rand_r(seed) % 16 == 0;
	uint64_t size = kernel_thread ? 0 : DUMP_BYTES;

	put_words(to, &size, 1);
	for (size_t i = 0; i < size; i++)
		buf_put(to, &(uint8_t){(uint8_t)rand_r(seed)}, 1);
	if (size)
		put_words(to, &used, 1);
}

static void put_record(struct buf *to, unsigned *seed, uint64_t time)
{
	struct perf_event_header header = {.type = rand_r(seed) % 8 ? PERF_RECORD_SAMPLE : PERF_RECORD_SWITCH,
					   .misc = 2};
	bool dumps = rand_r(seed) % 8;
	struct buf body = {0};

	if (header.type == PERF_RECORD_SAMPLE)
		put_words(&body, (uint64_t[]){dumps ? dumping_id : plain_id, 0x1000 + time, time}, 3);
	else
		put_words(&body, (uint64_t[]){time, dumping_id}, 2);
	if (header.type == PERF_RECORD_SAMPLE && dumps) {
		put_words(&body, (uint64_t[]){PERF_SAMPLE_REGS_ABI_64, 1, 2, time}, 1 + NR_REGS);
		put_stack(&body, seed);
		put_words(&body, &(uint64_t){~time}, 1);
	}
	header.size = (uint16_t)(sizeof(header) + body.len);
	buf_put(to, &header, sizeof(header));
	buf_put(to, body.data, body.len);
	buf_fini(&body);
}

static void queue(struct writer *writer, const uint8_t *bytes, size_t split, size_t len)
{
	const struct span spans[2] = {{bytes, split}, {bytes + split, len - split}};
	int err;

	while ((err = writer_queue(writer, split ? spans : spans + 1, split ? 2 : 1)) == -EAGAIN)
		assert_int_equal(writer_complete(writer, WRITER_ROOM), 0);
	assert_int_equal(err, 0);
}

/* In chunks as rings give them, some of which wrap within a record. */
static void feed(struct writer *writer, const struct buf *records)
{
	const uint8_t *bytes = (const uint8_t *)records->data;
	size_t start = 0, at = 0;

	for (unsigned nr = 1; at < records->len; nr++) {
		struct perf_event_header header;
		memcpy(&header, bytes + at, sizeof(header));
		size_t before = at;
		at += header.size;
		if (nr % 37 == 0 || at == records->len) {
			queue(writer, bytes + start, nr % 2 ? before - start + header.size / 16 * 8 : 0, at - start);
			start = at;
		}
	}
}

static void open_packed(struct span bytes, struct source **ret)
{
	struct source_range range = {.whole = bytes, .end = bytes.len};
	struct source *under;

	assert_int_equal(source_open_range(&range, &under), 0);
	assert_int_equal(source_open_unpack(under, false, ret), 0);
}

static const struct perf_event_attr *attr_of(const struct perf_event_header *record)
{
	return record->size > 8 && ((const uint64_t *)(record + 1))[0] == dumping_id ? &events[0].attr
										     : &events[1].attr;
}

static uint64_t word_before(const void *at)
{
	return ((const uint64_t *)at)[-1];
}

/* Returns how many bytes of rubbish are gone. */
static size_t expect_same(const struct perf_event_header *whole, const struct perf_event_header *cut)
{
	struct sample before, after;

	assert_int_equal(cut->type, whole->type);
	assert_int_equal(cut->misc, whole->misc);
	if (whole->type != PERF_RECORD_SAMPLE || attr_of(whole) == &events[1].attr) {
		assert_memory_equal(whole, cut, whole->size);
		return 0;
	}
	assert_int_equal(sample_decode(&events[0].attr, whole, &before), 0);
	assert_int_equal(sample_decode(&events[0].attr, cut, &after), 0);
	assert_true(before.time == after.time && before.ip == after.ip && before.data_src == after.data_src);
	assert_memory_equal(before.user_regs.regs, after.user_regs.regs, NR_REGS * sizeof(uint64_t));
	assert_int_equal(before.user_stack.len, after.user_stack.len);
	if (after.user_stack.ptr) {
		assert_memory_equal(before.user_stack.ptr, after.user_stack.ptr, after.user_stack.len);
		assert_int_equal(word_before(after.user_stack.ptr), after.user_stack.len); /* and not a byte more */
	}
	return (size_t)(whole->size - cut->size);
}

static void check(int level)
{
	const struct batch_pool_params params = {
		.level = level, .nr_pipelines = 1, .extent_bytes = EXTENT_BYTES, .events = events, .nr_events = 2};
	struct buf records = {0};
	struct batch_pool *pool;
	struct writer *mem, *stage;
	struct source *source;
	struct source_record record;
	struct diag why;
	unsigned seed = 5;
	size_t less = 0, at = 0;

	for (uint64_t time = 1; time <= NR_RECORDS; time++)
		put_record(&records, &seed, time);
	assert_int_equal(batch_pool_new(&params, &pool, NULL), 0);
	assert_int_equal(writer_open(&writer_mem, &(struct writer_params){.fd = -1}, &mem), 0);
	assert_int_equal(pipeline_open(pool, mem, &stage), 0);
	feed(stage, &records);
	assert_int_equal(stage->queued, records.len);
	assert_int_equal(writer_complete(stage, WRITER_ALL), 0);
	open_packed(writer_mem_bytes(mem), &source);
	while (source_next(source, &record, &why) == 1) {
		const struct perf_event_header *whole = (const void *)(records.data + at);
		less += expect_same(whole, record.view.header);
		at += whole->size;
	}
	source_close(source);
	assert_int_equal(at, records.len);
	assert_true(less > records.len / 4);
	struct writer_end end;
	assert_int_equal(writer_end(stage, &end), 0);
	assert_int_equal(end.stored + end.packed, records.len);
	uint64_t came = 0, held = 0;
	for (size_t i = 0; i < end.extents.nr; i++) {
		came += end.extents.infos[i].came_bytes;
		held += end.extents.infos[i].fields.bytes;
	}
	assert_int_equal(came, records.len);
	assert_int_equal(held, records.len - less);
	extent_list_fini(&end.extents);
	batch_pool_stop(pool);
	assert_int_equal(pool->totals.bytes_in, records.len - less);
	batch_pool_free(pool);
	buf_fini(&records);
}

static void test_only_what_is_used_is_kept(void **state)
{
	(void)state;
	check(0);
	if (zstd_available())
		check(1);
}

static uint64_t nr_short(const struct stack_cutter *cutter, uint32_t event)
{
	struct stack_cut_count count;
	uint64_t nr = 0;

	for (size_t i = 0; stack_cut_count(cutter, i, &count); i++) {
		assert_true(!count.count || (count.event == event && count.cpu == -1)); /* these samples tell no CPU */
		nr += count.count;
	}
	return nr;
}

/* The innermost calls stay, and the record says how much that is. */
static void expect_shorter(uint64_t most)
{
	struct stack_cutter *cutter;
	struct extent_stats *stats;
	uint64_t nr = 0;
	unsigned seed = 7;

	assert_int_equal(extent_stats_new(events, 2, &stats), 0);
	assert_int_equal(stack_cutter_new(events + 1, 1, stats, &cutter), 0);
	assert_null(cutter);
	const struct event_desc swapped[] = {events[1], events[0]};
	assert_int_equal(stack_cutter_new(swapped, 2, stats, &cutter), 0);
	assert_non_null(cutter);
	stack_cutter_free(cutter);
	assert_int_equal(stack_cutter_new(events, 2, stats, &cutter), 0);
	for (uint64_t time = 1; time <= NR_RECORDS; time++) {
		struct buf record = {0}, cut = {0};
		struct sample before, after;
		put_record(&record, &seed, time);
		buf_put(&cut, record.data, record.len);
		const struct perf_event_header *whole = (const void *)record.data, *shorter = (const void *)cut.data;
		size_t less = stack_cut(cutter, (uint8_t *)cut.data, most);
		assert_int_equal(shorter->size + less, whole->size);
		if (whole->type == PERF_RECORD_SAMPLE && attr_of(whole) == &events[0].attr) {
			assert_int_equal(sample_decode(&events[0].attr, whole, &before), 0);
			assert_int_equal(sample_decode(&events[0].attr, shorter, &after), 0);
			size_t kept = before.user_stack.len < most ? before.user_stack.len : most;
			assert_int_equal(after.user_stack.len, kept);
			assert_true(!kept || !memcmp(before.user_stack.ptr, after.user_stack.ptr, kept));
			assert_true(after.data_src == before.data_src && after.time == time);
			nr += before.user_stack.len > most;
			if (after.user_stack.ptr)
				assert_int_equal(word_before(after.user_stack.ptr), kept);
		}
		buf_fini(&record);
		buf_fini(&cut);
	}
	assert_true(most == DUMP_BYTES ? !nr : nr > NR_RECORDS / 4);
	assert_int_equal(nr_short(cutter, 0), nr);
	stack_cutter_free(cutter);
	extent_stats_free(stats);
}

static void test_shorter(void **state)
{
	(void)state;
	expect_shorter(64);
	expect_shorter(DUMP_BYTES);
}

/* What was cut short is counted by event and CPU. */
static void test_by_cpu(void **state)
{
	static uint64_t ids[] = {21, 22};
	struct event_desc both[2];
	struct stack_cutter *cutter;
	struct extent_stats *stats;
	struct stack_cut_count count;
	uint64_t nr = 0;

	(void)state;
	for (size_t i = 0; i < 2; i++)
		both[i] = (struct event_desc){
			.attr = {.size = sizeof(struct perf_event_attr),
				 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_CPU | PERF_SAMPLE_STACK_USER},
			.ids = &ids[i],
			.nr_ids = 1};
	assert_int_equal(extent_stats_new(both, 2, &stats), 0);
	assert_int_equal(stack_cutter_new(both, 2, stats, &cutter), 0);
	int32_t last_cpu = -1;
	for (size_t i = 0; stack_cut_count(cutter, i, &count); i++)
		last_cpu = count.cpu > last_cpu ? count.cpu : last_cpu;
	const uint64_t cpus[] = {0, 0, (uint64_t)last_cpu + 1, UINT32_MAX};
	for (size_t i = 0; i < 4; i++) { /* of the second event: two on CPU 0, two on CPUs that do not exist */
		const uint64_t words[] = {ids[1], cpus[i], 16, 0xa, 0xb, 16};
		struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = 8 + sizeof(words)};
		uint64_t record[1 + sizeof(words) / 8];
		memcpy(record, &header, sizeof(header));
		memcpy(record + 1, words, sizeof(words));
		assert_int_equal(stack_cut(cutter, (uint8_t *)record, 8), 8);
	}
	for (size_t i = 0; stack_cut_count(cutter, i, &count); i++) {
		assert_int_equal(count.count, count.event == 1 && count.cpu <= 0 ? 2 : 0);
		nr += count.count;
	}
	assert_int_equal(nr, 4);
	stack_cutter_free(cutter);
	extent_stats_free(stats);
}

/* The record of that event, and the copy that the stage makes of it. Returns the length of the copy. */
static size_t copy_of(const struct event_desc *event, const struct buf *record, uint64_t *to)
{
	struct stack_cutter *cutter;
	struct extent_stats *stats;
	const struct event_desc all[] = {events[0], *event};

	assert_int_equal(extent_stats_new(all, 2, &stats), 0);
	assert_int_equal(stack_cutter_new(all, 2, stats, &cutter), 0);
	uint8_t *exact = malloc(record->len); /* a sanitizer sees what is read behind it */
	memcpy(exact, record->data, record->len);
	size_t len = stack_cut_copy(cutter, exact, DUMP_BYTES, (uint8_t *)to);
	free(exact);
	stack_cutter_free(cutter);
	extent_stats_free(stats);
	assert_int_equal(((const struct perf_event_header *)to)->size, len);
	return len;
}

static void put_sample(struct buf *to, const uint64_t words[], size_t nr)
{
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE,
					   .size = (uint16_t)(sizeof(header) + nr * sizeof(words[0]))};

	buf_put(to, &header, sizeof(header));
	put_words(to, words, nr);
}

/* Raw data and branches have lengths of their own; a chain of what looks like the dump that it is not. */
static void test_fields_of_any_length_before_the_dump(void **state)
{
	static uint64_t id = 12;
	const struct event_desc event = {
		.attr = {.size = sizeof(struct perf_event_attr),
			 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN |
					PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_STACK_USER},
		.ids = &id,
		.nr_ids = 1,
	};
	const uint64_t words[] = {
		id,
		0x1000,
		2,
		16,
		0, /* ip, a chain of two */
		12 | 16ull << 32,
		0,
		1,
		0x1000,
		0x2000,
		5, /* raw data, a branch */
		32,
		0xa,
		0xb,
		0xc,
		0xd,
		16, /* the dump, half of which is used */
	};
	uint64_t to[64];
	AUTO_BUF struct buf record = {0};
	struct sample before, after;

	(void)state;
	put_sample(&record, words, sizeof(words) / sizeof(words[0]));
	assert_int_equal(copy_of(&event, &record, to), record.len - 16);
	assert_int_equal(sample_decode(&event.attr, (const void *)record.data, &before), 0);
	assert_int_equal(sample_decode(&event.attr, (const void *)to, &after), 0);
	assert_int_equal(after.user_stack.len, 16);
	assert_memory_equal(before.user_stack.ptr, after.user_stack.ptr, 16);
	assert_memory_equal(record.data + 8, to + 1, 11 * sizeof(uint64_t)); /* up to the dump */
}

/* A task without user registers has none before its dump; what the stack holds may look like a dump, too. */
static void test_no_registers_before_the_dump(void **state)
{
	const uint64_t words[] = {dumping_id, 0x1000, 5, PERF_SAMPLE_REGS_ABI_NONE, 48, 1, 2, 16, 3, 4, 8, 40, 77};
	const uint64_t expected[] = {dumping_id, 0x1000, 5, PERF_SAMPLE_REGS_ABI_NONE, 40, 1, 2, 16, 3, 4, 40, 77};
	AUTO_BUF struct buf record = {0};
	uint64_t to[64];

	(void)state;
	put_sample(&record, words, sizeof(words) / sizeof(words[0]));
	assert_int_equal(copy_of(&events[1], &record, to), 8 + sizeof(expected));
	assert_memory_equal(to + 1, expected, sizeof(expected));
}

/* Of an event without dumps no field is taken for one, whatever its value is. */
static void test_no_dump_is_no_dump(void **state)
{
	static uint64_t id = 12;
	const struct event_desc event = {
		.attr = {.size = sizeof(struct perf_event_attr),
			 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_WEIGHT |
					PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION | PERF_SAMPLE_PHYS_ADDR},
		.ids = &id,
		.nr_ids = 1,
	};
	AUTO_BUF struct buf record = {0};
	uint64_t to[64];

	(void)state;
	put_sample(&record, (const uint64_t[]){id, 0x1000, 16, 1, 2, 0}, 6);
	assert_int_equal(copy_of(&event, &record, to), record.len);
	assert_memory_equal(record.data, to, record.len);
}

/* A chain that is longer than any record is not one whose length happens to wrap to the dump. */
static void test_a_chain_of_no_length(void **state)
{
	static uint64_t id = 12;
	const struct event_desc event = {
		.attr = {.size = sizeof(struct perf_event_attr),
			 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN |
					PERF_SAMPLE_STACK_USER},
		.ids = &id,
		.nr_ids = 1,
	};
	uint64_t words[] = {id, 0x1000, 2, 0x1000, 0x2000, 32, 0xa, 0xb, 0xc, 0xd, 16}, to[64];
	AUTO_BUF struct buf right = {0}, wrong = {0};

	(void)state;
	put_sample(&right, words, sizeof(words) / sizeof(words[0]));
	assert_int_equal(copy_of(&event, &right, to), right.len - 16);
	words[2] += 1ull << 61;
	put_sample(&wrong, words, sizeof(words) / sizeof(words[0]));
	assert_int_equal(copy_of(&event, &wrong, to), wrong.len);
	assert_memory_equal(wrong.data, to, wrong.len);
}

/* A part of a word that is used: zeros fill it up, and every other byte stays. */
static void test_a_part_of_a_word(void **state)
{
	enum { USED = 13, KEPT = 16, DUMP = 64 };
	const uint64_t front[] = {dumping_id, UINT64_MAX, UINT64_MAX, PERF_SAMPLE_REGS_ABI_64,
				  UINT64_MAX, UINT64_MAX, UINT64_MAX};
	AUTO_BUF struct buf whole = {0}, expected = {0};
	uint64_t to[256];

	(void)state;
	put_sample(&whole, front, sizeof(front) / sizeof(front[0]));
	buf_put(&expected, whole.data, whole.len);
	put_words(&whole, &(uint64_t){DUMP}, 1);
	put_words(&expected, &(uint64_t){KEPT}, 1);
	for (size_t i = 0; i < DUMP; i++) {
		buf_put(&whole, &(uint8_t){(uint8_t)(i + 1)}, 1);
		if (i < KEPT)
			buf_put(&expected, &(uint8_t){i < USED ? (uint8_t)(i + 1) : 0}, 1);
	}
	put_words(&whole, (uint64_t[]){USED, 77}, 2);
	put_words(&expected, (uint64_t[]){USED, 77}, 2);
	((struct perf_event_header *)(void *)whole.data)->size = (uint16_t)whole.len;
	((struct perf_event_header *)(void *)expected.data)->size = (uint16_t)expected.len;
	assert_int_equal(copy_of(&events[1], &whole, to), expected.len);
	assert_memory_equal(to, expected.data, expected.len);
}

/* To find the dump only what stands before it is looked at: it is cut though the record ends behind it too early. */
static void test_a_field_is_missing_behind_the_dump(void **state)
{
	static const struct {
		uint64_t size, used;
	} dumps[] = {{8, 0}, {32, 24}, {64, 13}, {DUMP_BYTES + 8, DUMP_BYTES}};
	static uint64_t id = 12;
	struct event_desc event = {.attr = events[0].attr, .ids = &id, .nr_ids = 1};
	struct sample sample;

	(void)state;
	for (unsigned fields = 0; fields < 4; fields++) {
		const uint64_t type =
			(fields & 1 ? PERF_SAMPLE_CALLCHAIN : 0) | (fields & 2 ? PERF_SAMPLE_REGS_USER : 0);
		event.attr.sample_type =
			PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC | type;
		for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]); i++) {
			AUTO_BUF struct buf body = {0}, record = {0};
			uint64_t to[256];
			put_words(&body, (uint64_t[]){id, 0x1000}, 2);
			if (type & PERF_SAMPLE_CALLCHAIN)
				put_words(&body, (uint64_t[]){2, 0x1000, 0x2000}, 3);
			if (type & PERF_SAMPLE_REGS_USER)
				put_words(&body, (uint64_t[]){PERF_SAMPLE_REGS_ABI_64, 1, 2, 3}, 1 + NR_REGS);
			put_words(&body, &dumps[i].size, 1);
			for (uint64_t word = 0; word < dumps[i].size / 8; word++)
				put_words(&body, &(uint64_t){~word}, 1);
			put_words(&body, &dumps[i].used, 1);
			put_sample(&record, (const uint64_t *)(const void *)body.data, body.len / 8);
			assert_int_not_equal(sample_decode(&event.attr, (const void *)record.data, &sample), 0);
			uint64_t kept = (dumps[i].used + 7) / 8 * 8;
			assert_int_equal(copy_of(&event, &record, to),
					 record.len - (dumps[i].size - kept) - (kept ? 0 : sizeof(uint64_t)));
		}
	}
}

/* What stands before a chain or registers may look like a dump, too. */
static void test_what_looks_like_a_dump(void **state)
{
	enum { SIZE = 32, KEPT = 16 };
	static uint64_t id = 16;
	static const uint64_t dump[] = {SIZE, 0xa, 0xb, 0xc, 0xd, KEPT}, cut[] = {KEPT, 0xa, 0xb, KEPT};
	const struct {
		uint64_t type, words[6]; /* before the dump */
		size_t nr;
	} cases[] = {
		{PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, {id, 16, 2, 0x1000, 8}, 5},
		/* raw data of 12 bytes, with their length */
		{PERF_SAMPLE_RAW | PERF_SAMPLE_REGS_USER, {id, 12, 16, PERF_SAMPLE_REGS_ABI_64, 1, 8}, 6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct event_desc event = {
			.attr = {.size = sizeof(struct perf_event_attr),
				 .sample_regs_user = 3,
				 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_STACK_USER | cases[i].type},
			.ids = &id,
			.nr_ids = 1,
		};
		AUTO_BUF struct buf words = {0}, record = {0};
		uint64_t to[64];
		put_words(&words, cases[i].words, cases[i].nr);
		put_words(&words, dump, sizeof(dump) / sizeof(dump[0]));
		put_sample(&record, (const uint64_t *)(const void *)words.data, words.len / 8);
		assert_int_equal(copy_of(&event, &record, to), record.len - KEPT);
		assert_memory_equal(to + 1, cases[i].words, cases[i].nr * 8);
		assert_memory_equal(to + 1 + cases[i].nr, cut, sizeof(cut));
	}
}

/* A damaged record stays as it is. */
static void test_damaged_records_stay(void **state)
{
	const size_t dump_at = 1 + 3 + 1 + NR_REGS;
	static const uint64_t sizes[] = {0, 36, 1024, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 15, 1ull << 63};
	AUTO_BUF struct buf whole = {0};
	uint64_t to[256];
	uint64_t words[3 + 1 + NR_REGS + 1 + 4 + 1 + 1] = {dumping_id, 0x1000, 5, PERF_SAMPLE_REGS_ABI_64, 1, 2, 3, 32};

	(void)state;
	words[sizeof(words) / sizeof(words[0]) - 2] = 16; /* used */
	put_sample(&whole, words, sizeof(words) / sizeof(words[0]));
	assert_int_equal(copy_of(&events[1], &whole, to), whole.len - 16);
	for (size_t len = 16; len < whole.len - 8; len += 8) { /* without the last word the dump is still whole */
		AUTO_BUF struct buf cut = {0};
		buf_put(&cut, whole.data, len);
		((struct perf_event_header *)(void *)cut.data)->size = (uint16_t)len;
		assert_int_equal(copy_of(&events[1], &cut, to), len);
		assert_memory_equal(cut.data, to, len);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memcpy(whole.data + dump_at * sizeof(uint64_t), &sizes[i], sizeof(sizes[i]));
		assert_int_equal(copy_of(&events[1], &whole, to), whole.len);
		assert_memory_equal(whole.data, to, whole.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_what_is_used_is_kept),
		cmocka_unit_test(test_shorter),
		cmocka_unit_test(test_by_cpu),
		cmocka_unit_test(test_fields_of_any_length_before_the_dump),
		cmocka_unit_test(test_no_registers_before_the_dump),
		cmocka_unit_test(test_no_dump_is_no_dump),
		cmocka_unit_test(test_a_chain_of_no_length),
		cmocka_unit_test(test_a_part_of_a_word),
		cmocka_unit_test(test_a_field_is_missing_behind_the_dump),
		cmocka_unit_test(test_what_looks_like_a_dump),
		cmocka_unit_test(test_damaged_records_stay),
	};
	return cmocka_run_group_tests_name("stack cut", tests, NULL, NULL);
}
