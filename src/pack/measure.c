/* SPDX-License-Identifier: MIT */
#include "pack/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "format/event_desc.h"
#include "format/record.h"
#include "format/sample.h"
#include "pack/extent_index.h"

struct layout {
	int time_offset, time_distance;
};

struct id_slot {
	uint64_t id;
	uint32_t event_plus_1; /* 0: free */
};

struct measure {
	int id_offset, id_distance;
	int time_offset;        /* of samples of all events; -1: they differ, or have none */
	uint32_t plain_bytes;   /* a sample of this size has an id and a time where they should be */
	size_t nr_events;
	struct layout *layouts; /* by event */
	struct id_slot *slots;  /* a power of two of them, at least half free */
	size_t mask;
};

void measure_free(struct measure *measure)
{
	if (!measure)
		return;
	free(measure->layouts);
	free(measure->slots);
	free(measure);
}

static struct id_slot *slot_of(const struct measure *measure, uint64_t id)
{
	size_t at = (size_t)(id * 0x9e3779b97f4a7c15ull >> 32);

	while (measure->slots[at & measure->mask].event_plus_1 && measure->slots[at & measure->mask].id != id)
		at++;
	return &measure->slots[at & measure->mask];
}

static int add_ids(struct measure *measure, const struct event_desc *events)
{
	size_t nr_ids = 0, nr_slots = 16;

	for (size_t i = 0; i < measure->nr_events; i++)
		nr_ids += events[i].nr_ids;
	while (nr_slots < 2 * nr_ids)
		nr_slots *= 2;
	measure->mask = nr_slots - 1;
	measure->slots = calloc(nr_slots, sizeof(*measure->slots));
	if (!measure->slots)
		return -ENOMEM;
	for (size_t i = 0; i < measure->nr_events; i++)
		for (size_t k = 0; k < events[i].nr_ids; k++)
			*slot_of(measure, events[i].ids[k]) = (struct id_slot){events[i].ids[k], (uint32_t)i + 1};
	return 0;
}

/* Most records are samples that have all at the same places. */
static void set_plain(struct measure *measure)
{
	int time_offset = measure->nr_events ? measure->layouts[0].time_offset : -1, id_offset = measure->id_offset;

	for (size_t i = 1; i < measure->nr_events; i++)
		if (measure->layouts[i].time_offset != time_offset)
			time_offset = -1;
	measure->plain_bytes = UINT32_MAX;
	if (time_offset < (int)sizeof(struct perf_event_header) ||
	    (measure->nr_events > 1 && id_offset < (int)sizeof(struct perf_event_header)))
		return;
	measure->time_offset = time_offset;
	measure->plain_bytes = (uint32_t)(time_offset > id_offset ? time_offset : id_offset) + sizeof(uint64_t);
}

int measure_new(const struct event_desc *events, size_t nr_events, struct measure **ret)
{
	struct measure *measure = calloc(1, sizeof(*measure));

	if (!measure)
		return -ENOMEM;
	measure->nr_events = nr_events;
	measure->layouts = calloc(nr_events + 1, sizeof(*measure->layouts));
	measure->id_offset = nr_events ? sample_id_offset(&events[0].attr) : -1;
	measure->id_distance = nr_events ? sample_id_distance(&events[0].attr) : -1;
	if (!measure->layouts || add_ids(measure, events)) {
		measure_free(measure);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nr_events; i++)
		measure->layouts[i] = (struct layout){sample_time_offset(&events[i].attr),
						      sample_time_distance(&events[i].attr)};
	set_plain(measure);
	*ret = measure;
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

static size_t event_of(const struct measure *measure, const uint8_t *record, const struct perf_event_header *header)
{
	bool is_sample = header->type == PERF_RECORD_SAMPLE;
	int at = is_sample ? measure->id_offset : measure->id_distance < 0 ? -1 : header->size - measure->id_distance;
	uint64_t id;

	if (measure->nr_events < 2 || u64_at(record, header, at, &id))
		return 0;
	uint32_t event_plus_1 = slot_of(measure, id)->event_plus_1;
	return event_plus_1 ? event_plus_1 - 1 : 0;
}

size_t measure_event_of(const struct measure *measure, const uint8_t *record)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	return event_of(measure, record, &header);
}

static void note_time(const struct layout *layout, const uint8_t *record, const struct perf_event_header *header,
		      struct extent_fields *fields)
{
	bool is_sample = header->type == PERF_RECORD_SAMPLE;
	int at = is_sample ? layout->time_offset : layout->time_distance < 0 ? -1 : header->size - layout->time_distance;
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

static void take(const struct measure *measure, const uint8_t *record, const struct perf_event_header *header,
		 uint32_t *counts, struct extent_fields *fields)
{
	size_t event = event_of(measure, record, header);
	uint64_t lost;

	fields->nr_records++;
	if (measure->nr_events)
		note_time(&measure->layouts[event], record, header, fields);
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
	case PERF_RECORD_UNTHROTTLE:
		break;
	default:
		fields->nr_world++;
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

/*
 * The samples that records begin with, as far as they are plain: each record of a recording passes here. Returns their
 * bytes.
 */
static size_t take_samples(const struct measure *measure, struct span records, uint32_t *counts,
			   struct extent_fields *fields)
{
	const uint8_t *bytes = records.ptr;
	const bool has_ids = measure->nr_events > 1;
	uint64_t first_ns = fields->first_ns, last_ns = fields->last_ns, nr = 0;
	struct perf_event_header header;
	size_t at = 0;

	for (; records.len - at >= sizeof(header); at += header.size, nr++) {
		const uint8_t *record = bytes + at;
		memcpy(&header, record, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size < measure->plain_bytes || header.size > records.len - at)
			break;
		uint64_t time_ns = load_u64(record + measure->time_offset);
		uint32_t event_plus_1 = has_ids ? slot_of(measure, load_u64(record + measure->id_offset))->event_plus_1 : 1;
		if (!time_ns)
			break;
		first_ns = time_ns < first_ns ? time_ns : first_ns;
		last_ns = time_ns > last_ns ? time_ns : last_ns;
		counts[event_plus_1 ? event_plus_1 - 1 : 0]++;
	}
	fields->first_ns = first_ns;
	fields->last_ns = last_ns;
	fields->nr_records += nr;
	return at;
}

void measure_records(const struct measure *measure, struct span records, struct extent_info *ret)
{
	AUTO_FREE uint32_t *counts = calloc(measure->nr_events + 1, sizeof(*counts));
	struct extent_info info = {.fields = {.bytes = records.len, .first_ns = UINT64_MAX}};
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;

	for (size_t at = 0; records.len - at >= sizeof(header); at += header.size) {
		if (counts)
			at += take_samples(measure, (struct span){bytes + at, records.len - at}, counts, &info.fields);
		if (records.len - at < sizeof(header))
			break;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at) {
			info.fields.first_ns = 0; /* no records: nobody may skip them */
			info.fields.last_ns = UINT64_MAX;
			break;
		}
		take(measure, bytes + at, &header, counts, &info.fields);
	}
	if (info.fields.first_ns > info.fields.last_ns) { /* none has a time */
		info.fields.first_ns = 0;
		info.fields.last_ns = UINT64_MAX;
	}
	if (counts)
		keep_counts(counts, measure->nr_events, &info);
	*ret = info;
}
