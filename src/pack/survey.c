/* SPDX-License-Identifier: MIT */
#include "pack/survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/record.h"

enum {
	EXTENTS_MAX = 1 << 14,
	UNIT_BYTES = 1 << 20,
	LEAST_BYTES = 1 << 14,
};

int survey_new(struct survey **ret)
{
	struct survey *survey = calloc(1, sizeof(*survey));

	if (!survey)
		return -ENOMEM;
	survey->unit_bytes = UNIT_BYTES;
	survey->least_bytes = LEAST_BYTES;
	survey->fields = calloc(EXTENTS_MAX, sizeof(*survey->fields));
	if (!survey->fields) {
		free(survey);
		return -ENOMEM;
	}
	*ret = survey;
	return 0;
}

void survey_free(struct survey *survey)
{
	if (!survey)
		return;
	free(survey->fields);
	free(survey);
}

static bool can_join(const struct extent_fields *a, const struct extent_fields *b)
{
	bool plain = a->bytes == a->packed_bytes && b->bytes == b->packed_bytes;

	return plain && a->part == b->part && a->offset + a->packed_bytes == b->offset;
}

static void join(struct extent_fields *a, const struct extent_fields *b)
{
	a->packed_bytes += b->packed_bytes;
	a->bytes += b->bytes;
	a->first_ns = a->first_ns < b->first_ns ? a->first_ns : b->first_ns;
	a->last_ns = a->last_ns > b->last_ns ? a->last_ns : b->last_ns;
	a->lost += b->lost;
	a->nr_records += b->nr_records;
	a->nr_world += b->nr_world;
}

/* Every two that lie together become one. */
static void make_room(struct survey *survey)
{
	size_t nr = 0;

	for (size_t i = 0; i < survey->nr; nr++) {
		survey->fields[nr] = survey->fields[i++];
		if (i < survey->nr && can_join(&survey->fields[nr], &survey->fields[i]))
			join(&survey->fields[nr], &survey->fields[i++]);
	}
	survey->full = nr == survey->nr;
	survey->nr = nr;
	survey->unit_bytes *= 2;
	survey->least_bytes *= 2;
}

static void end_extent(struct survey *survey)
{
	struct extent_fields *now = &survey->now;
	uint32_t part = now->part;

	if (survey->nr == EXTENTS_MAX)
		make_room(survey);
	if (now->nr_records && now->packed_bytes && !survey->full) {
		if (now->first_ns > now->last_ns) { /* none has a time */
			now->first_ns = 0;
			now->last_ns = UINT64_MAX;
		}
		survey->fields[survey->nr++] = *now;
	}
	*now = (struct extent_fields){.part = part, .first_ns = UINT64_MAX};
	survey->now_packed = false;
	survey->now_end = 0;
}

void survey_part(struct survey *survey, uint32_t part)
{
	end_extent(survey);
	survey->now.part = part;
}

static bool is_world(uint32_t type)
{
	return type != PERF_RECORD_SAMPLE && type != PERF_RECORD_LOST && type != PERF_RECORD_THROTTLE &&
	       type != PERF_RECORD_UNTHROTTLE && type != RECORD_FINISHED_ROUND;
}

static void note(struct extent_fields *now, const uint8_t *record, const struct perf_event_header *header, uint64_t time_ns)
{
	uint64_t lost;

	now->nr_records++;
	now->nr_world += is_world(header->type);
	if (header->type == PERF_RECORD_LOST && header->size >= 24) { /* id, lost */
		memcpy(&lost, record + 16, sizeof(lost));
		now->lost += lost;
	}
	if (time_ns) {
		now->first_ns = time_ns < now->first_ns ? time_ns : now->first_ns;
		now->last_ns = time_ns > now->last_ns ? time_ns : now->last_ns;
	} else if (header->type != RECORD_FINISHED_ROUND) {
		now->first_ns = 0;
		now->last_ns = UINT64_MAX;
	}
}

void survey_record(struct survey *survey, uint64_t offset, const uint8_t *record, uint64_t time_ns)
{
	struct extent_fields *now = &survey->now;
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	bool changes = (now->nr_world != 0) != is_world(header.type) && now->bytes >= survey->least_bytes;
	if (!now->nr_records || offset != survey->now_end || survey->now_packed || changes || now->bytes >= survey->unit_bytes) {
		end_extent(survey);
		now->offset = survey->now_end = offset;
	}
	note(now, record, &header, time_ns);
	now->bytes += header.size;
	now->packed_bytes = now->bytes;
	survey->now_end += header.size;
}

void survey_packed(struct survey *survey, uint64_t offset, uint16_t size, uint64_t frame_bytes)
{
	if (frame_bytes || !survey->now_packed || offset != survey->now_end) {
		end_extent(survey);
		survey->now_packed = true;
		survey->now.offset = survey->now_end = offset;
		/* Nobody may enter the middle of a stream: of that nothing is kept. */
		survey->now.bytes = frame_bytes == UINT64_MAX ? 0 : frame_bytes;
	}
	survey->now_end += size;
	if (survey->now.bytes)
		survey->now.packed_bytes += size;
}

void survey_unpacked(struct survey *survey, const uint8_t *record, uint64_t time_ns)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	note(&survey->now, record, &header, time_ns);
}

int survey_list(struct survey *survey, struct extent_list *list)
{
	int err = 0;

	end_extent(survey);
	for (size_t i = 0; i < survey->nr && !survey->full && !err; i++) {
		struct extent_info info = {.fields = survey->fields[i]};
		err = extent_list_add(list, &info);
	}
	return err;
}
