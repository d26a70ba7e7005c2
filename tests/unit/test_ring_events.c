/* SPDX-License-Identifier: MIT */
/* What is found of records in a ring without decoding them: the same as decoding finds. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "perfdata/attr.h"
#include "perfdata/sample.h"
#include "record/order/ring_events.h"

static const uint64_t fields[] = {PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TID, PERF_SAMPLE_ID,   PERF_SAMPLE_STREAM_ID,
				  PERF_SAMPLE_CPU,        PERF_SAMPLE_IP,  PERF_SAMPLE_ADDR, PERF_SAMPLE_PERIOD};

enum { NR_FIELDS = sizeof(fields) / sizeof(fields[0]), WORDS = 12 };

static void check_sample(const struct ring_events *events, const struct perf_event_attr *attr,
			 const struct perf_event_header *record)
{
	const struct ring_record found = ring_events_look(events, (const uint8_t *)record, record);
	struct sample sample;

	assert_int_equal(ring_events_time(events, (const uint8_t *)record, record), found.time_ns);
	if (sample_decode(attr, record, &sample))
		return;
	assert_int_equal(found.time_ns, sample.time);
	/* Of IDENTIFIER and ID, which are the same in a record of the kernel, the first. */
	if (!(attr->sample_type & PERF_SAMPLE_IDENTIFIER) || !(attr->sample_type & PERF_SAMPLE_ID))
		assert_int_equal(found.id, sample.id);
}

static void check_other(const struct ring_events *events, const struct perf_event_attr *attr,
			const struct perf_event_header *record)
{
	const struct ring_record found = ring_events_look(events, (const uint8_t *)record, record);
	const bool has_both = attr->sample_type & PERF_SAMPLE_IDENTIFIER && attr->sample_type & PERF_SAMPLE_ID;
	struct ring_place place;
	struct sample sample;
	const bool can = !sample_id_decode(attr, record, &sample);

	assert_int_equal(ring_events_place(events, (const uint8_t *)record, record, &place), can);
	if (!can)
		return;
	assert_int_equal(place.pid, sample.pid);
	assert_int_equal(place.tid, sample.tid);
	assert_int_equal(place.cpu, sample.cpu);
	assert_int_equal(found.time_ns, sample.time);
	if (!has_both)
		assert_int_equal(found.id, sample.id);
}

static void test_found_is_what_is_decoded(void **state)
{
	static const uint32_t types[] = {PERF_RECORD_SWITCH,  PERF_RECORD_FORK,      PERF_RECORD_LOST,
					 PERF_RECORD_KSYMBOL, PERF_RECORD_BPF_EVENT, PERF_RECORD_TEXT_POKE};
	union {
		struct perf_event_header header;
		uint64_t words[WORDS];
	} record;

	(void)state;
	for (unsigned mask = 0; mask < 1u << NR_FIELDS; mask++) {
		struct event_desc desc = {.attr = {.sample_type = PERF_SAMPLE_TIME, .sample_id_all = 1}};
		for (unsigned i = 0; i < NR_FIELDS; i++)
			desc.attr.sample_type |= mask >> i & 1 ? fields[i] : 0;
		struct ring_events events = {0};
		assert_int_equal(ring_events_init(&events, &desc, 1), 0);
		for (unsigned words = 1; words <= WORDS; words++) {
			for (unsigned i = 1; i < WORDS; i++)
				record.words[i] = 0x0001000200030004ull * i;
			record.header =
				(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = (uint16_t)(8 * words)};
			check_sample(&events, &desc.attr, &record.header);
			for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
				record.header.type = types[i];
				check_other(&events, &desc.attr, &record.header);
			}
		}
		ring_events_fini(&events);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_found_is_what_is_decoded)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
