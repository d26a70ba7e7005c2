/* SPDX-License-Identifier: MIT */
/* compress/extent_index.h, and how large extents are. */
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
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/extent_stats.h"
#include "perfdata/attr.h"

static void add(struct extent_list *list, uint32_t part, uint64_t offset, uint64_t packed_bytes, uint32_t nr_counts)
{
	struct extent_info info = {
		.fields = {.offset = offset,
			   .packed_bytes = packed_bytes,
			   .bytes = 2 * packed_bytes,
			   .first_ns = offset,
			   .last_ns = offset + nr_counts, /* without counts: one moment */
			   .part = part,
			   .nr_counts = nr_counts},
		.counts = nr_counts ? calloc(nr_counts, sizeof(struct extent_count)) : NULL,
	};

	for (uint32_t i = 0; i < nr_counts; i++)
		info.counts[i] = (struct extent_count){i, (uint32_t)offset + i};
	assert_int_equal(extent_list_add(list, &info), 0);
	assert_null(info.counts);
}

static void expect_offsets(const struct extent_list *list, const uint64_t offsets[], size_t nr)
{
	assert_int_equal(list->nr, nr);
	for (size_t i = 0; i < nr; i++)
		assert_int_equal(list->infos[i].fields.offset, offsets[i]);
}

static void test_parts_are_joined_and_sorted(void **state)
{
	AUTO_EXTENTS struct extent_list list = {0}, more = {0};

	(void)state;
	extent_list_sort(&list);
	add(&list, 0, 300, 10, 1);
	add(&list, 0, 100, 10, 0);
	for (uint64_t i = 0; i < 100; i++) /* more than there is room for at first */
		add(&more, 0, 901 + i * 37 % 100, 1, 2);
	assert_int_equal(extent_list_join(&list, &more, 7), 0);
	assert_int_equal(more.nr, 0);
	assert_null(more.infos);
	add(&list, 3, 5000, 1, 0);
	add(&list, 3, 4000, 1, 0);
	extent_list_sort(&list);
	expect_offsets(&(struct extent_list){.infos = list.infos, .nr = 4}, (const uint64_t[]){100, 300, 4000, 5000},
		       4);
	assert_int_equal(list.nr, 104);
	for (size_t i = 4; i < list.nr; i++) {
		assert_int_equal(list.infos[i].fields.part, 7);
		assert_int_equal(list.infos[i].fields.offset, 901 + (i - 4));
		assert_int_equal(list.infos[i].counts[1].nr, 901 + (i - 4) + 1);
	}
}

static void test_where_an_extent_starts(void **state)
{
	AUTO_EXTENTS struct extent_list list = {0};

	(void)state;
	add(&list, 0, 100, 10, 0);
	add(&list, 0, 110, 20, 0);
	add(&list, 1, 95, 30, 0);
	assert_int_equal(extent_list_start(&list, 0, 99), 99);
	assert_int_equal(extent_list_start(&list, 0, 100), 100);
	assert_int_equal(extent_list_start(&list, 0, 101), 100);
	assert_int_equal(extent_list_start(&list, 0, 109), 100);
	assert_int_equal(extent_list_start(&list, 0, 110), 110);
	assert_int_equal(extent_list_start(&list, 0, 129), 110);
	assert_int_equal(extent_list_start(&list, 0, 130), 130);
	assert_int_equal(extent_list_start(&list, 1, 124), 95);
	assert_int_equal(extent_list_start(&list, 2, 105), 105);
}

/* Those that a file does not have whole are left out; of its parts all are there. */
static void test_what_is_written_can_be_read(void **state)
{
	AUTO_EXTENTS struct extent_list list = {0};
	AUTO_BUF struct buf out = {0};
	static const uint64_t kept[] = {100, 110, 500};
	struct extent_fields fields;
	struct extent_reader reader;
	struct span counts;

	(void)state;
	add(&list, 0, 100, 10, 3);
	add(&list, 0, 110, 20, 1);
	add(&list, 0, 120, 11, 2);
	add(&list, 1, 500, 99, 0);
	extent_index_encode(&list, 130, &out);
	assert_int_equal(extent_reader_open(buf_span(&out), &reader), 0);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(extent_reader_next(&reader, &fields, &counts), 1);
		assert_int_equal(fields.offset, kept[i]);
		assert_int_equal(counts.len, fields.nr_counts * sizeof(struct extent_count));
		for (uint32_t k = 0; k < fields.nr_counts; k++)
			assert_int_equal(((const struct extent_count *)counts.ptr)[k].nr, fields.offset + k);
	}
	assert_int_equal(extent_reader_next(&reader, &fields, &counts), 0);
	assert_int_equal(extent_reader_next(&reader, &fields, &counts), 0);
	/* Cut anywhere it ends by an error, and gives no more than it has. */
	for (size_t len = 0; len < out.len; len++) {
		int got = extent_reader_open((struct span){out.data, len}, &reader);
		assert_int_equal(got, len < 8 ? -EBADMSG : 0);
		while (!got || got == 1)
			got = len < 8 ? -EBADMSG : extent_reader_next(&reader, &fields, &counts);
		assert_int_equal(got, -EBADMSG);
	}
}

static void expect_refused(const struct extent_fields *fields)
{
	AUTO_BUF struct buf out = {0};
	struct extent_reader reader;
	struct extent_fields found;
	struct span counts;

	buf_put_u32(&out, EXTENT_INDEX_VERSION);
	buf_put_u32(&out, 1);
	buf_put(&out, fields, sizeof(*fields));
	assert_int_equal(extent_reader_open(buf_span(&out), &reader), 0);
	assert_int_equal(extent_reader_next(&reader, &found, &counts), -EBADMSG);
}

static void test_impossible_extents_are_refused(void **state)
{
	AUTO_BUF struct buf out = {0};
	struct extent_reader reader;

	(void)state;
	expect_refused(&(struct extent_fields){.offset = UINT64_MAX, .packed_bytes = 2});
	expect_refused(&(struct extent_fields){.first_ns = 2, .last_ns = 1});
	expect_refused(&(struct extent_fields){.nr_counts = 1});
	buf_put_u32(&out, EXTENT_INDEX_VERSION + 1);
	buf_put_u32(&out, 0);
	assert_int_equal(extent_reader_open(buf_span(&out), &reader), -EBADMSG);
}

static void test_names_of_parts(void **state)
{
	static const char *const others[] = {"data",    "data.",   "data.0.bak",      "data.00",
					     "data.07", "data.-1", "data.+1",         "data. 1",
					     "data.1 ", "date.1",  "data.4294967294", "data.18446744073709551616"};

	(void)state;
	assert_int_equal(extent_part_of("data.0"), 1);
	assert_int_equal(extent_part_of("data.10"), 11);
	assert_int_equal(extent_part_of("data.4294967293"), 4294967294);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_int_equal(extent_part_of(others[i]), EXTENT_NO_PART);
}

static void test_a_higher_level_has_larger_extents(void **state)
{
	static const size_t expected[] = {EXTENT_BYTES_SMALL, 4 << 20, 4 << 20, 8 << 20, 8 << 20, 8 << 20};

	(void)state;
	assert_int_equal(extent_bytes_for(-1), EXTENT_BYTES_SMALL);
	for (int level = 0; level < 6; level++)
		assert_int_equal(extent_bytes_for(level), expected[level]);
	for (int level = 6; level < 13; level++)
		assert_int_equal(extent_bytes_for(level), EXTENT_BYTES_MAX);
	assert_int_equal(extent_bytes_for(13), 4 << 20); /* each of them takes very long */
	assert_int_equal(extent_bytes_for(22), 4 << 20);
}

/* The kernel makes them too long, with old bytes behind what it wrote: those are no id and no time. */
static void test_records_that_are_too_long(void **state)
{
	enum { FIRST_ID = 5, SECOND_ID = 6, TIME = 1000, OLD = 64 };
	struct event_desc events[] = {
		{.attr = {.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER, .sample_id_all = 1},
		 .ids = (uint64_t[]){FIRST_ID},
		 .nr_ids = 1},
		{.attr = {.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER, .sample_id_all = 1},
		 .ids = (uint64_t[]){SECOND_ID},
		 .nr_ids = 1},
	};
	struct ksymbol {
		struct perf_event_header header;
		uint64_t address;
		uint32_t len;
		uint16_t kind, flags;
		char name[16];
		uint64_t time, id;
		uint8_t old[OLD];
	} ksymbol = {.header = {.type = PERF_RECORD_KSYMBOL, .size = sizeof(ksymbol)},
		     .name = "bpf_prog_1",
		     .time = TIME,
		     .id = SECOND_ID};
	struct bpf_event {
		struct perf_event_header header;
		uint16_t kind, flags;
		uint32_t program;
		uint8_t tag[8];
		uint64_t time, id;
		uint8_t old[OLD];
	} bpf_event = {.header = {.type = PERF_RECORD_BPF_EVENT, .size = sizeof(bpf_event)},
		       .time = TIME + 1,
		       .id = SECOND_ID};
	struct extent_stats *stats;
	AUTO_BUF struct buf records = {0};
	struct extent_info info = {0};

	(void)state;
	memset(ksymbol.old, 0x77, OLD);
	memset(bpf_event.old, 0x77, OLD);
	buf_put(&records, &ksymbol, sizeof(ksymbol));
	buf_put(&records, &bpf_event, sizeof(bpf_event));
	assert_int_equal(extent_stats_new(events, 2, &stats), 0);
	assert_int_equal(extent_stats_event_of(stats, (const uint8_t *)&ksymbol), 1);
	assert_int_equal(extent_stats_event_of(stats, (const uint8_t *)&bpf_event), 1);
	extent_stats_records(stats, buf_span(&records), &info);
	assert_int_equal(info.fields.first_ns, TIME);
	assert_int_equal(info.fields.last_ns, TIME + 1);
	free(info.counts);
	extent_stats_free(stats);
}

enum { NR_EVENTS = 3, NR_IDS = 40 };

/* 40 CPUs: more ids than are remembered. Events 0 and 2 have a raw field of their own behind what all have. */
static void make_events(struct event_desc events[NR_EVENTS], uint64_t ids[NR_EVENTS][NR_IDS])
{
	for (size_t i = 0; i < NR_EVENTS; i++) {
		for (size_t k = 0; k < NR_IDS; k++)
			ids[i][k] = 1000 + 17 * i + 100 * k;
		events[i] = (struct event_desc){
			.attr = {.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
						PERF_SAMPLE_TIME | (i == 1 ? 0 : PERF_SAMPLE_RAW),
				 .sample_id_all = true},
			.ids = ids[i],
			.nr_ids = NR_IDS,
		};
	}
}

/* Samples of all ids and of an unknown one, and each 50th record is another: with a loss, a throttling, a task's name.
 */
static void put_records(struct buf *records, uint64_t ids[NR_EVENTS][NR_IDS], uint32_t counts[NR_EVENTS])
{
	for (uint64_t i = 0; i < 2000; i++) {
		const size_t event = i % NR_EVENTS;
		uint64_t sample[5] = {i % 97 ? ids[event][i * i % NR_IDS] : 5, 0x1000 * i, 7,
				      1000000 + i * 7919 % 5000};
		uint64_t other[5] = {ids[2][1], 3, 9 | 9ULL << 32, 1000000 + 7,
				     ids[2][1]}; /* id, lost; tid, time, id */
		struct perf_event_header header = {PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(header) + 32};

		if (i % 50 == 49) {
			static const uint32_t kinds[] = {PERF_RECORD_LOST, PERF_RECORD_THROTTLE, PERF_RECORD_COMM};
			header = (struct perf_event_header){kinds[i / 50 % 3], 0, sizeof(header) + sizeof(other)};
			buf_put(records, &header, sizeof(header));
			buf_put(records, other, sizeof(other));
			continue;
		}
		counts[i % 97 ? event : 0]++;
		header.size = (uint16_t)(header.size + (event == 1 ? 0 : 8));
		buf_put(records, &header, sizeof(header));
		buf_put(records, sample, header.size - sizeof(header));
	}
}

/* As a stage does that goes through the records for its own purpose. */
static void tally_records(const struct extent_stats *stats, struct span records, struct extent_info *ret)
{
	struct perf_event_header header;
	struct extent_tally tally;

	assert_int_equal(extent_tally_begin(&tally, stats), 0);
	for (size_t at = 0; at < records.len; at += header.size) {
		const uint8_t *record = (const uint8_t *)records.ptr + at;
		uint64_t id, time_ns;
		memcpy(&header, record, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE) {
			extent_tally_record(&tally, record, &header);
			continue;
		}
		memcpy(&id, record + tally.id_offset, sizeof(id));
		memcpy(&time_ns, record + 32, sizeof(time_ns));
		extent_tally_id(&tally, id);
		extent_tally_samples(&tally, 1, time_ns, time_ns);
	}
	extent_tally_end(&tally, records.len, ret);
}

static void expect_info(const struct extent_info *info, const struct buf *records, const uint32_t counts[NR_EVENTS])
{
	const struct extent_fields expected = {
		.bytes = records->len,
		.first_ns = 1000000,
		.last_ns = 1004997,
		.lost = 14 * 3,
		.nr_records = 2000,
		.nr_others = 13,
		.nr_counts = NR_EVENTS,
	};

	assert_memory_equal(&info->fields, &expected, sizeof(expected));
	for (uint32_t i = 0; i < NR_EVENTS; i++) {
		assert_int_equal(info->counts[i].event, i);
		assert_int_equal(info->counts[i].nr, counts[i]);
	}
}

static void test_statistics_of_records(void **state)
{
	uint64_t ids[NR_EVENTS][NR_IDS];
	struct event_desc events[NR_EVENTS];
	AUTO_BUF struct buf records = {0};
	uint32_t counts[NR_EVENTS] = {0};
	struct extent_stats *stats;
	struct extent_info info;

	(void)state;
	make_events(events, ids);
	put_records(&records, ids, counts);
	assert_int_equal(extent_stats_new(events, NR_EVENTS, &stats), 0);
	extent_stats_records(stats, buf_span(&records), &info);
	expect_info(&info, &records, counts);
	free(info.counts);
	tally_records(stats, buf_span(&records), &info);
	expect_info(&info, &records, counts);
	free(info.counts);
	extent_stats_free(stats);
}

/* Of one event samples have no id, and all are its own. */
static void test_statistics_of_one_event(void **state)
{
	const struct event_desc event = {.attr = {.sample_type = PERF_SAMPLE_TIME}};
	const uint64_t sample[] = {PERF_RECORD_SAMPLE | 16ULL << 48, 77};
	AUTO_BUF struct buf records = {0};
	struct extent_stats *stats;
	struct extent_tally tally;
	struct extent_info info;

	(void)state;
	assert_int_equal(extent_stats_new(&event, 1, &stats), 0);
	for (int i = 0; i < 3; i++)
		buf_put(&records, sample, sizeof(sample));
	extent_stats_records(stats, buf_span(&records), &info);
	assert_int_equal(info.counts[0].nr, 3);
	free(info.counts);
	assert_int_equal(extent_tally_begin(&tally, stats), 0);
	assert_int_equal(tally.id_offset, -1);
	extent_tally_samples(&tally, 3, 77, 78);
	extent_tally_end(&tally, sizeof(sample), &info);
	assert_int_equal(info.counts[0].nr, 3);
	assert_int_equal(info.fields.last_ns, 78);
	free(info.counts);
	extent_stats_free(stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_are_joined_and_sorted),
		cmocka_unit_test(test_where_an_extent_starts),
		cmocka_unit_test(test_what_is_written_can_be_read),
		cmocka_unit_test(test_impossible_extents_are_refused),
		cmocka_unit_test(test_names_of_parts),
		cmocka_unit_test(test_a_higher_level_has_larger_extents),
		cmocka_unit_test(test_records_that_are_too_long),
		cmocka_unit_test(test_statistics_of_records),
		cmocka_unit_test(test_statistics_of_one_event),
	};

	return cmocka_run_group_tests_name("extent index", tests, NULL, NULL);
}
