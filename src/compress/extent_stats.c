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

int extent_tally_begin(struct extent_tally *tally, const struct extent_stats *stats)
{
	*tally = (struct extent_tally){
		.stats = stats,
		.fields = {.first_ns = UINT64_MAX},
		.counts = calloc(stats->nr_events + 1, sizeof(*tally->counts)),
		.id_offset = stats->nr_events > 1 ? stats->id_offset : -1,
	};
	return tally->counts ? 0 : -ENOMEM;
}

void extent_tally_record(struct extent_tally *tally, const uint8_t *record, const struct perf_event_header *header)
{
	const struct extent_stats *stats = tally->stats;
	size_t event = event_of(stats, record, header);
	uint64_t lost;

	tally->fields.nr_records++;
	if (stats->nr_events)
		note_time(&stats->layouts[event], record, header, &tally->fields);
	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		if (tally->counts)
			tally->counts[event]++;
		break;
	case PERF_RECORD_LOST: /* id, lost */
		if (!u64_at(record, header, 16, &lost))
			tally->fields.lost += lost;
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE: break;
	default: tally->fields.nr_others++;
	}
}

void extent_tally_new_id(struct extent_tally *tally, uint64_t id)
{
	uint64_t event_plus_1 = hash_table_find_number(&tally->stats->ids, id);

	tally->known[id % KNOWN_EVENTS] = (struct known_event){id, event_plus_1 ? event_plus_1 - 1 : 0};
}

void extent_tally_samples(struct extent_tally *tally, uint64_t nr, uint64_t first_ns, uint64_t last_ns)
{
	tally->fields.nr_records += (uint32_t)nr;
	if (first_ns < tally->fields.first_ns)
		tally->fields.first_ns = first_ns;
	if (last_ns > tally->fields.last_ns)
		tally->fields.last_ns = last_ns;
	if (tally->id_offset < 0)
		tally->counts[0] += (uint32_t)nr;
}

static struct extent_fields final_fields(const struct extent_tally *tally, size_t bytes)
{
	struct extent_fields fields = tally->fields;

	fields.bytes = bytes;
	if (fields.first_ns > fields.last_ns) { /* none has a time */
		fields.first_ns = 0;
		fields.last_ns = UINT64_MAX;
	}
	return fields;
}

size_t extent_tally_room(const struct extent_tally *tally)
{
	size_t nr = 0;

	for (size_t i = 0; i < tally->stats->nr_events; i++)
		nr += tally->counts[i] != 0;
	return nr;
}

void extent_tally_read(const struct extent_tally *tally, size_t bytes, struct extent_count *counts,
		       struct extent_info *ret)
{
	uint32_t nr = 0;

	for (size_t i = 0; counts && i < tally->stats->nr_events; i++)
		if (tally->counts[i])
			counts[nr++] = (struct extent_count){(uint32_t)i, tally->counts[i]};
	*ret = (struct extent_info){.fields = final_fields(tally, bytes), .counts = counts};
	ret->fields.nr_counts = nr;
}

void extent_tally_end(struct extent_tally *tally, size_t bytes, struct extent_info *ret)
{
	size_t nr = tally->counts ? extent_tally_room(tally) : 0;

	extent_tally_read(tally, bytes, nr ? malloc(nr * sizeof(*ret->counts)) : NULL, ret);
	free(tally->counts);
}

void extent_tally_restart(struct extent_tally *tally)
{
	tally->fields = (struct extent_fields){.first_ns = UINT64_MAX};
	memset(tally->counts, 0, (tally->stats->nr_events + 1) * sizeof(*tally->counts));
}

void extent_tally_copy(struct extent_tally *to, const struct extent_tally *from)
{
	to->fields = from->fields;
	memcpy(to->counts, from->counts, (from->stats->nr_events + 1) * sizeof(*to->counts));
}

static uint64_t load_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/*
 * The samples that records begin with, as far as they are plain: most records of a recording. Returns their bytes.
 */
static size_t take_samples(struct extent_tally *tally, struct span records)
{
	/* Fetched while a record is looked at: an extent is not in a near cache, and a record has up to two lines. */
	enum { AHEAD_BYTES = 8192, LINE_BYTES = 64 };
	const struct extent_stats *stats = tally->stats;
	const uint8_t *bytes = records.ptr;
	uint64_t first_ns = UINT64_MAX, last_ns = 0, nr = 0;
	struct perf_event_header header;
	size_t at = 0;

	for (; records.len - at >= sizeof(header); at += header.size, nr++) {
		const uint8_t *record = bytes + at;
		__builtin_prefetch((const void *)((uintptr_t)record + AHEAD_BYTES));
		__builtin_prefetch((const void *)((uintptr_t)record + AHEAD_BYTES + LINE_BYTES));
		memcpy(&header, record, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size < stats->plain_bytes ||
		    header.size > records.len - at)
			break;
		uint64_t time_ns = load_u64(record + stats->time_offset);
		if (!time_ns)
			break;
		first_ns = time_ns < first_ns ? time_ns : first_ns;
		last_ns = time_ns > last_ns ? time_ns : last_ns;
		if (tally->id_offset >= 0)
			extent_tally_id(tally, load_u64(record + tally->id_offset));
	}
	if (nr)
		extent_tally_samples(tally, nr, first_ns, last_ns);
	return at;
}

void extent_stats_records(const struct extent_stats *stats, struct span records, struct extent_info *ret)
{
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;
	struct extent_tally tally;
	bool counts = !extent_tally_begin(&tally, stats);

	for (size_t at = 0; records.len - at >= sizeof(header); at += header.size) {
		if (counts)
			at += take_samples(&tally, (struct span){bytes + at, records.len - at});
		if (records.len - at < sizeof(header))
			break;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at) {
			tally.fields.first_ns = 0; /* no records: readers must not skip them */
			tally.fields.last_ns = UINT64_MAX;
			break;
		}
		extent_tally_record(&tally, bytes + at, &header);
	}
	extent_tally_end(&tally, records.len, ret);
}
