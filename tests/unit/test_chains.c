/* SPDX-License-Identifier: MIT */
/* Chains that are looked up as a whole are those that are looked up frame by frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/machine/chains.h"
#include "analyze/machine/machine.h"
#include "analyze/machine/stacks.h"
#include "analyze/symbols/debug_info.h"
#include "base/buf.h"
#include "read/session.h"
#include "tasks/tasks.h"

enum { PID = 10, OTHER = 20 };

extern const char __ehdr_start; /* where the program is mapped. Source: ld(1), linker scripts, PROVIDE */

static struct machine *machine;
static struct stacks *stacks;
static struct chains *chains;

static int set_up_with(const struct symbol_options *options)
{
	assert_int_equal(machine_new(options, NULL, &machine), 0);
	stacks = stacks_new();
	chains = chains_new(machine, stacks);
	return chains ? 0 : -1;
}

static int set_up(void **state)
{
	static const struct symbol_options options = {.symfs = "/nonexistent"};

	(void)state;
	return set_up_with(&options);
}

static int set_up_inlined(void **state)
{
	static const struct symbol_options options = {.inlined = INLINE_ALL};

	(void)state;
	return set_up_with(&options);
}

static int tear_down(void **state)
{
	(void)state;
	chains_free(chains);
	stacks_free(stacks);
	machine_free(machine);
	return 0;
}

static void map_bytes(uint32_t pid, uint64_t start, uint64_t len, const char *name)
{
	struct buf bytes = {0};
	struct perf_event_header header = {.type = PERF_RECORD_MMAP, .misc = PERF_RECORD_MISC_USER};

	buf_put(&bytes, &header, sizeof(header));
	buf_put_u32(&bytes, pid);
	buf_put_u32(&bytes, pid);
	buf_put_u64(&bytes, start);
	buf_put_u64(&bytes, len);
	buf_put_u64(&bytes, 0);
	buf_put(&bytes, name, strlen(name) + 1);
	buf_align(&bytes, 8);
	((struct perf_event_header *)(void *)bytes.data)->size = (uint16_t)bytes.len;
	const struct session_record record = {.view = {.header = (const void *)bytes.data}};
	assert_int_equal(machine_process(machine, &record), 0);
	buf_fini(&bytes);
}

static void map(uint32_t pid, uint64_t start, const char *name)
{
	map_bytes(pid, start, 0x1000, name);
}

/* The chain, after it was compared with the slow way. */
static uint32_t intern(uint32_t pid, const uint64_t *ips, unsigned nr)
{
	static const struct event_desc event = {.attr = {.sample_type = PERF_SAMPLE_CALLCHAIN}};
	const struct session_record record = {.event = &event,
					      .sample = {.pid = pid, .tid = pid, .ips = ips, .nr_ips = nr}};
	struct task *task = machine_task(machine, pid, pid);
	struct location frames[64];
	uint32_t chain, expected;

	assert_true(chains_can_intern(chains, &record.sample));
	assert_int_equal(chains_intern(chains, task, &record, &chain), 0);
	unsigned nr_frames = machine_callchain(machine, task, &record, frames, 64);
	assert_int_equal(stacks_intern(stacks, frames, nr_frames, &expected), 0);
	assert_int_equal(chain, expected);
	assert_true(stacks_depth(stacks) >= nr_frames);
	return chain;
}

#define INTERN(pid, ...) intern(pid, (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void test_callers_are_shared(void **state)
{
	(void)state;
	map(PID, 0x1000, "/bin/a");
	uint32_t whole = INTERN(PID, PERF_CONTEXT_USER, 0x1003, 0x1002, 0x1001);
	assert_int_equal(INTERN(PID, PERF_CONTEXT_USER, 0x1003, 0x1002, 0x1001), whole);
	uint32_t links = stacks_end_chain(stacks);
	uint32_t other = INTERN(PID, PERF_CONTEXT_USER, 0x1004, 0x1002, 0x1001);
	assert_int_equal(stacks_end_chain(stacks), links + 1);
	assert_int_equal(stacks_outer(stacks, other), stacks_outer(stacks, whole));
	/* A caller alone, and one that calls itself. */
	assert_int_equal(INTERN(PID, PERF_CONTEXT_USER, 0x1002, 0x1001), stacks_outer(stacks, whole));
	INTERN(PID, PERF_CONTEXT_USER, 0x1001, 0x1001, 0x1001);
	INTERN(PID, PERF_CONTEXT_KERNEL, 0xffffffff81000010, PERF_CONTEXT_USER, 0x1002, 0x1001);
	/* The same address in the kernel and in the program. */
	INTERN(PID, PERF_CONTEXT_KERNEL, 0x1002, PERF_CONTEXT_USER, 0x1002, 0x1001);
	INTERN(PID, PERF_CONTEXT_USER, 0x1002, 0x1002, 0x1001);
}

static void test_no_chain(void **state)
{
	(void)state;
	map(PID, 0x1000, "/bin/a");
	assert_int_equal(intern(PID, NULL, 0), 0);
	assert_int_equal(INTERN(PID, PERF_CONTEXT_USER, 0x1001, PERF_CONTEXT_MAX + 1, 0x1002), 0); /* unknown marker */
}

static const char *object_of(uint32_t chain)
{
	return dso_long_name(stacks_location(stacks, stacks_frame(stacks, chain))->dso);
}

static void test_other_maps(void **state)
{
	(void)state;
	map(PID, 0x1000, "/bin/a");
	map(OTHER, 0x1000, "/bin/b");
	assert_string_equal(object_of(INTERN(PID, PERF_CONTEXT_USER, 0x1002, 0x1001)), "/bin/a");
	assert_string_equal(object_of(INTERN(OTHER, PERF_CONTEXT_USER, 0x1002, 0x1001)), "/bin/b");
	map(PID, 0x1000, "/bin/c");
	assert_string_equal(object_of(INTERN(PID, PERF_CONTEXT_USER, 0x1002, 0x1001)), "/bin/c");
}

static volatile unsigned sink;

static inline __attribute__((always_inline)) void inner(void)
{
	for (unsigned i = 0; i < 4; i++)
		sink += i;
}

static __attribute__((noinline)) void outer(void)
{
	inner();
	sink++;
}

/* Of this program itself, at each address of a function: innermost and as a caller, whose call is one byte before. */
static void test_inlined(void **state)
{
	enum { FUNCTION_BYTES = 256, PROGRAM_BYTES = 1 << 24 };
	uint64_t base = (uintptr_t)&__ehdr_start, function = (uintptr_t)outer;
	unsigned nr_inlined = 0;

	(void)state;
	outer();
	char *path = realpath("/proc/self/exe", NULL);
	assert_non_null(path);
	map_bytes(PID, base, PROGRAM_BYTES, path);
	for (uint64_t at = function; at < function + FUNCTION_BYTES; at++) {
		uint32_t chain = INTERN(PID, PERF_CONTEXT_USER, at, at, function);
		unsigned nr = 0;
		for (; chain; chain = stacks_outer(stacks, chain))
			nr++;
		nr_inlined += nr > 3;
	}
	assert_true(nr_inlined > 0);
	free(path);
}

#ifdef __x86_64__
#define FUNCTION(name, code, size)                                                                                     \
	".global made_" #name "\n.hidden made_" #name "\n.type made_" #name ", @function\nmade_" #name ": " code       \
	"\n" size
#define SIZE(name) ".size made_" #name ", . - made_" #name "\n"
#define SIZED(name, code) FUNCTION(name, code, SIZE(name))

/* `caller` and `padded` end with calls, as `no_size`, `plain` does not. */
__asm__(".pushsection .text\n.p2align 4\n" SIZED(caller, "call made_plain") SIZED(behind_caller, "ret")
		SIZED(plain, "ret") SIZED(behind_plain, "nop\nret") FUNCTION(no_size, "call *8(%rsp)", "")
			SIZED(behind_no_size, "ret") SIZED(padded, "call *%rax") "ret\n.popsection\n");
extern const char made_behind_caller, made_behind_plain, made_behind_no_size, made_padded;

static struct location innermost(uint32_t chain)
{
	return *stacks_location(stacks, stacks_frame(stacks, chain));
}

static void assert_names(const char *address, const char *as_caller, const char *as_innermost)
{
	const uint64_t at = (uintptr_t)address;
	const struct location caller = innermost(stacks_outer(stacks, INTERN(PID, PERF_CONTEXT_USER, 1, at)));
	const struct location sampled = innermost(INTERN(PID, PERF_CONTEXT_USER, at));

	assert_string_equal(caller.symbol ? caller.symbol->name : "", as_caller);
	assert_string_equal(sampled.symbol ? sampled.symbol->name : "", as_innermost);
}

static void map_this_program(void)
{
	enum { PROGRAM_BYTES = 1 << 24 };
	char *path = realpath("/proc/self/exe", NULL);

	assert_non_null(path);
	map_bytes(PID, (uintptr_t)&__ehdr_start, PROGRAM_BYTES, path);
	free(path);
}

static void test_call_at_the_end_of_a_function(void **state)
{
	(void)state;
	map_this_program();
	for (unsigned round = 0; round < 2; round++) {
		assert_names(&made_behind_caller, "made_caller", "made_behind_caller");
		assert_names(&made_behind_plain, "made_behind_plain", "made_behind_plain");
		assert_names(&made_behind_no_size, "made_behind_no_size", "made_behind_no_size");
		assert_names(&made_padded + 2, "made_padded", "");
		assert_names(&made_padded + 1, "made_padded", "made_padded");
	}
}

/* The code is read once, by the thread that may change the machine. */
static void test_call_at_the_end_by_other_threads(void **state)
{
	struct lookup *lookup = lookup_new(machine), *own = machine_lookup(machine);
	struct task *task = machine_task(machine, PID, PID);
	const uint64_t ip = (uintptr_t)&made_behind_caller;
	struct location at;

	(void)state;
	assert_non_null(lookup);
	map_this_program();
	lookup_resolve(own, task, PERF_RECORD_MISC_USER, ip, &at);
	lookup_resolve(own, task, PERF_RECORD_MISC_USER, ip - 1, &at);
	for (unsigned round = 0; round < 3; round++) {
		lookup_set_read_only(lookup, true);
		lookup_resolve_caller(lookup, task, PERF_RECORD_MISC_USER, ip, &at);
		assert_int_equal(lookup_needs_update(lookup), round == 0);
		if (round)
			assert_string_equal(at.symbol->name, "made_caller");
		lookup_resolve_caller(own, task, PERF_RECORD_MISC_USER, ip, &at);
		assert_string_equal(at.symbol->name, "made_caller");
		assert_true(at.is_return);
		lookup_resolve(own, task, PERF_RECORD_MISC_USER, ip, &at);
		assert_string_equal(at.symbol->name, "made_behind_caller");
		assert_false(at.is_return);
	}
	lookup_free(lookup);
}
#endif

static uint32_t intern_now(const struct session_record *record, uint32_t *ret_later)
{
	struct task *task = machine_task(machine, PID, PID);
	struct location frames[64];
	uint32_t chain;

	if (ret_later)
		assert_int_equal(chains_intern(chains, task, record, ret_later), 0);
	unsigned nr = machine_callchain(machine, task, record, frames, 64);
	assert_int_equal(stacks_intern(stacks, frames, nr, &chain), 0);
	assert_true(stacks_depth(stacks) >= nr);
	return chain;
}

/* By another thread: what is made of the chains are those that are complete at once. */
static void test_inlined_later(void **state)
{
	enum { FUNCTION_BYTES = 256, PROGRAM_BYTES = 1 << 24 };
	static const struct event_desc event = {.attr = {.sample_type = PERF_SAMPLE_CALLCHAIN}};
	uint64_t base = (uintptr_t)&__ehdr_start, function = (uintptr_t)outer;
	uint32_t now[FUNCTION_BYTES], later[FUNCTION_BYTES], *numbers;
	unsigned nr_inlined = 0;

	(void)state;
	char *path = realpath("/proc/self/exe", NULL);
	assert_non_null(path);
	map_bytes(PID, base, PROGRAM_BYTES, path);
	if (!chains_expand_later(chains, CHAINS_LINES))
		skip(); /* one CPU */
	assert_false(chains_are_many(chains));
	for (unsigned i = 0; i < FUNCTION_BYTES; i++) {
		const uint64_t ips[] = {PERF_CONTEXT_USER, function + i, function + i, 1, function};
		const struct session_record record = {
			.event = &event, .sample = {.pid = PID, .tid = PID, .ips = ips, .nr_ips = i % 6 ? 5 : 4}};
		now[i] = intern_now(&record, &later[i]);
	}
	assert_int_equal(chains_expand(chains, &numbers), 0);
	assert_non_null(numbers);
	const uint32_t end = stacks_end_chain(stacks);
	for (unsigned i = 0; i < FUNCTION_BYTES; i++) {
		const uint64_t ips[] = {PERF_CONTEXT_USER, function + i, function + i, 1, function};
		const struct session_record record = {
			.event = &event, .sample = {.pid = PID, .tid = PID, .ips = ips, .nr_ips = i % 6 ? 5 : 4}};
		unsigned nr = 0;
		uint32_t chain = intern_now(&record, NULL);
		assert_int_equal(chain, numbers[later[i]]);
		assert_int_equal(chain == numbers[later[0]], now[i] == now[0]);
		for (; chain; chain = stacks_outer(stacks, chain))
			nr++;
		nr_inlined += nr > record.sample.nr_ips - 1;
		intern(PID, ips, (unsigned)record.sample.nr_ips); /* at once again */
	}
	assert_int_equal(stacks_end_chain(stacks), end);
	assert_true(nr_inlined > 0);
	free(numbers);
	free(path);
}

/* Where frames of a function have a number for each address, those of one line get one. */
static void test_frames_of_lines(void **state)
{
	enum { FUNCTION_BYTES = 64, PROGRAM_BYTES = 1 << 24 };
	static const struct event_desc event = {.attr = {.sample_type = PERF_SAMPLE_CALLCHAIN}};
	uint64_t function = (uintptr_t)outer;
	uint32_t later[FUNCTION_BYTES], *numbers;
	struct source_line lines[FUNCTION_BYTES];
	unsigned nr_pairs = 0;

	(void)state;
	char *path = realpath("/proc/self/exe", NULL);
	assert_non_null(path);
	map_bytes(PID, (uintptr_t)&__ehdr_start, PROGRAM_BYTES, path);
	stacks_keep_addresses(stacks);
	if (!chains_expand_later(chains, CHAINS_LINES | CHAINS_BY_LINE))
		skip(); /* one CPU */
	for (unsigned i = 0; i < FUNCTION_BYTES; i++) {
		const uint64_t ips[] = {PERF_CONTEXT_USER, function + i};
		const struct session_record record = {.event = &event,
						      .sample = {.pid = PID, .tid = PID, .ips = ips, .nr_ips = 2}};
		assert_int_equal(chains_intern(chains, machine_task(machine, PID, PID), &record, &later[i]), 0);
	}
	assert_int_equal(chains_expand(chains, &numbers), 0);
	assert_non_null(numbers);
	for (unsigned i = 0; i < FUNCTION_BYTES; i++) {
		const struct location *at = stacks_location(stacks, stacks_frame(stacks, numbers[later[i]]));
		const struct location *first = stacks_location(stacks, stacks_frame(stacks, numbers[later[0]]));
		assert_true(debug_info_line(machine_debug_info(machine), at->dso, first->address + i, 0, &lines[i]));
		for (unsigned k = 0; k < i; k++) {
			const uint32_t other = stacks_frame(stacks, numbers[later[k]]);
			if (stacks_location(stacks, other)->symbol != at->symbol || lines[k].path != lines[i].path)
				continue;
			const bool same = other == stacks_frame(stacks, numbers[later[i]]);
			/* Behind the end of a short function there is none, and a frame has its address. */
			assert_int_equal(same, at->symbol && lines[k].line == lines[i].line);
			nr_pairs += same;
		}
	}
	assert_true(nr_pairs > 0);
	free(numbers);
	free(path);
}

/* After numbers have changed nothing that is known is used. */
static void test_forget(void **state)
{
	(void)state;
	bool used[64] = {0};
	struct stacks_choice choice;

	map(PID, 0x1000, "/bin/a");
	INTERN(PID, PERF_CONTEXT_USER, 0x1003, 0x1001);
	used[INTERN(PID, PERF_CONTEXT_USER, 0x1002, 0x1001)] = true;
	assert_int_equal(stacks_choose(stacks, used, &choice), 0);
	stacks_keep(stacks, &choice);
	stacks_choice_fini(&choice);
	chains_forget(chains);
	INTERN(PID, PERF_CONTEXT_USER, 0x1002, 0x1001);
	INTERN(PID, PERF_CONTEXT_USER, 0x1003, 0x1001);
}

/* More than fit into the first tables: each has one number, and keeps it, or gets another one when some are let go. */
static void test_many_links(void **state)
{
	enum { OUTERS = 100, FRAMES = 50 };
	static uint32_t chains_of[OUTERS][FRAMES];
	static bool used[OUTERS * FRAMES + 1];
	struct stacks *many = stacks_new();
	struct stacks_choice choice;
	uint32_t again;

	(void)state;
	assert_non_null(many);
	for (uint32_t outer = 0; outer < OUTERS; outer++) /* chain 1 has frame 1, chain 2 frame 2, ... */
		for (uint32_t frame = 0; frame < FRAMES; frame++) {
			uint32_t *chain = &chains_of[outer][frame];
			assert_int_equal(stacks_push(many, outer, frame + 1, chain), 0);
			assert_int_equal(*chain, outer * FRAMES + frame + 1);
		}
	assert_int_equal(stacks_end_chain(many), OUTERS * FRAMES + 1);
	assert_in_range(stacks_bytes(many), OUTERS * FRAMES * 12, OUTERS * FRAMES * 40);
	for (uint32_t outer = 0; outer < OUTERS; outer++)
		for (uint32_t frame = 0; frame < FRAMES; frame++) {
			assert_int_equal(stacks_push(many, outer, frame + 1, &again), 0);
			assert_int_equal(again, chains_of[outer][frame]);
			assert_int_equal(stacks_outer(many, again), outer);
			assert_int_equal(stacks_frame(many, again), frame + 1);
		}
	used[chains_of[1][7]] = true; /* and its caller, chain 1 */
	used[chains_of[0][2]] = true;
	assert_int_equal(stacks_choose(many, used, &choice), 0);
	stacks_keep(many, &choice);
	const uint32_t kept = choice.numbers[chains_of[1][7]];
	assert_int_equal(choice.numbers[chains_of[1][8]], 0);
	stacks_choice_fini(&choice);
	assert_int_equal(stacks_end_chain(many), 4);
	assert_int_equal(stacks_push(many, stacks_outer(many, kept), 8, &again), 0);
	assert_int_equal(again, kept);
	assert_int_equal(stacks_push(many, kept, 1, &again), 0);
	assert_int_equal(again, 4);
	stacks_free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_callers_are_shared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_chain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_maps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_inlined, set_up_inlined, tear_down),
#ifdef __x86_64__
		cmocka_unit_test_setup_teardown(test_call_at_the_end_of_a_function, set_up_inlined, tear_down),
		cmocka_unit_test_setup_teardown(test_call_at_the_end_by_other_threads, set_up_inlined, tear_down),
#endif
		cmocka_unit_test_setup_teardown(test_inlined_later, set_up_inlined, tear_down),
		cmocka_unit_test_setup_teardown(test_frames_of_lines, set_up_inlined, tear_down),
		cmocka_unit_test_setup_teardown(test_forget, set_up, tear_down),
		cmocka_unit_test(test_many_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
