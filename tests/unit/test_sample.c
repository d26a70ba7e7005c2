/* SPDX-License-Identifier: MIT */
/* Samples and trailers of every layout, built here field by field, through the decoder; whole and cut short. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/sample.h"
#include "tasks/raw_sample.h"

/* The order of the fields in a record; perf_event_open(2). */
static const uint64_t field_order[] = {
	PERF_SAMPLE_IDENTIFIER,
	PERF_SAMPLE_IP,
	PERF_SAMPLE_TID,
	PERF_SAMPLE_TIME,
	PERF_SAMPLE_ADDR,
	PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID,
	PERF_SAMPLE_CPU,
	PERF_SAMPLE_PERIOD,
	PERF_SAMPLE_READ,
	PERF_SAMPLE_CALLCHAIN,
	PERF_SAMPLE_RAW,
	PERF_SAMPLE_BRANCH_STACK,
	PERF_SAMPLE_REGS_USER,
	PERF_SAMPLE_STACK_USER,
	PERF_SAMPLE_WEIGHT,
	PERF_SAMPLE_WEIGHT_STRUCT,
	PERF_SAMPLE_DATA_SRC,
	PERF_SAMPLE_TRANSACTION,
	PERF_SAMPLE_REGS_INTR,
	PERF_SAMPLE_PHYS_ADDR,
	PERF_SAMPLE_CGROUP,
	PERF_SAMPLE_DATA_PAGE_SIZE,
	PERF_SAMPLE_CODE_PAGE_SIZE,
	PERF_SAMPLE_AUX,
};
enum { FORMAT_LOST = 1 << 4 /* PERF_FORMAT_LOST, since Linux 6.0 */ };
enum { NR_FIELDS = sizeof(field_order) / sizeof(field_order[0]) };

/* The value of a one-word field, or word `i` of a longer one. */
static uint64_t value(uint64_t bit, unsigned i)
{
	return bit << 20 | 0x1234500u | i;
}

static void put_words(struct buf *out, uint64_t bit, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		buf_put_u64(out, value(bit, i));
}

static void put_field(struct buf *out, uint64_t bit)
{
	switch (bit) {
	case PERF_SAMPLE_READ: /* the attr of this test: GROUP, times, ID */
		buf_put_u64(out, 2);
		put_words(out, bit, 2 + 2 * 2);
		break;
	case PERF_SAMPLE_CALLCHAIN:
		buf_put_u64(out, 3);
		put_words(out, bit, 3);
		break;
	case PERF_SAMPLE_RAW:
		buf_put_u32(out, 20);
		buf_put_u32(out, 0x77);
		put_words(out, bit, 2);
		break;
	case PERF_SAMPLE_BRANCH_STACK:
		buf_put_u64(out, 2);
		buf_put_u64(out, 5); /* hw_idx */
		put_words(out, bit, 2 * 3);
		break;
	case PERF_SAMPLE_REGS_USER:
	case PERF_SAMPLE_REGS_INTR:
		buf_put_u64(out, PERF_SAMPLE_REGS_ABI_64);
		put_words(out, bit, 4);
		break;
	case PERF_SAMPLE_STACK_USER:
		buf_put_u64(out, 24);
		put_words(out, bit, 3);
		buf_put_u64(out, 16); /* in use */
		break;
	case PERF_SAMPLE_AUX:
		buf_put_u64(out, 16);
		put_words(out, bit, 2);
		break;
	default: put_words(out, bit, 1); break;
	}
}

static struct perf_event_attr attr_of(uint64_t sample_type)
{
	return (struct perf_event_attr){
		.sample_type = sample_type,
		.sample_period = 4711,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
		.branch_sample_type = PERF_SAMPLE_BRANCH_HW_INDEX,
		.sample_regs_user = 0x30003,
		.sample_regs_intr = 0xf0,
		.sample_id_all = 1,
	};
}

/* Ends the record in `out` and gives it exactly its own bytes, so that a sanitizer sees every step too far. */
static struct perf_event_header *finish(struct buf *out, uint32_t type)
{
	struct perf_event_header header = {.type = type, .misc = PERF_RECORD_MISC_USER, .size = (uint16_t)out->len};
	struct perf_event_header *record = malloc(out->len);

	memcpy(out->data, &header, sizeof(header));
	memcpy(record, out->data, out->len);
	buf_fini(out);
	return record;
}

static struct perf_event_header *build(const struct perf_event_attr *attr)
{
	struct buf out = {0};

	buf_extend(&out, sizeof(struct perf_event_header));
	for (unsigned i = 0; i < NR_FIELDS; i++) {
		if (attr->sample_type & field_order[i])
			put_field(&out, field_order[i]);
	}
	return finish(&out, PERF_RECORD_SAMPLE);
}

static void check_words(const void *words, uint64_t bit, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		uint64_t word;
		memcpy(&word, (const char *)words + i * sizeof(word), sizeof(word));
		assert_int_equal(word, value(bit, i));
	}
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

static void check_word_fields(const struct perf_event_attr *attr, const struct sample *s)
{
	const struct {
		uint64_t bit, got, absent;
	} fields[] = {
		{PERF_SAMPLE_IP, s->ip, 0},
		{PERF_SAMPLE_TID, pair(s->pid, s->tid), ~0ull},
		{PERF_SAMPLE_TIME, s->time, 0},
		{PERF_SAMPLE_ADDR, s->addr, 0},
		{PERF_SAMPLE_STREAM_ID, s->stream_id, 0},
		{PERF_SAMPLE_PERIOD, s->period, 4711},
		{PERF_SAMPLE_WEIGHT_STRUCT, s->weight, 0},
		{PERF_SAMPLE_DATA_SRC, s->data_src, 0},
		{PERF_SAMPLE_TRANSACTION, s->transaction, 0},
		{PERF_SAMPLE_PHYS_ADDR, s->phys_addr, 0},
		{PERF_SAMPLE_CGROUP, s->cgroup, 0},
		{PERF_SAMPLE_DATA_PAGE_SIZE, s->data_page_size, 0},
		{PERF_SAMPLE_CODE_PAGE_SIZE, s->code_page_size, 0},
	};

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		bool there = attr->sample_type & fields[i].bit;
		assert_int_equal(fields[i].got, there ? value(fields[i].bit, 0) : fields[i].absent);
	}
	assert_int_equal(s->cpu, attr->sample_type & PERF_SAMPLE_CPU ? (uint32_t)value(PERF_SAMPLE_CPU, 0) : ~0u);
	uint64_t id = attr->sample_type & PERF_SAMPLE_ID           ? value(PERF_SAMPLE_ID, 0)
		      : attr->sample_type & PERF_SAMPLE_IDENTIFIER ? value(PERF_SAMPLE_IDENTIFIER, 0)
								   : 0;
	assert_int_equal(s->id, id);
}

static void check_arrays(const struct perf_event_attr *attr, const struct sample *s)
{
	uint64_t type = attr->sample_type;

	assert_int_equal(s->nr_ips, type & PERF_SAMPLE_CALLCHAIN ? 3 : 0);
	check_words(s->ips, PERF_SAMPLE_CALLCHAIN, (unsigned)s->nr_ips);
	assert_int_equal(s->raw.len, type & PERF_SAMPLE_RAW ? 20 : 0);
	if (s->raw.len)
		check_words((const char *)s->raw.ptr + 4, PERF_SAMPLE_RAW, 2);
	assert_int_equal(s->branches.nr, type & PERF_SAMPLE_BRANCH_STACK ? 2 : 0);
	assert_int_equal(s->branches.hw_idx, type & PERF_SAMPLE_BRANCH_STACK ? 5 : ~0ull);
	check_words(s->branches.entries, PERF_SAMPLE_BRANCH_STACK, (unsigned)s->branches.nr * 3);
	assert_int_equal(s->user_regs.abi, type & PERF_SAMPLE_REGS_USER ? 2 : 0);
	check_words(s->user_regs.regs, PERF_SAMPLE_REGS_USER, type & PERF_SAMPLE_REGS_USER ? 4 : 0);
	assert_int_equal(s->intr_regs.mask, type & PERF_SAMPLE_REGS_INTR ? 0xf0 : 0);
	check_words(s->intr_regs.regs, PERF_SAMPLE_REGS_INTR, type & PERF_SAMPLE_REGS_INTR ? 4 : 0);
	assert_int_equal(s->user_stack.len, type & PERF_SAMPLE_STACK_USER ? 16 : 0);
	check_words(s->user_stack.ptr, PERF_SAMPLE_STACK_USER, (unsigned)s->user_stack.len / 8);
	assert_int_equal(s->aux.len, type & PERF_SAMPLE_AUX ? 16 : 0);
	check_words(s->aux.ptr, PERF_SAMPLE_AUX, (unsigned)s->aux.len / 8);
}

static void check_read(const struct perf_event_attr *attr, const struct sample *s)
{
	struct sample_read read;
	struct sample_value v;

	if (!(attr->sample_type & PERF_SAMPLE_READ)) {
		assert_int_equal(s->read.len, 0);
		return;
	}
	assert_int_equal(sample_read_open(attr, s->read, &read), 0);
	assert_int_equal(read.nr, 2);
	assert_int_equal(read.enabled_ns, value(PERF_SAMPLE_READ, 0));
	assert_int_equal(read.running_ns, value(PERF_SAMPLE_READ, 1));
	assert_true(sample_read_next(&read, &v));
	assert_true(sample_read_next(&read, &v));
	assert_int_equal(v.value, value(PERF_SAMPLE_READ, 4));
	assert_int_equal(v.id, value(PERF_SAMPLE_READ, 5));
	assert_int_equal(read.nr, 0);
	assert_false(sample_read_next(&read, &v));
}

static uint64_t word_at(const struct perf_event_header *record, int offset)
{
	uint64_t word;

	memcpy(&word, (const char *)record + offset, sizeof(word));
	return word;
}

static void check_places(const struct perf_event_attr *attr, const struct perf_event_header *record)
{
	int id = sample_id_offset(attr), time = sample_time_offset(attr);

	if (attr->sample_type & PERF_SAMPLE_IDENTIFIER)
		assert_int_equal(word_at(record, id), value(PERF_SAMPLE_IDENTIFIER, 0));
	else if (attr->sample_type & PERF_SAMPLE_ID)
		assert_int_equal(word_at(record, id), value(PERF_SAMPLE_ID, 0));
	else
		assert_int_equal(id, -1);
	if (attr->sample_type & PERF_SAMPLE_TIME)
		assert_int_equal(word_at(record, time), value(PERF_SAMPLE_TIME, 0));
	else
		assert_int_equal(time, -1);
}

static void check_layout(uint64_t sample_type)
{
	/* The two weights share a place and exclude each other. */
	if (sample_type & PERF_SAMPLE_WEIGHT_STRUCT)
		sample_type &= ~(uint64_t)PERF_SAMPLE_WEIGHT;
	struct perf_event_attr attr = attr_of(sample_type & ~(uint64_t)PERF_SAMPLE_WEIGHT);
	struct perf_event_header *record = build(&attr);
	struct sample sample;

	assert_int_equal(sample_decode(&attr, record, &sample), 0);
	assert_int_equal(sample.present, attr.sample_type);
	assert_int_equal(sample.cpumode, PERF_RECORD_MISC_USER);
	check_word_fields(&attr, &sample);
	check_arrays(&attr, &sample);
	check_read(&attr, &sample);
	check_places(&attr, record);
	free(record);
}

static void test_every_pair_of_fields(void **state)
{
	(void)state;
	check_layout(0);
	check_layout(PERF_SAMPLE_MAX - 1);
	for (unsigned i = 0; i < NR_FIELDS; i++) {
		for (unsigned j = 0; j <= i; j++) {
			check_layout(field_order[i] | field_order[j]);
			check_layout((PERF_SAMPLE_MAX - 1) & ~(field_order[i] | field_order[j]));
		}
	}
}

static void test_random_layouts(void **state)
{
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		check_layout(random & (PERF_SAMPLE_MAX - 1));
	}
}

static void test_cut_sample(void **state)
{
	struct perf_event_attr attr = attr_of((PERF_SAMPLE_MAX - 1) & ~(uint64_t)PERF_SAMPLE_WEIGHT);
	struct perf_event_header *whole = build(&attr);

	(void)state;
	for (size_t len = sizeof(*whole); len < whole->size; len++) {
		struct perf_event_header *cut = malloc(len);
		struct sample sample;
		memcpy(cut, whole, len);
		cut->size = (uint16_t)len;
		assert_int_equal(sample_decode(&attr, cut, &sample), -EBADMSG);
		free(cut);
	}
	free(whole);
}

/* Some of a record's bytes, of which one word may be another number than it was. */
static struct perf_event_header *spoil(const struct perf_event_header *whole, uint64_t random)
{
	size_t some = sizeof(*whole) + random % (whole->size - sizeof(*whole) + 1u);
	size_t len = random >> 32 & 1 ? whole->size : some, words = len / 8 - 1;
	struct perf_event_header *copy = malloc(len);

	memcpy(copy, whole, len);
	copy->size = (uint16_t)len;
	if (words && random >> 33 & 1) {
		static const uint64_t numbers[] = {0, 1, 2, 20, 28, 1 << 20, ~0ull, 1ull << 61};
		uint64_t *word = (uint64_t *)(copy + 1) + (random >> 40) % words;
		*word = numbers[random >> 34 & 7];
	}
	return copy;
}

/* What tells quickly whether a sample is whole says what decoding it says. */
static void test_whole_is_what_can_be_decoded(void **state)
{
	static const uint64_t quick = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				      PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW;
	uint64_t random = 88172645463325252ull, nr_whole = 0, nr = 40000;

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		uint64_t type = random >> 7 & (i % 4 ? quick : PERF_SAMPLE_MAX - 1);
		struct perf_event_attr attr = attr_of(type & ~(uint64_t)PERF_SAMPLE_WEIGHT);
		struct perf_event_header *whole = build(&attr), *spoilt = spoil(whole, random);
		const struct sample_shape shape = sample_shape(&attr);
		struct sample sample;
		bool can = !sample_decode(&attr, spoilt, &sample);
		assert_int_equal(sample_is_whole(&attr, &shape, spoilt), can);
		assert_true(sample_is_whole(&attr, &shape, whole));
		nr_whole += can;
		free(spoilt);
		free(whole);
	}
	assert_true(nr_whole > nr / 10 && nr_whole < nr * 9 / 10);
}

static void assert_same_span(struct span a, struct span b)
{
	assert_ptr_equal(a.ptr, b.ptr);
	assert_int_equal(a.len, b.len);
}

static void assert_same_dump(const struct sample *a, const struct sample *b)
{
	assert_int_equal(a->present, b->present);
	assert_int_equal(a->ip, b->ip);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->tid, b->tid);
	assert_int_equal(a->time, b->time);
	assert_int_equal(a->cpumode, b->cpumode);
	assert_same_span(a->read, b->read);
	assert_int_equal(a->nr_ips, b->nr_ips);
	assert_ptr_equal(a->ips, b->ips);
	assert_int_equal(a->user_regs.abi, b->user_regs.abi);
	assert_int_equal(a->user_regs.mask, b->user_regs.mask);
	assert_ptr_equal(a->user_regs.regs, b->user_regs.regs);
	assert_same_span(a->user_stack, b->user_stack);
	assert_same_span(a->user_dump, b->user_dump);
}

/* What finds a dump quickly finds what decoding finds, in all samples that have nothing else of any length. */
static void test_dump_is_what_is_decoded(void **state)
{
	static const uint64_t dumps = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
			      words = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				      PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
	uint64_t random = 88172645463325252ull, nr_found = 0, nr = 40000;

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		uint64_t type = random >> 7 & (i % 4 ? words | PERF_SAMPLE_CALLCHAIN : PERF_SAMPLE_MAX - 1);
		struct perf_event_attr attr = attr_of((type & ~(uint64_t)PERF_SAMPLE_WEIGHT) | dumps);
		struct perf_event_header *whole = build(&attr), *spoilt = spoil(whole, random);
		const struct dump_shape shape = dump_shape(&attr);
		struct sample decoded = {0}, found = {0};
		bool can = !sample_decode(&attr, spoilt, &decoded) && shape.words_bytes;
		assert_int_equal(dump_decode(&attr, &shape, spoilt, &found), can);
		if (can)
			assert_same_dump(&found, &decoded);
		nr_found += can;
		free(spoilt);
		free(whole);
	}
	assert_true(nr_found > nr / 10 && nr_found < nr * 9 / 10);
	struct perf_event_attr attr = attr_of(dumps | PERF_SAMPLE_CPU), none = attr_of(PERF_SAMPLE_STACK_USER);
	assert_int_equal(dump_shape(&attr).words_bytes, 16);
	assert_int_equal(dump_shape(&none).words_bytes, 0);
}

/* What raw_sample_decode() finds is what sample_decode() finds. Returns whether the sample is whole. */
static bool check_raw(const struct perf_event_attr *attr, const struct perf_event_header *record)
{
	const struct raw_sample_shape shape = raw_sample_shape(attr);
	struct sample decoded = {0};
	struct raw_sample found;
	const bool can = !sample_decode(attr, record, &decoded);
	const struct span ips = {decoded.ips, decoded.nr_ips * sizeof(*decoded.ips)};
	uint64_t period;

	assert_int_equal(raw_sample_decode(&shape, record, &found), can);
	if (!can)
		return false;
	assert_int_equal(found.time, decoded.time);
	assert_int_equal(found.pid, decoded.pid);
	assert_int_equal(found.tid, decoded.tid);
	assert_int_equal(found.cpu, decoded.cpu);
	assert_same_span(found.ips, ips);
	assert_same_span(found.raw, decoded.raw);
	assert_same_span(found.user_stack, decoded.user_stack);
	if (!(attr->sample_type & PERF_SAMPLE_READ))
		assert_same_span(raw_sample_payload(&shape, record), decoded.raw);
	if (shape.period) {
		memcpy(&period, (const uint8_t *)record + shape.period, sizeof(period));
		assert_int_equal(period, decoded.period);
	}
	return true;
}

static void test_raw_sample_is_what_is_decoded(void **state)
{
	static const uint64_t words = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				      PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
				      PERF_SAMPLE_PERIOD;
	uint64_t random = 88172645463325252ull, nr_whole = 0, nr = 40000;

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		uint64_t type =
			random >> 7 & (i % 4 ? words | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW : PERF_SAMPLE_MAX - 1);
		struct perf_event_attr attr = attr_of(type & ~(uint64_t)PERF_SAMPLE_WEIGHT);
		struct perf_event_header *whole = build(&attr), *spoilt = spoil(whole, random);
		assert_true(check_raw(&attr, whole));
		nr_whole += check_raw(&attr, spoilt);
		free(spoilt);
		free(whole);
	}
	assert_true(nr_whole > nr / 10 && nr_whole < nr * 9 / 10);
}

/* A count that would overflow when multiplied, in each field that has one. */
/* The values of READ as the man page has them: of an event alone, or of a group; and where the next field begins. */
static void check_read_format(uint64_t format)
{
	const bool group = format & PERF_FORMAT_GROUP;
	const uint64_t nr = group ? 3 : 1, enabled = format & PERF_FORMAT_TOTAL_TIME_ENABLED ? 0xe0 : 0,
		       running = format & PERF_FORMAT_TOTAL_TIME_RUNNING ? 0xa0 : 0;
	struct perf_event_attr attr = attr_of(PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN);
	struct sample_read read;
	struct sample_value v;
	struct sample sample;
	struct buf out = {0};

	attr.read_format = format;
	buf_extend(&out, sizeof(struct perf_event_header));
	if (group)
		buf_put_u64(&out, nr);
	for (uint64_t i = 0; i < nr; i++) {
		if (!group)
			buf_put_u64(&out, 0x10);
		if (i == 0 && enabled)
			buf_put_u64(&out, enabled);
		if (i == 0 && running)
			buf_put_u64(&out, running);
		if (group)
			buf_put_u64(&out, 0x10 + i);
		if (format & PERF_FORMAT_ID)
			buf_put_u64(&out, 0x20 + i);
		if (format & FORMAT_LOST)
			buf_put_u64(&out, 0x30 + i);
	}
	buf_put_u64(&out, 1);
	buf_put_u64(&out, 0xcafe);
	struct perf_event_header *record = finish(&out, PERF_RECORD_SAMPLE);

	assert_int_equal(sample_decode(&attr, record, &sample), 0);
	assert_int_equal(sample.nr_ips, 1);
	assert_int_equal(sample.ips[0], 0xcafe);
	assert_int_equal(sample_read_open(&attr, sample.read, &read), 0);
	assert_int_equal(read.nr, nr);
	for (uint64_t i = 0; i < nr; i++) {
		assert_true(sample_read_next(&read, &v));
		assert_int_equal(v.value, 0x10 + i);
		assert_int_equal(v.id, format & PERF_FORMAT_ID ? 0x20 + i : 0);
		assert_int_equal(v.lost, format & FORMAT_LOST ? 0x30 + i : 0);
		assert_int_equal(read.enabled_ns, enabled);
		assert_int_equal(read.running_ns, running);
	}
	assert_false(sample_read_next(&read, &v));
	sample.read.len -= 1;
	assert_int_equal(sample_read_open(&attr, sample.read, &read), -EBADMSG);
	free(record);
}

static void test_every_read_format(void **state)
{
	(void)state;
	for (uint64_t format = 0; format < 2 * FORMAT_LOST; format++)
		check_read_format(format);
}

static void test_huge_counts(void **state)
{
	static const uint64_t counted[] = {PERF_SAMPLE_READ, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_BRANCH_STACK,
					   PERF_SAMPLE_STACK_USER, PERF_SAMPLE_AUX};
	static const uint64_t counts[] = {~0ull, 1ull << 61, 1ull << 63, 1ull << 32, ~7ull};

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned j = 0; j < 5; j++) {
			struct perf_event_attr attr = attr_of(counted[i]);
			struct perf_event_header *record = build(&attr);
			struct sample sample;
			memcpy(record + 1, &counts[j], sizeof(counts[j]));
			assert_int_equal(sample_decode(&attr, record, &sample), -EBADMSG);
			free(record);
		}
	}
}

/* A sample without branches, with and without the hw_idx, and what follows is found in both. */
static void test_empty_branch_stack(void **state)
{
	struct perf_event_attr attr = attr_of(PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_DATA_SRC);

	(void)state;
	for (int with_hw_idx = 0; with_hw_idx < 2; with_hw_idx++) {
		struct buf out = {0};
		struct sample sample;
		buf_extend(&out, sizeof(struct perf_event_header));
		buf_put_u64(&out, 0);
		if (with_hw_idx)
			buf_put_u64(&out, 9);
		buf_put_u64(&out, 0xabc);
		struct perf_event_header *record = finish(&out, PERF_RECORD_SAMPLE);
		assert_int_equal(sample_decode(&attr, record, &sample), 0);
		assert_int_equal(sample.data_src, 0xabc);
		assert_int_equal(sample.branches.hw_idx, with_hw_idx ? 9 : ~0ull);
		free(record);
	}
}

static void test_regs_of_a_kernel_thread(void **state)
{
	struct perf_event_attr attr = attr_of(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC);
	struct buf out = {0};
	struct sample sample;

	(void)state;
	buf_extend(&out, sizeof(struct perf_event_header));
	buf_put_u64(&out, PERF_SAMPLE_REGS_ABI_NONE);
	buf_put_u64(&out, 0); /* no stack, and then no dyn_size either */
	buf_put_u64(&out, 0xabc);
	struct perf_event_header *record = finish(&out, PERF_RECORD_SAMPLE);
	assert_int_equal(sample_decode(&attr, record, &sample), 0);
	assert_int_equal(sample.data_src, 0xabc);
	assert_null(sample.user_regs.regs);
	attr.sample_type &= ~(uint64_t)PERF_SAMPLE_DATA_SRC;
	const struct dump_shape shape = dump_shape(&attr);
	struct sample found;
	assert_true(dump_decode(&attr, &shape, record, &found));
	assert_int_equal(sample_decode(&attr, record, &sample), 0);
	assert_same_dump(&found, &sample);
	free(record);
}

static void test_trailers(void **state)
{
	static const uint64_t bits[] = {PERF_SAMPLE_TID,       PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
					PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_IDENTIFIER};

	(void)state;
	for (unsigned set = 0; set < 64; set++) {
		struct perf_event_attr attr = attr_of(PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN);
		struct buf out = {0};
		struct sample sample;

		buf_extend(&out, sizeof(struct perf_event_header));
		buf_put_u64(&out, 0xdead); /* the record's own */
		for (unsigned i = 0; i < 6; i++) {
			if (set & 1u << i) {
				attr.sample_type |= bits[i];
				put_field(&out, bits[i]);
			}
		}
		struct perf_event_header *record = finish(&out, PERF_RECORD_COMM);
		assert_int_equal(sample_id_bytes(&attr), 8 * __builtin_popcount(set));
		assert_int_equal(sample_id_decode(&attr, record, &sample), 0);
		/* What only samples have stays away; check_word_fields() expects the rest as in a sample. */
		attr.sample_type &= ~(uint64_t)(PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN);
		assert_true(sample.present == attr.sample_type);
		uint64_t id = set & 1u << 5   ? value(PERF_SAMPLE_IDENTIFIER, 0)
			      : set & 1u << 2 ? value(PERF_SAMPLE_ID, 0)
					      : 0;
		assert_int_equal(sample.id, id);
		sample.id = attr.sample_type & PERF_SAMPLE_ID ? value(PERF_SAMPLE_ID, 0) : id;
		check_word_fields(&attr, &sample);

		int distance = sample_id_distance(&attr), time = sample_time_distance(&attr);
		assert_int_equal(distance < 0, id == 0);
		if (id)
			assert_int_equal(word_at(record, record->size - distance), id);
		assert_int_equal(time < 0, !(set & 1u << 1));
		if (time >= 0)
			assert_int_equal(word_at(record, record->size - time), value(PERF_SAMPLE_TIME, 0));

		record->size = (uint16_t)(sizeof(*record) + 8 * (unsigned)__builtin_popcount(set) - 1);
		if (set)
			assert_int_equal(sample_id_decode(&attr, record, &sample), -EBADMSG);
		free(record);
	}
}

/*
 * The kernel's sizes of KSYMBOL, BPF_EVENT and TEXT_POKE records count the trailers of other recorders, too: old bytes
 * of the ring stand behind the trailer of this one.
 */
static void check_trailer_before_old_bytes(uint32_t type, const char *fields, size_t bytes)
{
	struct perf_event_attr attr = attr_of(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER);

	for (unsigned nr_old = 0; nr_old <= 6; nr_old++) {
		struct buf out = {0};
		struct sample sample;

		buf_extend(&out, sizeof(struct perf_event_header));
		buf_put(&out, fields, bytes);
		put_field(&out, PERF_SAMPLE_TID);
		put_field(&out, PERF_SAMPLE_TIME);
		put_field(&out, PERF_SAMPLE_IDENTIFIER);
		size_t end = out.len;
		for (unsigned i = 0; i < nr_old; i++)
			buf_put_u64(&out, 0xdead);
		struct perf_event_header *record = finish(&out, type);

		assert_int_equal(sample_id_end(record, sample_id_bytes(&attr)), end);
		assert_int_equal(sample_id_decode(&attr, record, &sample), 0);
		assert_int_equal(sample.time, value(PERF_SAMPLE_TIME, 0));
		assert_int_equal(sample.id, value(PERF_SAMPLE_IDENTIFIER, 0));
		assert_int_equal(sample.tid, value(PERF_SAMPLE_TID, 0) >> 32);
		free(record);
	}
}

static void test_trailers_before_old_bytes(void **state)
{
	/* u64 addr; u32 len; u16 kind, flags; a name, padded: what is behind its end may be old, too. */
	static const char addr_to_flags[16] = "addrADDRlen.k.f";
	static const char bpf_event[16] = "kkffid..tag.TAG"; /* u16 kind, flags; u32 id; u8 tag[8] */
	char ksymbol[48];

	(void)state;
	check_trailer_before_old_bytes(PERF_RECORD_BPF_EVENT, bpf_event, sizeof(bpf_event));
	for (size_t len = 0; len < 24; len++) {
		size_t padded = (len / 8 + 1) * 8;

		memset(ksymbol, 'x', sizeof(ksymbol));
		memcpy(ksymbol, addr_to_flags, sizeof(addr_to_flags));
		ksymbol[sizeof(addr_to_flags) + len] = '\0';
		check_trailer_before_old_bytes(PERF_RECORD_KSYMBOL, ksymbol, sizeof(addr_to_flags) + padded);
	}
	for (uint16_t len = 0; len < 24; len++) {
		char text_poke[40] = "addrADDR"; /* u64 addr; u16 old_len, new_len; bytes */
		const uint16_t lens[] = {len / 2, len - len / 2};

		memset(text_poke + 8, 'x', sizeof(text_poke) - 8);
		memcpy(text_poke + 8, lens, sizeof(lens));
		check_trailer_before_old_bytes(PERF_RECORD_TEXT_POKE, text_poke, 8 + (4 + len + 7) / 8 * 8);
	}
}

/* The end is not behind the record, and the trailer not before its body. */
static void check_trailer_inside(uint32_t type, size_t size, int fill)
{
	struct perf_event_attr attr = attr_of(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER);
	const size_t trailer_bytes = sample_id_bytes(&attr);
	struct perf_event_header *record = malloc(size); /* for ASan */
	struct sample sample;

	memset(record, fill, size);
	*record = (struct perf_event_header){.type = type, .size = (uint16_t)size};
	bool fits = size >= sizeof(*record) + trailer_bytes;
	size_t end = sample_id_end(record, trailer_bytes);
	assert_true(end <= size);
	if (fits)
		assert_true(end >= sizeof(*record) + trailer_bytes);
	if (type == PERF_RECORD_COMM)
		assert_int_equal(end, size);
	assert_int_equal(sample_id_decode(&attr, record, &sample), fits ? 0 : -EBADMSG);
	free(record);
}

static void test_no_trailer_outside_of_its_record(void **state)
{
	static const uint32_t types[] = {PERF_RECORD_KSYMBOL, PERF_RECORD_BPF_EVENT, PERF_RECORD_TEXT_POKE,
					 PERF_RECORD_COMM};
	enum { EMPTY_NAME = '\0', NAME_WITHOUT_AN_END = 'x' };

	(void)state;
	for (size_t size = sizeof(struct perf_event_header); size < 80; size++) {
		for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			check_trailer_inside(types[i], size, EMPTY_NAME);
			check_trailer_inside(types[i], size, NAME_WITHOUT_AN_END);
		}
	}
}

static void test_no_trailer_without_sample_id_all(void **state)
{
	struct perf_event_attr attr = attr_of(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID);
	struct perf_event_header record = {.type = PERF_RECORD_COMM, .size = sizeof(record)};
	struct sample sample;

	(void)state;
	attr.sample_id_all = 0;
	assert_int_equal(sample_id_bytes(&attr), 0);
	assert_int_equal(sample_id_decode(&attr, &record, &sample), 0);
	assert_int_equal(sample.tid, ~0u);
	assert_int_equal(sample_id_distance(&attr), -1);
	assert_int_equal(sample_time_distance(&attr), -1);
}

/* A field of the trailer stands behind the header, at the nearest right there, or nowhere. */
static void test_fields_of_a_trailer(void **state)
{
	static const uint64_t record[] = {(uint64_t)16 << 48 | PERF_RECORD_COMM, 77};

	(void)state;
	assert_int_equal(sample_id_field(record, 8, 8), 8);
	assert_int_equal(sample_id_field(record, 8, 16), -1);
	assert_int_equal(sample_id_field(record, 8, 7), -1);
	assert_int_equal(sample_id_field(record, 8, -1), -1); /* there is no such field */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_pair_of_fields),
		cmocka_unit_test(test_random_layouts),
		cmocka_unit_test(test_cut_sample),
		cmocka_unit_test(test_whole_is_what_can_be_decoded),
		cmocka_unit_test(test_dump_is_what_is_decoded),
		cmocka_unit_test(test_raw_sample_is_what_is_decoded),
		cmocka_unit_test(test_every_read_format),
		cmocka_unit_test(test_huge_counts),
		cmocka_unit_test(test_empty_branch_stack),
		cmocka_unit_test(test_regs_of_a_kernel_thread),
		cmocka_unit_test(test_trailers),
		cmocka_unit_test(test_trailers_before_old_bytes),
		cmocka_unit_test(test_no_trailer_outside_of_its_record),
		cmocka_unit_test(test_fields_of_a_trailer),
		cmocka_unit_test(test_no_trailer_without_sample_id_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
