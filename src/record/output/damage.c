/* SPDX-License-Identifier: MIT */
#include "record/output/damage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "compress/extent.h"
#include "compress/extent_index.h"
#include "compress/zstd.h"
#include "perfdata/attr.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/output/record_end.h"

enum {
	BACK_MAX = 1000,       /* times that the search goes back */
	LOOK_BYTES = 1 << 16,  /* in which an extent is searched for at a time */
	STREAM_BYTES = 1 << 20 /* of a stream that are decompressed at a time */
};

/* Whether readers take a record of the kernel: its event is one of the recording's, and what that samples fits in. */
struct record_check {
	const struct event_desc *events; /* borrowed */
	size_t nr_events;                /* 0: it takes all */
	struct sample_shape *shapes;     /* heap; of each event */
	struct hash_table ids;           /* of all events: to the index, plus 1 */
	int id_offset;                   /* in a sample; -1: there is no id */
	uint64_t *aligned;               /* heap; a record that is not */
};

/* One search; places are relative to the start of the range. */
struct damage_search {
	const struct damage_range *range;
	struct damage_list *found; /* borrowed */
	size_t first;              /* of it, that is of this range */
	struct record_walk walk;
	struct record_check check;
	struct progress progress;
	struct zstd_unpacker *unpacker, *stream; /* owned */
	uint8_t *unpacked;                       /* heap, EXTENT_BYTES_MAX */
	/* The extent whose COMPRESSED records come now: */
	bool gathering;
	struct buf frame;
	struct zstd_frame start;
	uint64_t frame_at;
	size_t blocks_end; /* of the blocks that are there */
	bool streaming;    /* what is compressed belongs to a stream, as perf writes it */
	uint64_t last;    /* where the record in front of walk.at begins; UINT64_MAX: none, or it is one of an extent */
	uint64_t trusted; /* behind the last extent that is whole, or damage: records from here on may have wrong sizes
			   */
	unsigned nr_back;
};

static int add_ids(struct record_check *check, size_t index)
{
	const struct event_desc *event = &check->events[index];

	for (size_t i = 0; i < event->nr_ids; i++)
		if (!hash_table_find(&check->ids, event->ids[i]) &&
		    hash_table_add_number(&check->ids, event->ids[i], index + 1))
			return -ENOMEM;
	return 0;
}

static int record_check_init(struct record_check *check, const struct event_desc *events, size_t nr_events)
{
	*check = (struct record_check){.events = events, .id_offset = -1};
	if (!nr_events)
		return 0;
	check->nr_events = nr_events;
	check->shapes = calloc(nr_events, sizeof(*check->shapes));
	check->aligned = malloc(RECORD_MAX_BYTES + 1);
	if (!check->shapes || !check->aligned)
		return -ENOMEM;
	check->id_offset = sample_id_offset(&events[0].attr);
	for (size_t i = 0; i < nr_events; i++) {
		check->shapes[i] = sample_shape(&events[i].attr);
		if (nr_events > 1 && add_ids(check, i))
			return -ENOMEM;
	}
	return 0;
}

static void record_check_fini(struct record_check *check)
{
	free(check->shapes);
	free(check->aligned);
	hash_table_fini(&check->ids);
	*check = (struct record_check){.id_offset = -1};
}

/* SIZE_MAX: of none. */
static size_t event_of_sample(const struct record_check *check, const void *record, size_t size)
{
	uint64_t id = 0;

	if (check->nr_events < 2 || check->id_offset < 0)
		return 0;
	if ((size_t)check->id_offset + sizeof(id) > size)
		return SIZE_MAX;
	memcpy(&id, (const uint8_t *)record + check->id_offset, sizeof(id));
	return id ? (size_t)hash_table_find_number(&check->ids, id) - 1 : 0;
}

/* `record`: header->size bytes, at any alignment. */
static bool record_check_passes(const struct record_check *check, const struct perf_event_header *header,
				const void *record)
{
	if (!check->nr_events || header->type >= RECORD_USER_FIRST)
		return true;
	if (header->type != PERF_RECORD_SAMPLE)
		return header->size - sizeof(*header) >= sample_id_bytes(&check->events[0].attr);
	const size_t event = event_of_sample(check, record, header->size);
	if (event >= check->nr_events)
		return false;
	if ((uintptr_t)record % sizeof(uint64_t))
		record = memcpy(check->aligned, record, header->size);
	return sample_is_whole(&check->events[event].attr, &check->shapes[event], record);
}

void damage_list_fini(struct damage_list *list)
{
	free(list->items);
	*list = (struct damage_list){0};
}

/* From `at` up to `end`; what touches the last one is added to that. */
static int add(struct damage_search *search, uint64_t at, uint64_t end, uint64_t record_bytes, enum damage_flags flags)
{
	struct damage_list *list = search->found;
	const struct damage_range *range = search->range;
	struct damage *last = list->nr > search->first ? &list->items[list->nr - 1] : NULL;

	if (last && last->offset + last->bytes >= range->offset + at) {
		last->bytes = range->offset + end - last->offset;
		last->record_bytes += record_bytes;
		last->flags = ((last->flags | flags) & DAMAGE_HIDES_RECORDS) | (last->flags & flags & DAMAGE_IS_ZERO);
		return 0;
	}
	if (array_room(list->items, list->nr, list->room))
		return -ENOMEM;
	list->items[list->nr++] = (struct damage){
		.offset = range->offset + at,
		.bytes = end - at,
		.record_bytes = record_bytes,
		.nr_samples = UINT64_MAX,
		.part = range->part,
		.flags = flags,
	};
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A COMPRESSED record that begins a frame. */
static bool begins_extent(struct record_walk *walk, uint64_t at)
{
	struct perf_event_header header;
	struct zstd_frame start;
	const uint8_t *bytes = record_walk_bytes(walk, at, sizeof(header));

	if (!bytes)
		return false;
	memcpy(&header, bytes, sizeof(header));
	if (header.type != RECORD_COMPRESSED || header.size <= sizeof(header))
		return false;
	bytes = record_walk_bytes(walk, at, header.size);
	return bytes && zstd_frame_start((struct span){bytes + sizeof(header), header.size - sizeof(header)}, &start);
}

/* The first frame's magic number in [at, at + len) whose record begins at `from` or later. UINT64_MAX: none. */
static uint64_t find_in_piece(struct record_walk *walk, uint64_t from, uint64_t at, size_t len)
{
	static const uint32_t magic = 0xfd2fb528; /* RFC 8878, 3.1.1 */
	const uint8_t *bytes = record_walk_bytes(walk, at, len), *hit;

	for (size_t skip = 0; bytes && (hit = memmem(bytes + skip, len - skip, &magic, sizeof(magic)));) {
		skip = (size_t)(hit - bytes) + 1;
		for (unsigned before = 0; before <= ZSTD_HASH_BYTES; before += ZSTD_HASH_BYTES) {
			const uint64_t payload = at + skip - 1 - before, header = sizeof(struct perf_event_header);
			if (payload >= from + header && payload <= walk->bytes && begins_extent(walk, payload - header))
				return payload - header;
		}
		bytes = record_walk_bytes(walk, at, len); /* begins_extent() may have read others */
	}
	return UINT64_MAX;
}

/* How many extents of the index begin at `at` or in front of it, or are of parts before. */
static size_t indexed_up_to(const struct damage_range *range, uint64_t at)
{
	const struct extent_list *list = range->extents;

	return partition_point(list->nr, i,
			       list->infos[i].fields.part < range->part ||
				       (list->infos[i].fields.part == range->part &&
					list->infos[i].fields.offset <= range->offset + at));
}

/* Where the extent begins, if it is one of this range; else UINT64_MAX. */
static uint64_t indexed_start(const struct damage_range *range, size_t i)
{
	const struct extent_fields *fields = i < range->extents->nr ? &range->extents->infos[i].fields : NULL;

	return fields && fields->part == range->part && fields->offset - range->offset < range->bytes
		       ? fields->offset - range->offset
		       : UINT64_MAX;
}

/* Where the extent that has the byte at `at` ends, by the index. UINT64_MAX: it has none there. */
static uint64_t indexed_end(const struct damage_range *range, uint64_t at)
{
	const size_t nr = indexed_up_to(range, at);
	const uint64_t start = nr ? indexed_start(range, nr - 1) : UINT64_MAX;

	if (start > at)
		return UINT64_MAX;
	const uint64_t bytes = range->extents->infos[nr - 1].fields.packed_bytes;
	return bytes > at - start && bytes <= range->bytes - start ? start + bytes : UINT64_MAX;
}

/* Where the next extent begins, behind `from`, in front of `limit` at least. UINT64_MAX: nowhere, or walk.err. */
static uint64_t next_extent(struct damage_search *search, uint64_t from, uint64_t limit)
{
	struct record_walk *walk = &search->walk;
	const uint64_t indexed = indexed_start(search->range, indexed_up_to(search->range, from));
	const uint64_t end = least(least(indexed, walk->bytes), limit);
	const size_t overlap = sizeof(uint32_t) - 1; /* of a magic number in two pieces */

	for (uint64_t at = from + 1; at < end && !walk->err; at += LOOK_BYTES) {
		uint64_t found = find_in_piece(walk, from + 1, at, least(LOOK_BYTES + overlap, walk->bytes - at));
		if (found != UINT64_MAX)
			return least(found, indexed);
		progress_step(&search->progress, LOOK_BYTES, at);
	}
	return walk->err ? UINT64_MAX : indexed;
}

static bool is_zero_from(struct record_walk *walk, uint64_t at, uint64_t end)
{
	for (uint64_t len; at < end; at += len) {
		len = least(LOOK_BYTES, end - at);
		const uint8_t *bytes = record_walk_bytes(walk, at, len);
		for (size_t i = 0; bytes && i < len; i++)
			if (bytes[i])
				return false;
	}
	return true;
}

/* Where records begin again behind damage at `from`. UINT64_MAX: that is not known, or walk.err. */
static uint64_t resume_at(struct damage_search *search, uint64_t from)
{
	/* Input that was made for it could send us back for ever. */
	const uint64_t behind = search->nr_back++ < BACK_MAX || from > search->walk.at ? from : search->walk.at;
	const uint64_t end = indexed_end(search->range, behind);

	return end != UINT64_MAX ? end : next_extent(search, behind, UINT64_MAX);
}

/* The bytes from `from` up to `to` are damaged. 1 or -ENOMEM. */
static int skip(struct damage_search *search, uint64_t from, uint64_t to, uint64_t record_bytes,
		enum damage_flags flags)
{
	int err = add(search, from, to, record_bytes, flags);

	search->gathering = search->streaming = false;
	search->trusted = to;
	search->walk.at = to;
	search->walk.chunk_end = 0;
	search->last = UINT64_MAX;
	return err ? err : 1;
}

/*
 * The record at walk.at, which ends at `end` by its header, is damaged. As step(). An extent that begins in it is not,
 * but the size in the header is.
 */
static int skip_record(struct damage_search *search, uint64_t end)
{
	const uint64_t from = search->walk.at, next = next_extent(search, from, end);

	if (search->walk.err)
		return search->walk.err;
	return next < end ? skip(search, from, next, 0, DAMAGE_HIDES_RECORDS) : skip(search, from, end, 0, 0);
}

/* A record, or an extent, of which the rest may have been behind the end. */
static bool is_cut_here(struct damage_search *search)
{
	struct record_walk *walk = &search->walk;
	const uint64_t left = walk->bytes - walk->at;
	struct perf_event_header header;

	if (left < sizeof(header))
		return true;
	const uint8_t *bytes = record_walk_bytes(walk, walk->at, sizeof(header));
	if (!bytes)
		return false;
	memcpy(&header, bytes, sizeof(header));
	return header.type && header.type <= RECORD_USER_LAST && header.size > left;
}

/*
 * A record of a wrong size may have led into an extent, where something looked like a record: the first one from
 * `trusted` on, by the headers, that has the start of an extent in it, in front of `limit`. false: there is none.
 */
static bool find_stepped_over(struct damage_search *search, uint64_t limit, uint64_t *ret_record, uint64_t *ret_extent)
{
	struct record_walk *walk = &search->walk;
	const uint64_t at = walk->at, chunk_at = walk->chunk_at, chunk_end = walk->chunk_end;
	uint64_t extent = next_extent(search, search->trusted, limit), bytes;
	struct perf_event_header header;
	bool found = false;

	walk->at = search->trusted;
	walk->chunk_end = 0;
	while (!found && extent < limit && record_walk_here(walk, &header, &bytes)) {
		if (extent <= walk->at) {
			extent = next_extent(search, walk->at, limit);
			continue;
		}
		found = extent < walk->at + bytes;
		*ret_record = walk->at;
		walk->at += bytes;
	}
	*ret_extent = extent;
	walk->at = at;
	walk->chunk_at = chunk_at;
	walk->chunk_end = chunk_end;
	return found;
}

/*
 * There is no record at walk.at; the damage begins at `from`. As step(). A recorder that died leaves zeroes where it
 * did not write: there the records end.
 */
static int pass_over(struct damage_search *search, uint64_t from, enum damage_flags flags)
{
	struct record_walk *walk = &search->walk;
	const struct damage_range *range = search->range;

	if (!range->finished && is_zero_from(walk, walk->at, least(walk->at + sizeof(uint64_t), walk->bytes)))
		return walk->err;
	const uint64_t next = resume_at(search, from);
	if (walk->err)
		return walk->err;
	if (next == UINT64_MAX && (!range->finished || (range->may_be_cut && is_cut_here(search))))
		return 0;
	uint64_t record, extent;
	if (search->nr_back < BACK_MAX && find_stepped_over(search, from, &record, &extent)) {
		search->nr_back++;
		return walk->err ? walk->err : skip(search, record, extent, 0, DAMAGE_HIDES_RECORDS);
	}
	if (!walk->err && next != UINT64_MAX)
		return skip(search, from, next, 0, flags);
	flags |= is_zero_from(walk, from, walk->bytes) ? DAMAGE_IS_ZERO : 0;
	return walk->err ? walk->err : skip(search, from, walk->bytes, 0, flags);
}

/* 1: the frame is as it was made; 0: it is not; -ENOMEM. */
static int check_frame(struct damage_search *search)
{
	const struct span frame = buf_span(&search->frame);
	int hashed = zstd_check_hash(frame);

	if (hashed != 0) /* decompressing would take ten times as long, and tell no more */
		return hashed > 0;
	int err = search->unpacker ? 0 : zstd_unpacker_new(&search->unpacker);
	if (err)
		return err;
	int64_t got = zstd_unpack_frame(search->unpacker, frame, search->unpacked, search->start.bytes);
	return got == -ENOMEM ? -ENOMEM : got == (int64_t)search->start.bytes;
}

/*
 * The extent that is gathered is damaged. As step(). Its end is not known where the sizes of its records may be wrong:
 * `end`, that by the last of them, is taken where there is no better one.
 */
static int leave_extent(struct damage_search *search, uint64_t end)
{
	const uint64_t next = resume_at(search, search->frame_at);

	if (search->walk.err)
		return search->walk.err;
	return skip(search, search->frame_at, next == UINT64_MAX ? end : next, search->start.bytes, 0);
}

/* All blocks of the frame are there; the record with the last of them ends at `end`. */
static int end_extent(struct damage_search *search, uint64_t end)
{
	if (search->blocks_end + search->start.checksum_bytes != search->frame.len)
		return leave_extent(search, end);
	int right = check_frame(search);
	if (right < 0)
		return right;
	if (!right)
		return skip(search, search->frame_at, end, search->start.bytes, 0);
	search->gathering = false;
	search->trusted = end;
	search->walk.at = end;
	return 1;
}

static int add_to_extent(struct damage_search *search, struct span payload, uint64_t end)
{
	struct buf *frame = &search->frame;
	bool last = false;
	size_t len;

	buf_put(frame, payload.ptr, payload.len);
	if (frame->failed)
		return -ENOMEM;
	while (!last && zstd_block((struct span){frame->data + search->blocks_end, frame->len - search->blocks_end},
				   &len, &last))
		search->blocks_end += len;
	/* What never ends would have been stored as it was. */
	if (last || frame->len > 2 * (search->start.bytes + EXTENT_PAYLOAD_MAX))
		return end_extent(search, end);
	search->walk.at = end;
	return 1;
}

static void begin_extent(struct damage_search *search, const struct zstd_frame *start)
{
	search->gathering = true;
	search->streaming = false;
	search->start = *start;
	search->frame.len = 0;
	search->frame_at = search->walk.at;
	search->blocks_end = start->header_bytes;
}

/*
 * The record up to `end` cannot be decompressed: nothing tells where in what follows of the stream a record begins. As
 * step(). One that was not written to its end is where the records end.
 */
static int leave_stream(struct damage_search *search, uint64_t end)
{
	struct record_walk *walk = &search->walk;
	const bool is_written = !is_zero_from(walk, end - sizeof(uint64_t), end);

	if (walk->err)
		return walk->err;
	return search->range->finished || !is_written ? pass_over(search, walk->at, 0) : skip_record(search, end);
}

static int add_to_stream(struct damage_search *search, struct span payload, bool restart, uint64_t end)
{
	if (!payload.ptr)
		return leave_stream(search, end);
	int64_t got = search->stream ? 0 : zstd_unpacker_new(&search->stream);
	if (got < 0)
		return (int)got;
	if (restart)
		zstd_unpack_reset(search->stream);
	search->streaming = true;
	do
		got = zstd_unpack(search->stream, &payload, search->unpacked, STREAM_BYTES);
	while (got > 0);
	if (got == -EBADMSG)
		return leave_stream(search, end);
	search->walk.at = end;
	return got < 0 ? (int)got : 1;
}

static bool is_compressed(const struct perf_event_header *header)
{
	return header->type == RECORD_COMPRESSED || header->type == RECORD_COMPRESSED2;
}

/* The bytes of a COMPRESSED or COMPRESSED2 record, which is there. NULL: there are fewer than it says. */
static struct span payload_of(struct record_walk *walk, const struct perf_event_header *header)
{
	const uint8_t *record = record_walk_bytes(walk, walk->at, header->size);
	struct span payload = {record ? record + sizeof(*header) : NULL, record ? header->size - sizeof(*header) : 0};
	uint64_t bytes;

	if (!record || header->type != RECORD_COMPRESSED2)
		return payload;
	/* u64 length of the data, the data, padding; in a chunk that length means nothing: struct record_compressed2 */
	struct cursor at = cursor_over(payload);
	bytes = cursor_u64(&at);
	if (walk->chunk_end > walk->at)
		bytes = cursor_left(&at);
	return !at.bad && bytes <= cursor_left(&at) ? (struct span){at.at, (size_t)bytes} : (struct span){0};
}

/* As step(): it is in no extent. Its size leads to another record, or that is damage as well. */
static int take_plain(struct damage_search *search, const struct perf_event_header *header, uint64_t end)
{
	struct record_walk *walk = &search->walk;
	const uint8_t *record = record_walk_bytes(walk, walk->at, header->size);

	if (!record)
		return walk->err;
	if (!record_check_passes(&search->check, header, record))
		return skip_record(search, end);
	walk->at = end;
	return 1;
}

/* As step(): of a record that is whole, by its header. */
static int take_record(struct damage_search *search, const struct perf_event_header *header, uint64_t end)
{
	const bool compressed = is_compressed(header);
	const struct span payload = payload_of(&search->walk, header);
	struct zstd_frame start;
	/* The address of a sample may look like the start of a frame. */
	const bool starts = header->type != PERF_RECORD_SAMPLE && zstd_frame_start(payload, &start);

	/* An extent is written in one piece, and the blocks of a frame do not begin like a frame. */
	if (search->gathering && (starts || !compressed || !payload.len))
		return leave_extent(search, search->walk.at);
	if (!compressed && !(starts && start.bytes <= EXTENT_BYTES_MAX))
		return take_plain(search, header, end);
	if (compressed && starts && start.bytes <= EXTENT_BYTES_MAX)
		begin_extent(search, &start);
	else if (compressed && (starts || (search->streaming && !search->gathering)))
		return add_to_stream(search, payload, starts, end);
	else if (!search->gathering) /* an extent that has lost its type, or the rest of one */
		return skip_record(search, end);
	return add_to_extent(search, payload, end);
}

/* 1: go on; 0: that was all; -errno. */
static int step(struct damage_search *search)
{
	struct record_walk *walk = &search->walk;
	const bool at_end = walk->at == walk->bytes;
	struct perf_event_header header;
	uint64_t bytes, from = walk->at;

	if (record_walk_here(walk, &header, &bytes) && header.type &&
	    (header.type <= RECORD_USER_LAST || search->range->has_unknown)) {
		progress_step(&search->progress, bytes, walk->at);
		search->last = is_compressed(&header) ? UINT64_MAX : walk->at;
		return take_record(search, &header, walk->at + bytes);
	}
	if (walk->err)
		return walk->err;
	if (at_end && !search->gathering)
		return 0;
	if (search->gathering)
		from = search->frame_at;
	else if (search->last != UINT64_MAX) /* that its size leads to no record is its own damage, as like as not */
		from = search->last;
	return pass_over(search, from, at_end ? 0 : DAMAGE_HIDES_RECORDS);
}

/* Where the index knows all of its extents, and what is in them: one that was made from the file does not. */
static void count_samples(const struct extent_list *extents, struct damage *damage)
{
	uint64_t nr = 0, known = 0;

	for (size_t i = 0; i < extents->nr; i++) {
		const struct extent_info *info = &extents->infos[i];
		if (info->fields.part != damage->part || info->fields.offset < damage->offset ||
		    info->fields.offset - damage->offset >= damage->bytes)
			continue;
		if (!info->fields.nr_counts && info->fields.nr_records > info->fields.nr_others)
			return;
		known += info->fields.packed_bytes;
		for (uint32_t k = 0; k < info->fields.nr_counts; k++)
			nr += info->counts[k].nr;
	}
	if (known >= damage->bytes)
		damage->nr_samples = nr;
}

int damage_find(const struct damage_range *range, struct damage_list *ret)
{
	struct damage_search search = {
		.range = range,
		.found = ret,
		.first = ret->nr,
		.last = UINT64_MAX,
		.progress = {.bytes = true, .total = range->bytes},
	};
	int go_on = zstd_available();

	if (go_on) {
		search.unpacked = malloc(EXTENT_BYTES_MAX);
		int err = record_walk_init(&search.walk, range->fd, range->offset, range->bytes);
		if (!err)
			err = record_check_init(&search.check, range->events, range->nr_events);
		go_on = err || !search.unpacked ? -ENOMEM : 1;
	}
	progress_start(&search.progress, "looking for damage");
	while (go_on > 0)
		go_on = step(&search);
	progress_end(&search.progress);
	for (size_t i = search.first; i < ret->nr; i++)
		count_samples(range->extents, &ret->items[i]);
	zstd_unpacker_free(search.unpacker);
	zstd_unpacker_free(search.stream);
	buf_fini(&search.frame);
	free(search.unpacked);
	record_check_fini(&search.check);
	record_walk_fini(&search.walk);
	return go_on;
}
