/* SPDX-License-Identifier: MIT */
/* compress/index_builder.h: extents of records that go by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compress/extent_index.h"
#include "compress/index_builder.h"
#include "perfdata/record.h"

enum { RECORD_BYTES = 1 << 12, START = 4096 };

struct course {
	struct index_builder *index_builder;
	uint64_t at;
	uint64_t nr;
};

static void start(struct course *course)
{
	*course = (struct course){.at = START};
	assert_int_equal(index_builder_new(&course->index_builder), 0);
}

static void go(struct course *course, uint32_t type, unsigned nr)
{
	static uint8_t record[RECORD_BYTES];
	struct perf_event_header header = {.type = type, .size = RECORD_BYTES};

	for (unsigned i = 0; i < nr; i++) {
		memcpy(record, &header, sizeof(header));
		index_builder_record(course->index_builder, course->at, record,
				     type == RECORD_FINISHED_ROUND ? 0 : ++course->nr);
		course->at += RECORD_BYTES;
	}
}

/* All that went by is in one of them, in its order, with its times. */
static struct extent_list end(struct course *course)
{
	struct extent_list list = {0};
	uint64_t at = START, last_ns = 0;

	assert_int_equal(index_builder_list(course->index_builder, &list), 0);
	index_builder_free(course->index_builder);
	for (size_t i = 0; i < list.nr; i++) {
		const struct extent_fields *fields = &list.infos[i].fields;
		assert_int_equal(fields->offset, at);
		assert_int_equal(fields->bytes, fields->packed_bytes);
		assert_int_equal(fields->first_ns, last_ns + 1);
		at += fields->bytes;
		last_ns = fields->last_ns;
	}
	assert_int_equal(at, course->at);
	assert_int_equal(last_ns, course->nr);
	return list;
}

static void test_task_events_stand_apart(void **state)
{
	struct course course;

	(void)state;
	start(&course);
	go(&course, PERF_RECORD_COMM, 8);
	go(&course, PERF_RECORD_SAMPLE, 300);
	go(&course, RECORD_FINISHED_ROUND, 1);
	go(&course, PERF_RECORD_LOST, 20);
	go(&course, PERF_RECORD_FORK, 5);
	go(&course, PERF_RECORD_SAMPLE, 100);
	struct extent_list list = end(&course);
	assert_int_equal(list.nr, 5); /* of the samples no more than 1 MiB together */
	for (size_t i = 0; i < list.nr; i++)
		assert_int_equal(list.infos[i].fields.nr_others, i == 0 ? 8 : i == 3 ? 5 : 0);
	extent_list_fini(&list);
}

/* As go(), but for samples that may be added together. */
static void go_together(struct course *course, uint32_t type, unsigned nr)
{
	while (nr) {
		uint64_t room = index_builder_room(course->index_builder, course->at);
		unsigned some = (unsigned)((room + RECORD_BYTES - 1) / RECORD_BYTES); /* that begin in it */

		some = some < nr ? some : nr;
		if (type != PERF_RECORD_SAMPLE || !some) {
			go(course, type, 1);
			nr--;
			continue;
		}
		index_builder_samples(course->index_builder, some * RECORD_BYTES, some, course->nr + 1,
				      course->nr + some);
		course->nr += some;
		course->at += some * RECORD_BYTES;
		nr -= some;
	}
}

static void test_samples_together_are_in_the_same_extents(void **state)
{
	static const struct {
		uint32_t type;
		unsigned nr;
	} steps[] = {{PERF_RECORD_COMM, 1},   {PERF_RECORD_SAMPLE, 2},   {PERF_RECORD_COMM, 1},
		     {PERF_RECORD_SAMPLE, 1}, {PERF_RECORD_SAMPLE, 600}, {PERF_RECORD_FORK, 3},
		     {PERF_RECORD_SAMPLE, 3}, {PERF_RECORD_MMAP2, 2},    {PERF_RECORD_SAMPLE, 40}};
	struct course course, together;

	(void)state;
	start(&course);
	start(&together);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		go(&course, steps[i].type, steps[i].nr);
		go_together(&together, steps[i].type, steps[i].nr);
	}
	struct extent_list expected = end(&course), list = end(&together);
	assert_int_equal(list.nr, expected.nr);
	for (size_t i = 0; i < list.nr; i++)
		assert_memory_equal(&list.infos[i].fields, &expected.infos[i].fields, sizeof(list.infos[i].fields));
	extent_list_fini(&expected);
	extent_list_fini(&list);
}

static void test_more_than_memory_holds(void **state)
{
	struct course course;

	(void)state;
	start(&course);
	for (unsigned i = 0; i < 40000; i++) {
		go(&course, PERF_RECORD_SAMPLE, 4);
		go(&course, PERF_RECORD_COMM, 4);
	}
	struct extent_list list = end(&course);
	assert_true(list.nr > 1000 && list.nr <= 1 << 14);
	extent_list_fini(&list);
}

static void test_no_time_is_every_time(void **state)
{
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(header)};
	struct extent_list list = {0};
	struct index_builder *index_builder;

	(void)state;
	assert_int_equal(index_builder_new(&index_builder), 0);
	index_builder_record(index_builder, 0, (const uint8_t *)&header, 5);
	index_builder_record(index_builder, sizeof(header), (const uint8_t *)&header, 0);
	assert_int_equal(index_builder_list(index_builder, &list), 0);
	assert_int_equal(list.nr, 1);
	assert_int_equal(list.infos[0].fields.first_ns, 0);
	assert_true(list.infos[0].fields.last_ns == UINT64_MAX);
	extent_list_fini(&list);
	index_builder_free(index_builder);
}

/* Frames that say how much they hold are extents; a stream, which has no beginning but one, is none. */
static void test_packed(void **state)
{
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(header)};
	struct extent_list list = {0};
	struct index_builder *index_builder;

	(void)state;
	assert_int_equal(index_builder_new(&index_builder), 0);
	index_builder_packed(index_builder, 100, 50, 8000);
	index_builder_unpacked(index_builder, (const uint8_t *)&header, 7);
	index_builder_packed(index_builder, 150, 25, 0);
	index_builder_unpacked(index_builder, (const uint8_t *)&header, 9);
	index_builder_packed(index_builder, 175, 40, UINT64_MAX);
	index_builder_unpacked(index_builder, (const uint8_t *)&header, 11);
	index_builder_packed(index_builder, 215, 40, 0);
	index_builder_record(index_builder, 255, (const uint8_t *)&header, 12);
	assert_int_equal(index_builder_list(index_builder, &list), 0);
	assert_int_equal(list.nr, 2);
	assert_int_equal(list.infos[0].fields.offset, 100);
	assert_int_equal(list.infos[0].fields.packed_bytes, 75);
	assert_int_equal(list.infos[0].fields.bytes, 8000);
	assert_int_equal(list.infos[0].fields.first_ns, 7);
	assert_int_equal(list.infos[0].fields.last_ns, 9);
	assert_int_equal(list.infos[1].fields.offset, 255);
	extent_list_fini(&list);
	index_builder_free(index_builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_task_events_stand_apart),
		cmocka_unit_test(test_samples_together_are_in_the_same_extents),
		cmocka_unit_test(test_more_than_memory_holds),
		cmocka_unit_test(test_no_time_is_every_time),
		cmocka_unit_test(test_packed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
