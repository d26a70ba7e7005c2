/* SPDX-License-Identifier: MIT */
/* The table of a file and its rows are made for a sample that could not be unwound without them. */
#include <dwarf.h>
#include <elf.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "perfdata/attr.h"
#include "perfdata/sample.h"
#include "record/order/ring_events.h"
#include "record/unwind/drained_state.h"
#include "record/unwind/mapped_objects.h"
#include "record/unwind/row_makers.h"
#include "record/unwind/stack_unwinder.h"
#include "record/unwind/task_state.h"
#include "record/unwind/unwound.h"
#include "tests/fake/fake_elf.h"
#include "unwind/unwind.h"

/* Source: <asm/perf_regs.h> of x86. */
enum { NR_REGS = 17, SP = 7, PC = 8 };

enum {
	PID = 1 << 24, /* of no process */
	CODE = 0x400000,
	STACK = 0x7fff0000,
	NR_WORDS = 16,
	MANY_BYTES = 1 << 20,
	NR_PROGRAMS = 8,
};

struct scene {
	struct event_desc event;
	uint64_t id;
	struct unwinding_event by_event;
	struct ring_events events;
	struct unwind_tables *tables;
	struct mapped_objects *objects;
	struct drained_state *state;
	struct row_makers *makers;
	struct stack_unwinder unwinder; /* of a thread that drains */
	char paths[NR_PROGRAMS][32];
	_Alignas(8) uint8_t record[4096], converted[4096];
};

/* Of which the kernel says nothing but its name. One function, which the outermost frame is. */
static void write_program(char path[32])
{
	const uint8_t first[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
	struct fake_elf elf;

	strcpy(path, "/tmp/row_makers.XXXXXX");
	FILE *file = fdopen(mkstemp(path), "w");
	assert_non_null(file);
	fake_elf_init(&elf, EM_X86_64);
	fake_elf_cie(&elf, "zR", first, sizeof(first));
	fake_elf_fde(&elf, 0, 0x10, NULL, 0);
	assert_int_equal(fwrite(elf.bytes, sizeof(elf.bytes), 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

static void make_record(struct scene *s, uint32_t type, const struct buf *payload)
{
	struct perf_event_header header = {
		.type = type, .misc = PERF_RECORD_MISC_USER, .size = (uint16_t)(sizeof(header) + payload->len)};

	assert_true(header.size <= sizeof(s->record));
	memcpy(s->record, &header, sizeof(header));
	memcpy(s->record + sizeof(header), payload->data, payload->len);
}

/* A process of its own has each program at CODE. */
static void see_program(struct scene *s, uint32_t number)
{
	const uint64_t where[] = {CODE, FAKE_ELF_CODE_BYTES, FAKE_ELF_CODE}, no_file[3] = {0};
	const uint32_t rights[] = {PROT_READ | PROT_EXEC, MAP_PRIVATE};
	struct buf payload = {0};

	buf_put_u32(&payload, PID + number);
	buf_put_u32(&payload, PID + number);
	buf_put(&payload, where, sizeof(where));
	buf_put(&payload, no_file, sizeof(no_file));
	buf_put(&payload, rights, sizeof(rights));
	buf_put(&payload, s->paths[number], sizeof(s->paths[number]));
	buf_put_u32(&payload, PID + number);
	buf_put_u32(&payload, PID + number);
	buf_put_u64(&payload, 1 + number);
	make_record(s, PERF_RECORD_MMAP2, &payload);
	drained_state_see(s->state, s->record);
	assert_false(drained_state_work(s->state));
	buf_fini(&payload);
}

static void make_sample(struct scene *s, uint32_t number)
{
	const uint64_t regs[NR_REGS] = {[SP] = STACK, [PC] = CODE + 4}, stack[NR_WORDS] = {0};
	struct buf payload = {0};

	buf_put_u64(&payload, CODE + 4);
	buf_put_u32(&payload, PID + number);
	buf_put_u32(&payload, PID + number);
	buf_put_u64(&payload, 100);
	buf_put_u64(&payload, 0);
	buf_put_u64(&payload, PERF_SAMPLE_REGS_ABI_64);
	buf_put(&payload, regs, sizeof(regs));
	buf_put_u64(&payload, sizeof(stack));
	buf_put(&payload, stack, sizeof(stack));
	buf_put_u64(&payload, sizeof(stack));
	make_record(s, PERF_RECORD_SAMPLE, &payload);
	buf_fini(&payload);
}

static int set_up(void **ret)
{
	static const struct mapped_objects_limits limits = {MANY_BYTES, 100};
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->event.ids = &s->id;
	s->event.nr_ids = 1;
	s->event.attr = (struct perf_event_attr){
		.size = sizeof(s->event.attr),
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = 0xff01ff,
		.sample_stack_user = NR_WORDS * sizeof(uint64_t),
		.sample_id_all = 1,
	};
	s->by_event = (struct unwinding_event){
		.unwinds = true, .max_stack = NR_WORDS, .shape = dump_shape(&s->event.attr), .attr = &s->event.attr};
	assert_int_equal(ring_events_init(&s->events, &s->event, 1), 0);
	s->tables = unwind_tables_new("x86_64", MANY_BYTES);
	s->objects = mapped_objects_new(s->tables, &limits, NULL);
	assert_true(s->tables && s->objects);
	const struct unwinding_rings no_rings = {.nr_threads = 1};
	const struct drained_state_params of_state = {.rings = &no_rings, .events = &s->events, .objects = s->objects};
	assert_int_equal(drained_state_new(&of_state, &s->state), 0);
	const struct row_makers_params params = {.events = &s->events,
						 .by_event = &s->by_event,
						 .objects = s->objects,
						 .tables = s->tables,
						 .state = s->state};
	assert_int_equal(row_makers_new(&params, &s->makers), 0);
	s->unwinder.events = &s->events;
	s->unwinder.by_event = &s->by_event;
	s->unwinder.never_waits = true;
	s->unwinder.cache = unwind_cache_new(s->tables);
	assert_non_null(s->unwinder.cache);
	struct task_state *none = task_state_new(s->objects, s->events.trailer_bytes, MANY_BYTES);
	assert_int_equal(drained_state_open(s->state, none, 0, 0), 0);
	task_state_free(none);
	for (uint32_t i = 0; i < NR_PROGRAMS; i++) {
		write_program(s->paths[i]);
		see_program(s, i);
	}
	*ret = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	row_makers_free(s->makers);
	drained_state_free(s->state);
	unwind_cache_free(s->unwinder.cache);
	mapped_objects_free(s->objects);
	unwind_tables_free(s->tables);
	ring_events_fini(&s->events);
	for (size_t i = 0; i < NR_PROGRAMS; i++)
		unlink(s->paths[i]);
	free(s);
	return 0;
}

/* As a thread that drains. Returns the bytes of the chain; 0: there is none yet. */
static size_t convert(struct scene *s, uint32_t number)
{
	make_sample(s, number);
	s->unwinder.state = drained_state_begin(s->state, &s->unwinder.known_from_ns);
	assert_non_null(s->unwinder.state);
	s->unwinder.task = (struct known_task){0};
	size_t bytes = stack_unwinder_convert_copy(&s->unwinder, s->record, &s->by_event, s->converted);
	drained_state_end(s->state);
	return bytes;
}

static void test_the_table_is_made(void **state)
{
	struct scene *s = *state;
	uint64_t chances = drained_state_chances(s->state);

	assert_int_equal(convert(s, 0), 0);
	assert_true(s->unwinder.lacks_rows);
	row_makers_offer(s->makers, s->record);
	assert_int_equal(convert(s, 0), 0);
	assert_int_equal(drained_state_chances(s->state), chances);
	assert_true(row_makers_work(s->makers));
	assert_false(row_makers_work(s->makers));
	assert_true(drained_state_chances(s->state) > chances);
	assert_int_not_equal(convert(s, 0), 0);
	assert_false(s->unwinder.lacks_rows);
	assert_int_equal(s->unwinder.counts.by_end[UNWIND_COMPLETE], 1);
	assert_int_equal(convert(s, 1), 0); /* another program */
}

/* A sample is taken only by who has none: those of others are not waited for. */
static void test_who_has_a_sample_takes_no_other(void **state)
{
	struct scene *s = *state;
	unsigned nr_made = 0;

	for (uint32_t i = 0; i < NR_PROGRAMS; i++) {
		make_sample(s, i);
		row_makers_offer(s->makers, s->record);
	}
	assert_true(row_makers_work(s->makers));
	for (uint32_t i = 0; i < NR_PROGRAMS; i++)
		nr_made += convert(s, i) != 0;
	assert_in_range(nr_made, 1, 4);
	for (uint32_t i = 0; i < nr_made; i++)
		assert_int_not_equal(convert(s, i), 0);
}

/* Of a process that is gone, or while records are missing, nothing is made, and the next sample is taken. */
static void test_samples_that_need_nothing(void **state)
{
	struct scene *s = *state;

	make_sample(s, NR_PROGRAMS);
	row_makers_offer(s->makers, s->record);
	assert_true(row_makers_work(s->makers));
	drained_state_close(s->state);
	make_sample(s, 0);
	row_makers_offer(s->makers, s->record);
	assert_true(row_makers_work(s->makers));
	assert_false(row_makers_work(s->makers));
	struct unwind_stats stats;
	unwind_tables_stats(s->tables, &stats);
	assert_int_equal(stats.nr_tables, 0);
}

static void test_threads(void **state)
{
	struct scene *s = *state;

	assert_int_equal(row_makers_start(s->makers), 0);
	for (uint32_t i = 0; i < NR_PROGRAMS; i++)
		while (!convert(s, i)) {
			assert_true(s->unwinder.lacks_rows);
			row_makers_offer(s->makers, s->record);
			usleep(100);
		}
	while (!row_makers_trylock(s->makers)) /* they come to an end */
		usleep(100);
	row_makers_unlock(s->makers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_table_is_made, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_who_has_a_sample_takes_no_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_samples_that_need_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("row_makers", tests, NULL, NULL);
}
