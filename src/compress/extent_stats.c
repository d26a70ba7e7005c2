/* SPDX-License-Identifier: MIT */
#include "compress/extent_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "compress/extent_index.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

struct layout {
	int time_offset, time_distance;
	size_t trailer_bytes;
};

struct extent_stats {
	int id_offset, id_distance;
	int time_offset;      /* of samples of all events; -1: they differ, or have none */
	uint32_t plain_bytes; /* a sample of this size has an id and a time where they should be */
	size_t nr_events;
	struct layout *layouts; /* by event */
	struct hash_table ids;  /* to the event, plus 1 */
};

void extent_stats_free(struct extent_stats *stats)
{
	if (!stats)
		return;
	free(stats->layouts);
	hash_table_fini(&stats->ids);
	free(stats);
}

static int add_ids(struct extent_stats *stats, const struct event_desc *events)
{
	for (size_t i = 0; i < stats->nr_events; i++)
		for (size_t k = 0; k < events[i].nr_ids; k++)
			if (!hash_table_find(&stats->ids, events[i].ids[k]) &&
			    hash_table_add_number(&stats->ids, events[i].ids[k], i + 1))
				return -ENOMEM;
	return 0;
}

/* Most records are samples that have all at the same places. */
static void set_plain(struct extent_stats *stats)
{
	int time_offset = stats->nr_events ? stats->layouts[0].time_offset : -1, id_offset = stats->id_offset;

	for (size_t i = 1; i < stats->nr_events; i++)
		if (stats->layouts[i].time_offset != time_offset)
			time_offset = -1;
	stats->plain_bytes = UINT32_MAX;
	if (time_offset < (int)sizeof(struct perf_event_header) ||
	    (stats->nr_events > 1 && id_offset < (int)sizeof(struct perf_event_header)))
		return;
	stats->time_offset = time_offset;
	stats->plain_bytes = (uint32_t)(time_offset > id_offset ? time_offset : id_offset) + sizeof(uint64_t);
}

int extent_stats_new(const struct event_desc *events, size_t nr_events, struct extent_stats **ret)
{
	struct extent_stats *stats = calloc(1, sizeof(*stats));

	if (!stats)
		return -ENOMEM;
	stats->nr_events = nr_events;
	stats->layouts = calloc(nr_events + 1, sizeof(*stats->layouts));
	stats->id_offset = nr_events ? sample_id_offset(&events[0].attr) : -1;
	stats->id_distance = nr_events ? sample_id_distance(&events[0].attr) : -1;
	if (!stats->layouts || add_ids(stats, events)) {
		extent_stats_free(stats);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_events; i++)
		stats->layouts[i] =
			(struct layout){sample_time_offset(&events[i].attr), sample_time_distance(&events[i].attr),
					sample_id_bytes(&events[i].attr)};
	set_plain(stats);
	*ret = stats;
	return 0;
}

/* -1: there is none at that place. */
static int64_t u64_at(const uint8_t *record, const struct perf_event_header *header, int at, uint64_t *ret)
{
	if (at < (int)sizeof(*header) || at + (int)sizeof(*ret) > header->size)
		return -1;
	memcpy(ret, record + at, sizeof(*ret));
	return 0;
}

static size_t event_of(const struct extent_stats *stats, const uint8_t *record, const struct perf_event_header *header)
{
	bool is_sample = header->type == PERF_RECORD_SAMPLE;
	uint64_t id;

	if (stats->nr_events < 2)
		return 0;
	int at = is_sample ? stats->id_offset
			   : sample_id_field(record, stats->layouts[0].trailer_bytes, stats->id_distance);
	if (u64_at(record, header, at, &id))
		return 0;
	uint64_t event_plus_1 = hash_table_find_number(&stats->ids, id);
	return event_plus_1 ? event_plus_1 - 1 : 0;
}

size_t extent_stats_event_of(const struct extent_stats *stats, const uint8_t *record)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	return event_of(stats, record, &header);
}

static void note_time(const struct layout *layout, const uint8_t *record, const struct perf_event_header *header,
		      struct extent_fields *fields)
{
	bool is_sample = header->type == PERF_RECORD_SAMPLE;
	int at =
		is_sample ? layout->time_offset : sample_id_field(record, layout->trailer_bytes, layout->time_distance);
	uint64_t time_ns;

	if (u64_at(record, header, at, &time_ns) || !time_ns) {
		fields->first_ns = 0;
		fields->last_ns = UINT64_MAX;
		return;
	}
	if (time_ns < fields->first_ns)
		fields->first_ns = time_ns;
	if (time_ns > fields->last_ns)
		fields->last_ns = time_ns;
}

static void take(const struct extent_stats *stats, const uint8_t *record, const struct perf_event_header *header,
		 uint32_t *counts, struct extent_fields *fields)
{
	size_t event = event_of(stats, record, header);
	uint64_t lost;

	fields->nr_records++;
	if (stats->nr_events)
		note_time(&stats->layouts[event], record, header, fields);
	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		if (counts)
			counts[event]++;
		break;
	case PERF_RECORD_LOST: /* id, lost */
		if (!u64_at(record, header, 16, &lost))
			fields->lost += lost;
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE: break;
	default: fields->nr_others++;
	}
}

static void keep_counts(const uint32_t *counts, size_t nr_events, struct extent_info *info)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < nr_events; i++)
		nr += counts[i] != 0;
	info->counts = nr ? malloc(nr * sizeof(*info->counts)) : NULL;
	if (!info->counts)
		return;
	for (size_t i = 0; i < nr_events; i++)
		if (counts[i])
			info->counts[info->fields.nr_counts++] = (struct extent_count){(uint32_t)i, counts[i]};
}

static uint64_t load_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* Events of ids that came before, by their lowest bits: most records of an extent are of few events and CPUs. */
struct known_event {
	uint64_t id; /* 0, which is that of no event: none */
	size_t event;
};
enum { KNOWN_EVENTS = 16 };

static size_t known_event(const struct extent_stats *stats, struct known_event *known, uint64_t id)
{
	struct known_event *slot = &known[id % KNOWN_EVENTS];

	if (slot->id != id) {
		uint64_t event_plus_1 = hash_table_find_number(&stats->ids, id);
		*slot = (struct known_event){id, event_plus_1 ? event_plus_1 - 1 : 0};
	}
	return slot->event;
}

/*
 * The samples that records begin with, as far as they are plain: each record of a recording passes here. Returns their
 * bytes.
 */
static size_t take_samples(const struct extent_stats *stats, struct span records, struct known_event *known,
			   uint32_t *counts, struct extent_fields *fields)
{
	const uint8_t *bytes = records.ptr;
	const bool has_ids = stats->nr_events > 1;
	uint64_t first_ns = fields->first_ns, last_ns = fields->last_ns, nr = 0;
	struct perf_event_header header;
	size_t at = 0;

	for (; records.len - at >= sizeof(header); at += header.size, nr++) {
		const uint8_t *record = bytes + at;
		memcpy(&header, record, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size < stats->plain_bytes ||
		    header.size > records.len - at)
			break;
		uint64_t time_ns = load_u64(record + stats->time_offset);
		if (!time_ns)
			break;
		first_ns = time_ns < first_ns ? time_ns : first_ns;
		last_ns = time_ns > last_ns ? time_ns : last_ns;
		counts[has_ids ? known_event(stats, known, load_u64(record + stats->id_offset)) : 0]++;
	}
	fields->first_ns = first_ns;
	fields->last_ns = last_ns;
	fields->nr_records += nr;
	return at;
}

void extent_stats_records(const struct extent_stats *stats, struct span records, struct extent_info *ret)
{
	AUTO_FREE uint32_t *counts = calloc(stats->nr_events + 1, sizeof(*counts));
	struct extent_info info = {.fields = {.bytes = records.len, .first_ns = UINT64_MAX}};
	struct known_event known[KNOWN_EVENTS] = {0};
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;

	for (size_t at = 0; records.len - at >= sizeof(header); at += header.size) {
		if (counts)
			at += take_samples(stats, (struct span){bytes + at, records.len - at}, known, counts,
					   &info.fields);
		if (records.len - at < sizeof(header))
			break;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at) {
			info.fields.first_ns = 0; /* no records: readers must not skip them */
			info.fields.last_ns = UINT64_MAX;
			break;
		}
		take(stats, bytes + at, &header, counts, &info.fields);
	}
	if (info.fields.first_ns > info.fields.last_ns) { /* none has a time */
		info.fields.first_ns = 0;
		info.fields.last_ns = UINT64_MAX;
	}
	if (counts)
		keep_counts(counts, stats->nr_events, &info);
	*ret = info;
}
