/* SPDX-License-Identifier: MIT */
/*
 * Decompresses on the fly. What comes from below is queued in its order; frames that say how much they hold, as those
 * of extents do, are decompressed while the source reads on. A stream without such sizes, as perf writes it, is one
 * frame from the first record to the last: it is decompressed record by record when its turn comes.
 *
 * Records of a frame need not be whole: what is left over of one belongs before the next.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash_table.h"
#include "compress/extent.h"
#include "compress/zstd.h"
#include "read/source.h"
#include "read/unpack_pool.h"

enum {
	QUEUE_ITEMS = 64,
	CARRY_BYTES = 1 << 16, /* of a record that is not whole, in front of what comes next */
	LEAST_ROOM = 1 << 14,
	LOST_MAX = 1000,
	AHEAD_BYTES = 64 << 20, /* of records that are being decompressed */
	LARGE_BLOCK_BYTES = 16 << 20,
	NR_FOUND = 128,
};

enum item_kind { ITEM_PLAIN, ITEM_EXTENT, ITEM_STREAM, ITEM_GAP };

struct item {
	enum item_kind kind;
	struct source_record record; /* PLAIN, STREAM: held */
	struct span payload;         /* STREAM: compressed bytes of it */
	bool restart;                /* STREAM: a frame begins */
	struct unpack_job *job;      /* EXTENT: owned; NULL in other items and in unused ones */
	struct arena_block *block;   /* EXTENT: held */
	struct diag why;             /* GAP */
};

/* Memory for records. */
struct unpack_room {
	struct arena arena;
	struct hash_table blocks; /* of the arena, by address */
};

/* Where a MiB of memory is. */
struct unpack_found {
	uintptr_t mib;
	struct unpack_room *room;
};

struct source_unpack {
	struct source source;
	struct source *under; /* owned */
	bool ahead;
	struct unpack_pool *workers; /* NULL: nothing compressed came yet */
	struct unpack_pool *shared;  /* borrowed; NULL: they are our own */
	size_t nr_sharing;
	struct unpack_helper helper;
	size_t max_extents;
	struct unpack_room small, large; /* small: of extents up to EXTENT_BYTES_SMALL; large: of longer ones */
	struct unpack_found found[NR_FOUND];

	struct item items[QUEUE_ITEMS];
	size_t first, nr, nr_extents;
	uint64_t extent_bytes;   /* that those hold */
	uint64_t read_offset;    /* of the record that was read last */
	uint64_t none_from;      /* from this offset on there is no extent; UINT64_MAX: not known */
	size_t nr_lost;          /* extents */
	bool gathering;          /* the last item is an EXTENT that is not whole */
	bool streaming;          /* what is compressed belongs to a stream */
	bool has_trailing_bytes; /* the last record has bytes outside, which the next call takes away */
	bool ended;
	int result;
	struct diag why;
	struct unpack_job *spare;

	/* What is given now. */
	struct arena_block *block; /* held; NULL: none */
	uint8_t *at, *end;         /* records, the last of which may not be whole */
	uint64_t offset;           /* for messages about them */
	uint8_t *carry;            /* heap, CARRY_BYTES */
	size_t carry_len;
	struct zstd_unpacker *stream;
	struct item input; /* STREAM whose payload is not empty, or its record is held */
	bool has_input;
	const void *passed; /* a plain record that was queued: held until the next call */
};

static struct source_unpack *unpack_of(struct source *source)
{
	return (struct source_unpack *)source;
}

static bool is_in(const struct unpack_room *room, const void *record)
{
	return hash_table_find(&room->blocks, (uintptr_t)record / arena_block_bytes(&room->arena));
}

/* NULL: none of ours. What was found stays true: blocks are freed at the end only. */
static struct unpack_room *room_of(struct source_unpack *unpack, const void *record)
{
	uintptr_t mib = (uintptr_t)record / ARENA_BLOCK_BYTES;
	struct unpack_found *found = &unpack->found[mib % NR_FOUND];

	if (found->room && found->mib == mib)
		return found->room;
	struct unpack_room *room = is_in(&unpack->large, record)   ? &unpack->large
				   : is_in(&unpack->small, record) ? &unpack->small
								   : NULL;
	if (room)
		*found = (struct unpack_found){mib, room};
	return room;
}

static void unpack_hold(struct source *source, const void *record)
{
	struct unpack_room *room = room_of(unpack_of(source), record);

	if (room)
		arena_hold(&room->arena, record);
	else
		source_hold(unpack_of(source)->under, record);
}

static void unpack_release(struct source *source, const void *record)
{
	struct unpack_room *room = room_of(unpack_of(source), record);

	if (room)
		arena_release(&room->arena, record);
	else
		source_release(unpack_of(source)->under, record);
}

static void job_free(struct unpack_job *job)
{
	if (job)
		free(job->packed);
	free(job);
}

static void room_fini(struct unpack_room *room)
{
	arena_fini(&room->arena);
	hash_table_fini(&room->blocks);
}

static void stop_jobs(struct source_unpack *unpack)
{
	if (!unpack->shared) {
		unpack_pool_free(unpack->workers);
		return;
	}
	for (size_t i = 0; i < QUEUE_ITEMS; i++) {
		struct unpack_job *job = unpack->items[i].job;
		if (job && job->whole) /* else it was not submitted */
			unpack_pool_wait(unpack->workers, job);
	}
}

static void unpack_close(struct source *source)
{
	struct source_unpack *unpack = unpack_of(source);

	stop_jobs(unpack); /* before what they write to */
	for (size_t i = 0; i < QUEUE_ITEMS; i++)
		job_free(unpack->items[i].job);
	job_free(unpack->spare);
	zstd_unpacker_free(unpack->stream);
	source_close(unpack->under);
	room_fini(&unpack->small);
	room_fini(&unpack->large);
	free(unpack->carry);
	free(unpack);
}

static struct item *push(struct source_unpack *unpack, enum item_kind kind)
{
	struct item *item = &unpack->items[(unpack->first + unpack->nr++) % QUEUE_ITEMS];

	*item = (struct item){.kind = kind};
	return item;
}

static struct item *last_item(struct source_unpack *unpack)
{
	return &unpack->items[(unpack->first + unpack->nr - 1) % QUEUE_ITEMS];
}

/* An empty block, held, with room for so many bytes behind CARRY_BYTES. NULL: out of memory. */
static struct arena_block *new_block(struct source_unpack *unpack, uint64_t bytes)
{
	struct unpack_room *room = bytes > EXTENT_BYTES_SMALL ? &unpack->large : &unpack->small;
	struct arena_block *block = arena_renew(&room->arena);

	if (!block || (!is_in(room, block) &&
		       hash_table_add(&room->blocks, (uintptr_t)block / arena_block_bytes(&room->arena), block)))
		return NULL;
	arena_hold(&room->arena, block);
	return block;
}

static void release_block(struct source_unpack *unpack, struct arena_block *block)
{
	arena_release(&room_of(unpack, block)->arena, block);
}

/* With the first compressed record. */
static int start(struct source_unpack *unpack)
{
	size_t nr = unpack->ahead ? unpack_pool_useful_size() : 0;

	unpack->max_extents = nr ? 2 * (nr + 1) : 1;
	unpack->carry = malloc(CARRY_BYTES);
	if (!unpack->carry)
		return -ENOMEM;
	if (!unpack->shared) {
		int err = unpack_pool_new(nr, &unpack->workers);
		if (!err)
			unpack_pool_set_helper(unpack->workers, &unpack->helper);
		return err;
	}
	/* One is used while the next is decompressed; more only of few. */
	unpack->max_extents = nr ? 2 + 2 * (nr + 1) / unpack->nr_sharing : 1;
	unpack->workers = unpack->shared;
	return 0;
}

static void free_extent(struct source_unpack *unpack, struct item *item)
{
	if (item->block)
		release_block(unpack, item->block);
	unpack->nr_extents--;
	unpack->extent_bytes -= item->job->bytes;
	job_free(item->job);
	item->job = NULL;
}

/* The item becomes a gap, or a new one does. */
static void note_gap(struct source_unpack *unpack, struct item *item, uint64_t offset, const char *what)
{
	if (!item) {
		item = push(unpack, ITEM_GAP);
	} else {
		free_extent(unpack, item);
		*item = (struct item){.kind = ITEM_GAP};
	}
	diag_set(&item->why, -EBADMSG, "offset %#" PRIx64 ": %s", offset, what);
}

static void give_up_extent(struct source_unpack *unpack, const char *what)
{
	struct item *item = last_item(unpack);

	unpack->gathering = false;
	note_gap(unpack, item, item->job->offset, what);
}

/*
 * From there up to the next extent nothing can be trusted to be a record. A search that finds none has read the rest of
 * the file: none is made behind it.
 */
static bool go_on_behind(struct source_unpack *unpack, uint64_t offset)
{
	const struct source_ops *ops = unpack->under->ops;

	if (!ops->find_extent || offset >= unpack->none_from)
		return false;
	if (ops->find_extent(unpack->under, offset))
		return true;
	unpack->none_from = offset;
	return false;
}

/* Also its records may be damaged, and hide the next ones. */
static bool lose_extent(struct source_unpack *unpack, const char *what)
{
	uint64_t offset = last_item(unpack)->job->offset;

	give_up_extent(unpack, what);
	/* Input that was made for it could send us back for ever. */
	return go_on_behind(unpack, (unpack->nr_lost++ < LOST_MAX ? offset : unpack->read_offset) + 1);
}

static int append(struct unpack_job *job, struct span payload)
{
	if (job->packed_len + payload.len > job->packed_room) {
		size_t room = 2 * (job->packed_len + payload.len);
		uint8_t *grown = realloc(job->packed, room);
		if (!grown)
			return -ENOMEM;
		job->packed = grown;
		job->packed_room = room;
	}
	memcpy(job->packed + job->packed_len, payload.ptr, payload.len);
	job->packed_len += payload.len;
	return 0;
}

static int begin_extent(struct source_unpack *unpack, const struct zstd_frame *frame, uint64_t offset)
{
	struct unpack_job *job = unpack->spare ? unpack->spare : calloc(1, sizeof(*job));
	struct arena_block *block = new_block(unpack, frame->bytes);

	unpack->spare = NULL;
	if (!job || !block) {
		job_free(job);
		return -ENOMEM;
	}
	*job = (struct unpack_job){
		.packed = job->packed,
		.packed_room = job->packed_room,
		.blocks_end = frame->header_bytes,
		.bytes = frame->bytes,
		.checksum_bytes = frame->checksum_bytes,
		.offset = offset,
		.to = block->bytes + CARRY_BYTES,
	};
	struct item *item = push(unpack, ITEM_EXTENT);
	item->job = job;
	item->block = block;
	unpack->gathering = true;
	unpack->nr_extents++;
	unpack->extent_bytes += frame->bytes;
	return 0;
}

/* Walks the blocks that are there now. */
static void gather(struct source_unpack *unpack)
{
	struct unpack_job *job = last_item(unpack)->job;
	size_t len;

	while (!job->whole &&
	       zstd_block((struct span){job->packed + job->blocks_end, job->packed_len - job->blocks_end}, &len,
			  &job->whole))
		job->blocks_end += len;
	if (!job->whole) {
		if (job->packed_len > 2 * (job->bytes + CARRY_BYTES)) /* it would have been stored plain */
			lose_extent(unpack, "compressed bytes that never end: an extent is missing");
		return;
	}
	if (job->blocks_end + job->checksum_bytes != job->packed_len) {
		lose_extent(unpack, "a compressed extent is damaged: its records are missing");
		return;
	}
	unpack->gathering = false;
	unpack_pool_submit(unpack->workers, job);
}

static bool payload_of(const struct perf_event_header *record, struct span *ret)
{
	const uint8_t *body = (const uint8_t *)(record + 1);
	size_t len = record->size - sizeof(*record);
	uint64_t data_bytes;

	if (record->type == RECORD_COMPRESSED2) {
		/*
		 * u64 length of the data, the data, padding. Source: tools/lib/perf/include/perf/event.h of 6.16
		 * (facts)
		 */
		if (len < sizeof(data_bytes))
			return false;
		memcpy(&data_bytes, body, sizeof(data_bytes));
		body += sizeof(data_bytes);
		len -= sizeof(data_bytes);
		if (data_bytes > len)
			return false;
		len = (size_t)data_bytes;
	}
	*ret = (struct span){body, len};
	return len > 0;
}

static void push_stream(struct source_unpack *unpack, const struct source_record *record, struct span payload,
			bool restart)
{
	struct item *item = push(unpack, ITEM_STREAM);

	item->record = *record;
	item->payload = payload;
	item->restart = restart;
	unpack->streaming = true;
	source_hold(unpack->under, record->view.header);
}

static int take_compressed(struct source_unpack *unpack, const struct source_record *record)
{
	struct span payload;
	struct zstd_frame frame;
	int err = unpack->workers ? 0 : start(unpack);

	if (err)
		return err;
	if (!payload_of(record->view.header, &payload)) {
		if (unpack->gathering)
			lose_extent(unpack, "a compressed extent is damaged: its records are missing");
		else
			note_gap(unpack, NULL, record->view.offset,
				 "a compressed record is damaged: what it held is missing");
		return 0;
	}
	bool starts = zstd_frame_start(payload, &frame);
	/* The blocks of a frame do not begin like a frame. */
	if (starts && unpack->gathering)
		give_up_extent(unpack, "a compressed extent is not whole: its records are missing");
	if (starts && frame.bytes <= EXTENT_BYTES_MAX) {
		unpack->streaming = false;
		err = begin_extent(unpack, &frame, record->view.offset);
		if (err)
			return err;
	} else if (starts || (unpack->streaming && !unpack->gathering)) {
		push_stream(unpack, record, payload, starts);
		return 0;
	} else if (!unpack->gathering) {
		note_gap(unpack, NULL, record->view.offset,
			 "compressed bytes without their beginning: what they held is missing");
		go_on_behind(unpack, record->view.offset); /* it may be too short, and bytes of a frame follow */
		return 0;
	}
	err = append(last_item(unpack)->job, payload);
	if (!err)
		gather(unpack);
	return err;
}

static bool is_compressed(uint32_t type)
{
	return type == RECORD_COMPRESSED || type == RECORD_COMPRESSED2;
}

static void count_compressed(struct source_unpack *unpack, const struct source_record *record)
{
	unpack->source.nr_compressed[record->view.header->type == RECORD_COMPRESSED2]++;
}

static void end_input(struct source_unpack *unpack, int result, const struct diag *why)
{
	unpack->ended = true;
	unpack->result = result;
	unpack->why = *why;
	if (!unpack->gathering)
		return;
	if (result == -ENOMEM) { /* the file may have the rest of it */
		unpack->gathering = false;
		free_extent(unpack, last_item(unpack));
		unpack->nr--;
		return;
	}
	give_up_extent(unpack, "the last compressed extent is not whole: its records are missing");
}

static void queue_compressed(struct source_unpack *unpack, const struct source_record *record)
{
	struct diag why;
	int err = take_compressed(unpack, record);

	if (!err)
		return;
	diag_set(&why, err, "%s",
		 err == -ENOTSUP ? "this build was made without libzstd, which this recording needs" : "out of memory");
	end_input(unpack, err, &why);
}

/* A record that has lost its type. The address of a sample may look like the start of a frame. */
static bool hides_extent(const struct source_record *record)
{
	const struct perf_event_header *header = record->view.header;
	struct zstd_frame frame;

	return header->type != PERF_RECORD_SAMPLE && !is_compressed(header->type) &&
	       zstd_frame_start((struct span){header + 1, header->size - sizeof(*header)}, &frame) &&
	       frame.bytes <= EXTENT_BYTES_MAX;
}

/* Its header may be wrong in all of its bytes: what follows is no record, up to the next extent. */
static void leave_hidden(struct source_unpack *unpack, uint64_t offset)
{
	note_gap(unpack, NULL, offset, "a compressed record is damaged: what it held is missing");
	go_on_behind(unpack, offset);
}

/* Bytes of a damaged extent that are read as a header: the kernel's records are made of words, and no type is so high.
 */
static bool is_no_record(const struct source_unpack *unpack, const struct perf_event_header *header)
{
	enum { TYPES_MAX = 256 };

	return unpack->workers && !is_compressed(header->type) &&
	       (header->type >= TYPES_MAX || (header->type < RECORD_USER_FIRST && header->size % 8));
}

/* Reads one record from below into the queue. */
static void read_one(struct source_unpack *unpack)
{
	struct source_record record;
	struct diag why = {0};
	int got = source_next(unpack->under, &record, &why);

	if (got == -EBADMSG && go_on_behind(unpack, unpack->read_offset + 1)) {
		if (unpack->gathering)
			give_up_extent(unpack, "a compressed extent is not whole: its records are missing");
		push(unpack, ITEM_GAP)->why = why;
		return;
	}
	if (got <= 0) {
		end_input(unpack, got, &why);
		return;
	}
	unpack->read_offset = record.view.offset;
	if (hides_extent(&record)) {
		if (unpack->gathering)
			give_up_extent(unpack, "a compressed extent is not whole: its records are missing");
		leave_hidden(unpack, record.view.offset);
		return;
	}
	if (is_no_record(unpack, record.view.header) && go_on_behind(unpack, record.view.offset)) {
		if (unpack->gathering)
			give_up_extent(unpack, "a compressed extent is not whole: its records are missing");
		note_gap(unpack, NULL, record.view.offset,
			 "no record: what is left of a damaged extent is passed over");
		return;
	}
	if (is_compressed(record.view.header->type)) {
		count_compressed(unpack, &record);
		queue_compressed(unpack, &record);
		return;
	}
	if (unpack->gathering) {
		/* Extents are written in one piece: this is none of our records, but bytes of a damaged one. */
		if (lose_extent(unpack, "a compressed extent is not whole: its records are missing"))
			return;
	}
	push(unpack, ITEM_PLAIN)->record = record;
	source_hold(unpack->under, record.view.header);
	unpack->has_trailing_bytes = record.outside.len != 0;
}

static bool reads_on(const struct source_unpack *unpack)
{
	/* Room for a gap beside what comes. */
	if (unpack->ended || unpack->has_trailing_bytes || unpack->nr >= QUEUE_ITEMS - 2)
		return false;
	if (!unpack->nr || unpack->gathering)
		return true;
	return unpack->ahead && unpack->workers && unpack->nr_extents < unpack->max_extents &&
	       (unpack->nr_extents < 2 || unpack->extent_bytes < AHEAD_BYTES);
}

/* Leaves the current block; what is left of it is kept for what comes next. */
static void leave_block(struct source_unpack *unpack)
{
	if (!unpack->block)
		return;
	unpack->carry_len = (size_t)(unpack->end - unpack->at);
	assert(unpack->carry_len < CARRY_BYTES); /* no record is longer */
	memcpy(unpack->carry, unpack->at, unpack->carry_len);
	release_block(unpack, unpack->block);
	unpack->block = NULL;
}

/* What comes next begins with a record, so where one may lie. */
static void drop_rest(struct source_unpack *unpack)
{
	unpack->at = unpack->end;
	leave_block(unpack);
	unpack->carry_len = 0;
}

/* Nothing tells where in its bytes a record begins: up to the next beginning of a frame they are passed over. */
static void give_up_stream(struct source_unpack *unpack)
{
	drop_rest(unpack);
	zstd_unpacker_free(unpack->stream);
	unpack->stream = NULL;
}

/* A record of the current block: 1; 0: none that is whole; SOURCE_GAP. */
static int next_in_block(struct source_unpack *unpack, struct source_record *ret, struct diag *reterr)
{
	size_t left = unpack->block ? (size_t)(unpack->end - unpack->at) : 0;
	struct perf_event_header *header = (void *)unpack->at;

	if (left < sizeof(*header))
		return 0;
	/* The kernel makes no others, and decoding relies on it. */
	if (header->size < sizeof(*header) || header->size % 8) {
		give_up_stream(unpack);
		diag_set(reterr, -EBADMSG,
			 "offset %#" PRIx64 ": no record among what was decompressed (type %" PRIu32
			 ", size %u): the rest of it is missing",
			 unpack->offset, header->type, header->size);
		return SOURCE_GAP;
	}
	if (header->size > left)
		return 0;
	*ret = (struct source_record){.view = {.header = header, .offset = unpack->offset}};
	unpack->at += header->size;
	return 1;
}

static int take_extent(struct source_unpack *unpack, struct item *item, struct diag *reterr)
{
	struct unpack_job *job = item->job;

	unpack->nr_extents--;
	unpack->extent_bytes -= job->bytes;
	unpack_pool_wait(unpack->workers, job);
	leave_block(unpack);
	job_free(unpack->spare);
	unpack->spare = job;
	item->job = NULL;
	if (job->got < 0) {
		release_block(unpack, item->block);
		drop_rest(unpack);
		if (job->got == -ENOMEM) /* another reading may have it: nothing is missing in the file */
			return diag_set(reterr, -ENOMEM, "%s", strerror(ENOMEM));
		diag_set(reterr, -EBADMSG,
			 "offset %#" PRIx64 ": a compressed extent is damaged: %" PRIu64 " bytes of records "
			 "are missing",
			 job->offset, job->bytes);
		return SOURCE_GAP;
	}
	unpack->block = item->block;
	unpack->offset = job->offset;
	unpack->end = job->to + job->bytes;
	unpack->at = job->to - unpack->carry_len;
	memcpy(unpack->at, unpack->carry, unpack->carry_len);
	if ((uintptr_t)unpack->at % 8) {
		memmove(item->block->bytes, unpack->at, (size_t)(unpack->end - unpack->at));
		unpack->end -= unpack->at - item->block->bytes;
		unpack->at = item->block->bytes;
	}
	unpack->carry_len = 0;
	return 0;
}

static void end_stream_record(struct source_unpack *unpack)
{
	source_release(unpack->under, unpack->input.record.view.header);
	unpack->has_input = false;
}

/* A block with room behind what is not yet a whole record. */
static int make_room(struct source_unpack *unpack)
{
	if (unpack->block && (size_t)(unpack->block->end - unpack->end) >= LEAST_ROOM)
		return 0;
	leave_block(unpack);
	unpack->block = new_block(unpack, 0);
	if (!unpack->block)
		return -ENOMEM;
	unpack->at = unpack->block->bytes;
	memcpy(unpack->at, unpack->carry, unpack->carry_len);
	unpack->end = unpack->at + unpack->carry_len;
	unpack->carry_len = 0;
	return 0;
}

/* Decompresses on. 0, SOURCE_GAP, -errno. */
static int stream_on(struct source_unpack *unpack, struct diag *reterr)
{
	if (!unpack->stream && !unpack->input.restart) {
		end_stream_record(unpack); /* it is of the stream that was damaged */
		return 0;
	}
	int err = make_room(unpack);
	if (!err && !unpack->stream)
		err = zstd_unpacker_new(&unpack->stream);
	if (err)
		return diag_set(reterr, err, "%s", strerror(-err));
	if (unpack->input.restart)
		zstd_unpack_reset(unpack->stream);
	unpack->input.restart = false;
	int64_t got = zstd_unpack(unpack->stream, &unpack->input.payload, unpack->end,
				  (size_t)(unpack->block->end - unpack->end));
	unpack->offset = unpack->input.record.view.offset;
	if (got > 0) {
		unpack->end += got;
		return 0;
	}
	if (got == -ENOMEM)
		return diag_set(reterr, -ENOMEM, "%s", strerror(ENOMEM));
	end_stream_record(unpack);
	if (!got) /* nothing of the payload is left */
		return 0;
	give_up_stream(unpack);
	diag_set(reterr, -EBADMSG,
		 "offset %#" PRIx64 ": compressed bytes are damaged: what follows up to the next beginning is "
		 "missing",
		 unpack->offset);
	return SOURCE_GAP;
}

/* The front of the queue. 1: a record; 0: go on; SOURCE_GAP; -errno. */
static int take_item(struct source_unpack *unpack, struct source_record *ret, struct diag *reterr)
{
	struct item *item = &unpack->items[unpack->first];
	int got = 0;

	switch (item->kind) {
	case ITEM_PLAIN:
		*ret = item->record;
		unpack->passed = item->record.view.header;
		unpack->has_trailing_bytes &= unpack->nr > 1;
		got = 1;
		break;
	case ITEM_EXTENT: got = take_extent(unpack, item, reterr); break;
	case ITEM_STREAM:
		unpack->input = *item;
		unpack->has_input = true;
		break;
	case ITEM_GAP:
		drop_rest(unpack);
		*reterr = item->why;
		got = SOURCE_GAP;
		break;
	}
	unpack->first = (unpack->first + 1) % QUEUE_ITEMS;
	unpack->nr--;
	return got;
}

/* Where nothing is compressed: nothing is queued. 0: something is. */
static int pass_on(struct source_unpack *unpack, struct source_record *ret, struct diag *reterr)
{
	int got = source_next(unpack->under, ret, reterr);

	if (got == -EBADMSG && go_on_behind(unpack, unpack->read_offset + 1)) {
		push(unpack, ITEM_GAP)->why = *reterr;
		return 0;
	}
	if (got > 0)
		unpack->read_offset = ret->view.offset;
	if (got > 0 && hides_extent(ret)) {
		leave_hidden(unpack, ret->view.offset);
		return 0;
	}
	if (got > 0 && !is_compressed(ret->view.header->type))
		return 1;
	if (got > 0) {
		count_compressed(unpack, ret);
		queue_compressed(unpack, ret);
	} else {
		end_input(unpack, got, reterr);
	}
	return 0;
}

static int unpack_next(struct source *source, struct source_record *ret, struct diag *reterr)
{
	struct source_unpack *unpack = unpack_of(source);
	int got;

	if (unpack->passed)
		source_release(unpack->under, unpack->passed);
	unpack->passed = NULL;
	if (!unpack->workers && !unpack->ended) {
		got = pass_on(unpack, ret, reterr);
		if (got)
			return got;
	}
	for (;;) {
		got = next_in_block(unpack, ret, reterr);
		if (got)
			return got;
		if (unpack->has_input) {
			got = stream_on(unpack, reterr);
		} else {
			while (reads_on(unpack))
				read_one(unpack);
			if (!unpack->nr)
				break;
			got = take_item(unpack, ret, reterr);
		}
		if (got)
			return got;
	}
	if (unpack->result < 0)
		*reterr = unpack->why;
	return unpack->result;
}

/* Nothing compressed came yet, and nothing is queued. */
static bool passes_on(const struct source_unpack *unpack)
{
	return !unpack->workers && !unpack->ended && !unpack->nr;
}

static bool unpack_stretch(struct source *source, struct source_stretch *ret)
{
	struct source_unpack *unpack = unpack_of(source);

	if (unpack->passed)
		return false;
	if (passes_on(unpack))
		return source_stretch(unpack->under, ret);
	if (!unpack->block || unpack->at >= unpack->end)
		return false;
	*ret = (struct source_stretch){
		{unpack->at, (size_t)(unpack->end - unpack->at)}, unpack->offset, .packed = true};
	return true;
}

static void unpack_pass(struct source *source, const struct source_passed *passed)
{
	struct source_unpack *unpack = unpack_of(source);

	if (passes_on(unpack)) {
		unpack->read_offset = passed->last_offset;
		source_pass(unpack->under, passed);
	} else {
		unpack->at += passed->bytes;
		unpack->block->nr_refs += passed->nr;
	}
}

static void unpack_skip(struct source *source, struct source_skip *skips, size_t nr)
{
	source_skip(unpack_of(source)->under, skips, nr);
}

static void unpack_set_helper(struct source *source, const struct unpack_helper *helper)
{
	struct source_unpack *unpack = unpack_of(source);

	unpack->helper = *helper;
	if (unpack->workers && !unpack->shared)
		unpack_pool_set_helper(unpack->workers, helper);
}

static bool unpack_help(struct source *source)
{
	return unpack_pool_help(unpack_of(source)->workers);
}

static const struct source_ops unpack_ops = {
	.set_helper = unpack_set_helper,
	.help = unpack_help,
	.leave_out = unpack_skip,
	.stretch = unpack_stretch,
	.pass = unpack_pass,
	.next = unpack_next,
	.hold = unpack_hold,
	.release = unpack_release,
	.close = unpack_close,
};

int source_open_unpack(struct source *under, bool ahead, struct source **ret)
{
	struct source_unpack *unpack = calloc(1, sizeof(*unpack));

	if (!unpack) {
		source_close(under);
		return -ENOMEM;
	}
	unpack->source = (struct source){.ops = &unpack_ops, .stays = under->stays};
	unpack->under = under;
	unpack->ahead = ahead;
	unpack->none_from = UINT64_MAX;
	unpack->large.arena.block_bytes = LARGE_BLOCK_BYTES;
	*ret = &unpack->source;
	return 0;
}

int source_open_unpack_beside(struct source *under, struct unpack_pool *workers, size_t nr_sources, struct source **ret)
{
	int err = source_open_unpack(under, true, ret);

	if (!err) {
		unpack_of(*ret)->shared = workers;
		unpack_of(*ret)->nr_sharing = nr_sources;
	}
	return err;
}
