/* SPDX-License-Identifier: MIT */
#include "compress/index_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/record.h"

enum {
	EXTENTS_MAX = 1 << 14,
	UNIT_BYTES = 1 << 20,
	LEAST_BYTES = 1 << 14,
};

int index_builder_new(struct index_builder **ret)
{
	struct index_builder *index_builder = calloc(1, sizeof(*index_builder));

	if (!index_builder)
		return -ENOMEM;
	index_builder->unit_bytes = UNIT_BYTES;
	index_builder->least_bytes = LEAST_BYTES;
	index_builder->fields = calloc(EXTENTS_MAX, sizeof(*index_builder->fields));
	if (!index_builder->fields) {
		free(index_builder);
		return -ENOMEM;
	}
	*ret = index_builder;
	return 0;
}

void index_builder_free(struct index_builder *index_builder)
{
	if (!index_builder)
		return;
	free(index_builder->fields);
	free(index_builder);
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
	a->nr_others += b->nr_others;
}

/* Every two that lie together become one. */
static void make_room(struct index_builder *index_builder)
{
	size_t nr = 0;

	for (size_t i = 0; i < index_builder->nr; nr++) {
		index_builder->fields[nr] = index_builder->fields[i++];
		if (i < index_builder->nr && can_join(&index_builder->fields[nr], &index_builder->fields[i]))
			join(&index_builder->fields[nr], &index_builder->fields[i++]);
	}
	index_builder->full = nr == index_builder->nr;
	index_builder->nr = nr;
	index_builder->unit_bytes *= 2;
	index_builder->least_bytes *= 2;
}

static void end_extent(struct index_builder *index_builder)
{
	struct extent_fields *now = &index_builder->now;
	uint32_t part = now->part;

	if (index_builder->nr == EXTENTS_MAX)
		make_room(index_builder);
	if (now->nr_records && now->packed_bytes && part != EXTENT_NO_PART && !index_builder->full) {
		if (now->first_ns > now->last_ns) { /* none has a time */
			now->first_ns = 0;
			now->last_ns = UINT64_MAX;
		}
		index_builder->fields[index_builder->nr++] = *now;
	}
	*now = (struct extent_fields){.part = part, .first_ns = UINT64_MAX};
	index_builder->now_packed = false;
	index_builder->now_end = 0;
}

void index_builder_part(struct index_builder *index_builder, uint32_t part)
{
	end_extent(index_builder);
	index_builder->now.part = part;
}

static bool is_other(uint32_t type)
{
	return type != PERF_RECORD_SAMPLE && type != PERF_RECORD_LOST && type != PERF_RECORD_THROTTLE &&
	       type != PERF_RECORD_UNTHROTTLE && type != RECORD_FINISHED_ROUND;
}

static void note(struct extent_fields *now, const uint8_t *record, const struct perf_event_header *header,
		 uint64_t time_ns)
{
	uint64_t lost;

	now->nr_records++;
	now->nr_others += is_other(header->type);
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

void index_builder_record(struct index_builder *index_builder, uint64_t offset, const uint8_t *record, uint64_t time_ns)
{
	struct extent_fields *now = &index_builder->now;
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	bool changes = (now->nr_others != 0) != is_other(header.type) && now->bytes >= index_builder->least_bytes;
	if (!now->nr_records || offset != index_builder->now_end || index_builder->now_packed || changes ||
	    now->bytes >= index_builder->unit_bytes) {
		end_extent(index_builder);
		now->offset = index_builder->now_end = offset;
	}
	note(now, record, &header, time_ns);
	now->bytes += header.size;
	now->packed_bytes = now->bytes;
	index_builder->now_end += header.size;
}

void index_builder_packed(struct index_builder *index_builder, uint64_t offset, uint16_t size, uint64_t frame_bytes)
{
	if (frame_bytes || !index_builder->now_packed || offset != index_builder->now_end) {
		end_extent(index_builder);
		index_builder->now_packed = true;
		index_builder->now.offset = index_builder->now_end = offset;
		/* No reader may enter the middle of a stream: of that nothing is kept. */
		index_builder->now.bytes = frame_bytes == UINT64_MAX ? 0 : frame_bytes;
	}
	index_builder->now_end += size;
	if (index_builder->now.bytes)
		index_builder->now.packed_bytes += size;
}

void index_builder_unpacked(struct index_builder *index_builder, const uint8_t *record, uint64_t time_ns)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	note(&index_builder->now, record, &header, time_ns);
}

int index_builder_list(struct index_builder *index_builder, struct extent_list *list)
{
	int err = 0;

	end_extent(index_builder);
	for (size_t i = 0; i < index_builder->nr && !index_builder->full && !err; i++) {
		struct extent_info info = {.fields = index_builder->fields[i]};
		err = extent_list_add(list, &info);
	}
	return err;
}
