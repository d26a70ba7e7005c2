/* SPDX-License-Identifier: MIT */
/* Samples with registers and stack, built field by field, rewritten as call chains: what is there, what stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/callchain.h"

enum { STACK_WORDS = 40 };

static const uint64_t kernel_chain[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002};
static const uint64_t user_chain[] = {(uint64_t)PERF_CONTEXT_USER, 0x400100, 0x400200}; /* by frame pointers */
static const uint64_t unwound[] = {0x400100, 0x4001ff, 0x4002ff, 0x4003ff};

static struct perf_event_attr attr_of(uint64_t sample_type)
{
	return (struct perf_event_attr){
		.sample_type = sample_type,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID,
		.branch_sample_type = PERF_SAMPLE_BRANCH_ANY,
		.sample_regs_user = 0x30003,
		.sample_stack_user = STACK_WORDS * 8,
		.exclude_callchain_user = 1,
		.sample_id_all = 1,
		.sample_period = 1,
	};
}

static void put_words(struct buf *out, uint64_t first, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		buf_put_u64(out, first + i);
}

/* What a built sample holds beside its other fields. */
struct content {
	const uint64_t *chain;
	unsigned nr_chain, nr_stack; /* words; nr_stack 0: a kernel thread, without registers */
};

/* Every field that is asked for, in the order of perf_event_open(2); with room behind it that must not change. */
static struct perf_event_header *build(const struct perf_event_attr *attr, const struct content *content)
{
	static const uint64_t words = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				      PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
				      PERF_SAMPLE_PERIOD;
	uint64_t type = attr->sample_type;
	struct buf out = {0};

	buf_extend(&out, sizeof(struct perf_event_header));
	put_words(&out, 0x1000, (unsigned)__builtin_popcountll(type & words));
	if (type & PERF_SAMPLE_READ) {
		buf_put_u64(&out, 2);
		put_words(&out, 0x2000, 4);
	}
	if (type & PERF_SAMPLE_CALLCHAIN) {
		buf_put_u64(&out, content->nr_chain);
		for (unsigned i = 0; i < content->nr_chain; i++)
			buf_put_u64(&out, content->chain[i]);
	}
	if (type & PERF_SAMPLE_RAW) {
		buf_put_u32(&out, 12);
		buf_put_u32(&out, 0x77);
		put_words(&out, 0x3000, 1);
	}
	if (type & PERF_SAMPLE_BRANCH_STACK) {
		buf_put_u64(&out, 2);
		put_words(&out, 0x4000, 6);
	}
	buf_put_u64(&out, content->nr_stack ? PERF_SAMPLE_REGS_ABI_64 : PERF_SAMPLE_REGS_ABI_NONE);
	put_words(&out, 0x5000, content->nr_stack ? 4 : 0);
	buf_put_u64(&out, content->nr_stack * 8);
	put_words(&out, 0x6000, content->nr_stack);
	if (content->nr_stack)
		buf_put_u64(&out, content->nr_stack * 8);
	if (type & PERF_SAMPLE_DATA_SRC)
		put_words(&out, 0x7000, 1);
	if (type & PERF_SAMPLE_REGS_INTR)
		buf_put_u64(&out, PERF_SAMPLE_REGS_ABI_NONE);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		put_words(&out, 0x8000, 1);

	struct perf_event_header header = {
		.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER, .size = (uint16_t)out.len};
	struct perf_event_header *record = malloc(out.len);
	memcpy(out.data, &header, sizeof(header));
	memcpy(record, out.data, out.len);
	buf_fini(&out);
	return record;
}

static void check_span(struct span a, struct span b)
{
	assert_int_equal(a.len, b.len);
	if (a.len)
		assert_memory_equal(a.ptr, b.ptr, a.len);
}

/* All fields but the chain, the registers and the stack. */
static void check_others(const struct sample *before, const struct sample *after)
{
	assert_int_equal(after->id, before->id);
	assert_int_equal(after->ip, before->ip);
	assert_int_equal(after->time, before->time);
	assert_int_equal(after->addr, before->addr);
	assert_int_equal(after->stream_id, before->stream_id);
	assert_int_equal(after->period, before->period);
	assert_int_equal(after->pid, before->pid);
	assert_int_equal(after->tid, before->tid);
	assert_int_equal(after->cpu, before->cpu);
	assert_int_equal(after->cpumode, before->cpumode);
	assert_int_equal(after->data_src, before->data_src);
	assert_int_equal(after->phys_addr, before->phys_addr);
	check_span(after->read, before->read);
	check_span(after->raw, before->raw);
	assert_int_equal(after->branches.nr, before->branches.nr);
	if (before->branches.nr)
		assert_memory_equal(after->branches.entries, before->branches.entries,
				    before->branches.nr * sizeof(*before->branches.entries));
	assert_null(after->user_regs.regs);
	assert_null(after->user_stack.ptr);
}

/* The sample with this content becomes one with the chain `expected`. */
static void check(uint64_t sample_type, const struct content *content, const struct callchain *frames,
		  const uint64_t *expected, unsigned nr_expected)
{
	struct callchain whole = *frames, *const user = &whole;
	struct perf_event_attr attr = attr_of(sample_type), after_attr = attr;
	struct perf_event_header *record = build(&attr, content), *copy = build(&attr, content);
	struct sample before, decoded, after;

	assert_true(callchain_is_dump(&attr));
	callchain_convert_attr(&after_attr, 0);
	assert_false(callchain_is_dump(&after_attr));
	assert_int_equal(sample_decode(&attr, copy, &before), 0);
	assert_int_equal(sample_decode(&attr, record, &decoded), 0);
	if (user->nr)
		user->kernel = callchain_kernel_part(&before, user->most);
	struct perf_event_header *elsewhere = malloc(copy->size);
	assert_non_null(elsewhere);
	assert_int_equal(callchain_convert_copy(&attr, copy, &before, user, (uint8_t *)elsewhere),
			 callchain_convert(&attr, record, &decoded, user));
	size_t size = record->size;
	assert_memory_equal(elsewhere, record, size);
	free(elsewhere);
	assert_true(size <= copy->size);
	assert_int_equal(sample_decode(&after_attr, record, &after), 0);
	check_others(&before, &after);
	assert_int_equal(after.nr_ips, nr_expected);
	if (nr_expected)
		assert_memory_equal(after.ips, expected, nr_expected * sizeof(*expected));
	/* Nothing is left behind the last field. */
	record->size = (uint16_t)(record->size - 8);
	assert_int_not_equal(sample_decode(&after_attr, record, &after), 0);
	free(record);
	free(copy);
}

#define NR(array) (sizeof(array) / sizeof((array)[0]))

static void test_every_layout(void **state)
{
	static const uint64_t optional[] = {
		PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,        PERF_SAMPLE_TID,          PERF_SAMPLE_TIME,
		PERF_SAMPLE_ID,         PERF_SAMPLE_CPU,       PERF_SAMPLE_READ,         PERF_SAMPLE_CALLCHAIN,
		PERF_SAMPLE_ADDR,       PERF_SAMPLE_RAW,       PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_DATA_SRC,
		PERF_SAMPLE_REGS_INTR,  PERF_SAMPLE_PHYS_ADDR,
	};
	static const uint64_t whole[] = {(uint64_t)PERF_CONTEXT_KERNEL,
					 0xffffffff81000001,
					 0xffffffff81000002,
					 (uint64_t)PERF_CONTEXT_USER,
					 0x400100,
					 0x4001ff,
					 0x4002ff,
					 0x4003ff};
	const struct content content = {kernel_chain, NR(kernel_chain), STACK_WORDS};
	const struct callchain user = {.ips = unwound, .nr = NR(unwound), .most = CALLCHAIN_FRAMES};

	(void)state;
	for (unsigned set = 0; set < 1u << NR(optional); set++) {
		uint64_t type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		for (unsigned i = 0; i < NR(optional); i++)
			type |= set >> i & 1 ? optional[i] : 0;
		unsigned from = type & PERF_SAMPLE_CALLCHAIN ? 0 : 3; /* without one: no kernel's part */
		check(type, &content, &user, whole + from, NR(whole) - from);
	}
}

static const uint64_t usual = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
			      PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC;

static void test_kernel_thread(void **state)
{
	const struct content content = {kernel_chain, NR(kernel_chain), 0}, empty = {NULL, 0, 0};
	const struct callchain none = {.most = CALLCHAIN_FRAMES};

	(void)state;
	check(usual, &content, &none, kernel_chain, NR(kernel_chain));
	check(usual, &empty, &none, NULL, 0);
	check(usual & ~(uint64_t)PERF_SAMPLE_CALLCHAIN, &empty, &none, NULL, 0);
}

/* Never two chains of the same frames: what was unwound replaces what frame pointers gave, if anything was. */
static void test_frame_pointers_go(void **state)
{
	uint64_t both[NR(kernel_chain) + NR(user_chain)], expected[NR(kernel_chain) + 1 + NR(unwound)];
	const struct callchain user = {.ips = unwound, .nr = NR(unwound), .most = CALLCHAIN_FRAMES},
			       none = {.most = CALLCHAIN_FRAMES};
	const struct content content = {both, NR(both), STACK_WORDS};

	(void)state;
	memcpy(both, kernel_chain, sizeof(kernel_chain));
	memcpy(both + NR(kernel_chain), user_chain, sizeof(user_chain));
	memcpy(expected, kernel_chain, sizeof(kernel_chain));
	expected[NR(kernel_chain)] = (uint64_t)PERF_CONTEXT_USER;
	memcpy(expected + NR(kernel_chain) + 1, unwound, sizeof(unwound));
	check(usual, &content, &user, expected, NR(expected));
	check(usual, &content, &none, both, NR(both));
}

static void test_most_frames(void **state)
{
	static const uint64_t expected[][7] = {
		{(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001},
		{(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002},
		{(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002, (uint64_t)PERF_CONTEXT_USER,
		 0x400100},
		{(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002, (uint64_t)PERF_CONTEXT_USER,
		 0x400100, 0x4001ff},
	};
	static const unsigned lengths[] = {2, 3, 5, 6};
	const struct content content = {kernel_chain, NR(kernel_chain), STACK_WORDS};

	(void)state;
	for (unsigned i = 0; i < NR(lengths); i++) {
		const struct callchain user = {.ips = unwound, .nr = NR(unwound), .most = i + 1};
		check(usual, &content, &user, expected[i], lengths[i]);
	}
}

/* A stack of one word has no room for 127 frames: the record must not grow, whatever was made of its stack. */
static void test_no_room(void **state)
{
	uint64_t many[CALLCHAIN_FRAMES], expected[16] = {(uint64_t)PERF_CONTEXT_USER};
	const struct callchain user = {.ips = many, .nr = NR(many), .most = CALLCHAIN_FRAMES};
	const struct content content = {NULL, 0, 1};

	(void)state;
	for (unsigned i = 0; i < NR(many); i++)
		many[i] = 0x400000 + i;
	memcpy(expected + 1, many, sizeof(expected) - sizeof(expected[0]));
	/* Registers 5 words, stack 3, of which one becomes the marker. */
	check(usual, &content, &user, expected, 8);
	/* Without a chain its count is one more. */
	check(usual & ~(uint64_t)PERF_SAMPLE_CALLCHAIN, &content, &user, expected, 7);
}

static void test_attr(void **state)
{
	struct perf_event_attr attr = attr_of(usual), fp = attr_of(PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN),
			       regs = attr_of(PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER);

	(void)state;
	callchain_convert_attr(&attr, 300);
	assert_int_equal(attr.sample_type, PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
						   PERF_SAMPLE_DATA_SRC);
	assert_int_equal(attr.exclude_callchain_user, 0);
	assert_int_equal(attr.sample_regs_user, 0);
	assert_int_equal(attr.sample_stack_user, 0);
	assert_int_equal(attr.sample_id_all, 1);
	assert_int_equal(attr.sample_max_stack, 300);
	assert_int_equal(callchain_max_frames(&attr), 300);
	assert_int_equal(callchain_max_frames(&fp), CALLCHAIN_FRAMES);
	assert_false(callchain_is_dump(&fp));
	assert_false(callchain_is_dump(&regs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_layout),      cmocka_unit_test(test_kernel_thread),
		cmocka_unit_test(test_frame_pointers_go), cmocka_unit_test(test_most_frames),
		cmocka_unit_test(test_no_room),           cmocka_unit_test(test_attr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
