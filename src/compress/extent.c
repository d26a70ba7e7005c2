/* SPDX-License-Identifier: MIT */
#include "compress/extent.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compress/extent_stats.h"
#include "compress/repeats.h"
#include "compress/zstd.h"
#include "perfdata/record.h"

/* Of input: whatever becomes of it, such a block fits into a record with the header of the frame. */
enum {
	SMALL_BLOCK_BYTES = 60 << 10,
	BLOCK_BYTES_MAX = 128 << 10, /* RFC 8878, 3.1.1.2.4 */
	RECORD_BLOCKS_MAX = EXTENT_RECORD_BYTES_MAX / BLOCK_BYTES_MAX,
	PROBES = 16,
	PROBE_BYTES = 4 << 10,
	PROBE_RECORDS = 64,
	DUMP_BYTES_LEAST = 2 << 10, /* records of call chains are shorter */
	QUICK_LEVEL_LAST = 5,       /* an extent takes less than 20 ms of CPU time */
	MIDDLE_LEVEL_LAST = 12,     /* less than 200; above it a megabyte takes as long and more */
};

/*
 * Measured against one stream without end, as perf's (docs/decisions/0006): at level 1 4 MiB are enough to be smaller
 * than that, at level 3 8 MiB, at level 9 16 MiB. At the highest levels a worker would be away for seconds with so
 * much, and is for most of one with 4.
 */
size_t extent_bytes_for(int level)
{
	if (level <= 0)
		return EXTENT_BYTES_SMALL;
	if (level <= 2 || level > MIDDLE_LEVEL_LAST)
		return 4 << 20;
	return level <= QUICK_LEVEL_LAST ? 8 << 20 : EXTENT_BYTES_MAX;
}

struct extent_packer {
	struct zstd_packer *zstd;
	struct repeats_packer *repeats;
	size_t room;     /* behind ZSTD_HASH_BYTES */
	uint8_t frame[]; /* behind its hash */
};

int extent_packer_new(struct extent_packer **ret)
{
	size_t of_zstd = zstd_bound(EXTENT_BYTES_MAX), of_repeats = repeats_bound(EXTENT_BYTES_MAX);
	size_t room = of_zstd > of_repeats ? of_zstd : of_repeats;
	struct extent_packer *packer = malloc(sizeof(*packer) + ZSTD_HASH_BYTES + room);

	if (!packer)
		return -ENOMEM;
	*packer = (struct extent_packer){.room = room};
	int err = zstd_packer_new(&packer->zstd);
	if (!err)
		err = repeats_packer_new(&packer->repeats);
	if (err) {
		extent_packer_free(packer);
		return err;
	}
	*ret = packer;
	return 0;
}

void extent_packer_free(struct extent_packer *packer)
{
	if (!packer)
		return;
	zstd_packer_free(packer->zstd);
	repeats_packer_free(packer->repeats);
	free(packer);
}

/*
 * The next part of the frame that goes into one record: as many whole blocks as fit, with the frame's hash and header,
 * so that each record gives bytes. 0: a block does not fit.
 */
static size_t next_part(struct span frame, size_t at)
{
	struct zstd_frame start = {0};
	size_t end = at, len;
	bool last = false;

	if (!at && !zstd_frame_start(frame, &start))
		return 0;
	end += start.header_bytes;
	for (unsigned nr = 0; !last && nr < RECORD_BLOCKS_MAX; nr++) {
		if (!zstd_block((struct span){(const char *)frame.ptr + end, frame.len - end}, &len, &last))
			break;
		size_t with = last ? frame.len - at : end + len - at;
		if (with > EXTENT_PAYLOAD_MAX)
			return end > at + start.header_bytes ? end - at : 0;
		end = at + with;
	}
	return end - at;
}

/* How long the COMPRESSED records of the frame will be. 0: a block does not fit into one. */
static size_t bytes_when_cut(struct span frame)
{
	size_t bytes = frame.len;

	for (size_t at = 0, part; at < frame.len; at += part) {
		part = next_part(frame, at);
		if (!part)
			return 0;
		bytes += sizeof(struct perf_event_header);
	}
	return bytes;
}

/* `out`: not the memory of the frame, or as far before it as the headers that are put between its parts are long. */
static void cut(struct span frame, uint8_t *out)
{
	for (size_t at = 0, part; at < frame.len; at += part) {
		part = next_part(frame, at);
		struct perf_event_header header = {
			.type = RECORD_COMPRESSED,
			.size = (uint16_t)(sizeof(header) + part),
		};
		memcpy(out, &header, sizeof(header));
		memmove(out + sizeof(header), (const uint8_t *)frame.ptr + at, part);
		out += header.size;
	}
}

/*
 * Bytes that are hard to compress: a block of 128 KiB may remain longer than a record. To see that when all is
 * compressed costs as much again, so a few places are compressed alone, as fast as it goes. At low levels what is hard
 * costs most, be it only an eighth of all.
 */
static void probe(struct extent_packer *packer, struct span records, struct zstd_pack_params *params)
{
	const struct zstd_pack_params fast = {.level = 1};
	unsigned nr_hard = 0;
	bool any_long = false;

	if (records.len < PROBES * PROBE_BYTES)
		return;
	for (size_t i = 0; i < PROBES; i++) {
		struct span part = {(const char *)records.ptr + (records.len - PROBE_BYTES) / PROBES * i, PROBE_BYTES};
		int64_t len = zstd_pack(packer->zstd, &fast, part, packer->frame, packer->room);
		any_long |= len > PROBE_BYTES / 2;
		nr_hard += len > PROBE_BYTES / 8 * 7;
	}
	params->block_bytes = any_long ? SMALL_BLOCK_BYTES : 0;
	params->hard = nr_hard >= (params->level <= QUICK_LEVEL_LAST ? PROBES / 8 : PROBES / 8 * 7);
}

/* Most bytes of the first ones, with which an extent begins, are of records without a dump. */
static bool are_short(struct span records)
{
	struct perf_event_header header;
	size_t at = 0, nr = 0, nr_short_bytes = 0;

	for (; nr < PROBE_RECORDS && records.len - at >= sizeof(header); nr++) {
		memcpy(&header, (const char *)records.ptr + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at)
			break;
		at += header.size;
		nr_short_bytes += header.size < DUMP_BYTES_LEAST ? header.size : 0;
	}
	return nr_short_bytes > at / 2;
}

/* Of a frame of so many bytes, or an error, behind room for its hash: puts that there. Returns the length of both. */
static int64_t with_hash(struct extent_packer *packer, int64_t len)
{
	if (len < 0)
		return len;
	zstd_put_hash((struct span){packer->frame + ZSTD_HASH_BYTES, (size_t)len}, packer->frame);
	return ZSTD_HASH_BYTES + len;
}

/* A hash and one frame, in blocks that fit into records if that can be. */
static int64_t pack(struct extent_packer *packer, const struct extent_pack_params *how, struct span records)
{
	uint8_t *const frame = packer->frame + ZSTD_HASH_BYTES;
	struct zstd_pack_params params = {
		.level = how->level,
		.short_records = are_short(records),
		.level_now = how->level_now,
	};

	if (how->level == 1 && params.short_records && !how->thorough) {
		int64_t len = with_hash(packer, repeats_pack(packer->repeats, records, frame));
		if (len > 0 && bytes_when_cut((struct span){packer->frame, (size_t)len}))
			return len;
	}
	probe(packer, records, &params);
	int64_t len = with_hash(packer, zstd_pack(packer->zstd, &params, records, frame, packer->room));
	if (len < 0 || params.block_bytes || bytes_when_cut((struct span){packer->frame, (size_t)len}))
		return len;
	params.block_bytes = SMALL_BLOCK_BYTES;
	return with_hash(packer, zstd_pack(packer->zstd, &params, records, frame, packer->room));
}

int64_t extent_pack(struct extent_packer *packer, const struct extent_pack_params *how, struct span records, void *out,
		    size_t room)
{
	int64_t len = pack(packer, how, records);

	if (len < 0)
		return len;
	const struct span frame = {packer->frame, (size_t)len};
	size_t bytes = bytes_when_cut(frame); /* before anything is overwritten */
	if (!bytes || bytes >= room)
		return -ENOSPC;
	cut(frame, out);
	return (int64_t)bytes;
}

enum {
	BUILT_BLOCKS_MAX = 512, /* each in a record of its own, at worst */
	BUILT_HEADERS_BYTES = BUILT_BLOCKS_MAX * sizeof(struct perf_event_header),
};

struct extent_builder {
	struct repeats_packer *repeats;
	uint8_t *memory; /* borrowed */
	size_t room;
	size_t nr_blocks, nr_blocks_before; /* now, and without what was added last */
	size_t bytes, bytes_before;         /* of records; likewise */
	struct extent_tally tally, tally_before;
};

int extent_builder_new(const struct extent_stats *stats, struct extent_builder **ret)
{
	struct extent_builder *builder = calloc(1, sizeof(*builder));
	int err = builder ? repeats_packer_new(&builder->repeats) : -ENOMEM;

	if (!err)
		err = extent_tally_begin(&builder->tally, stats);
	if (!err)
		err = extent_tally_begin(&builder->tally_before, stats);
	if (err)
		extent_builder_free(builder);
	else
		*ret = builder;
	return err;
}

void extent_builder_free(struct extent_builder *builder)
{
	if (!builder)
		return;
	repeats_packer_free(builder->repeats);
	free(builder->tally.counts);
	free(builder->tally_before.counts);
	free(builder);
}

/* The frame lies behind room for its hash, and for the headers of its records. */
void extent_builder_begin(struct extent_builder *builder, uint8_t *memory, size_t room)
{
	const size_t before = BUILT_HEADERS_BYTES + ZSTD_HASH_BYTES;

	builder->memory = memory;
	builder->room = room;
	builder->nr_blocks = builder->bytes = 0;
	extent_tally_restart(&builder->tally);
	repeats_begin(builder->repeats, memory + before, room - before);
}

/* What does not become half as long zstd may make much smaller, but for what is worth no trial. */
static size_t block_bytes_most(size_t bytes)
{
	enum { LEAST_BYTES = 4 << 10 };
	size_t half = bytes / 2 > LEAST_BYTES ? bytes / 2 : LEAST_BYTES;

	return half < SMALL_BLOCK_BYTES ? half : SMALL_BLOCK_BYTES;
}

static int add_spans(struct extent_builder *builder, const struct span records[], unsigned nr)
{
	int err = 0;

	for (unsigned i = 0; i < nr && !err; i++) {
		builder->bytes += records[i].len;
		builder->nr_blocks += (records[i].len + BLOCK_BYTES_MAX - 1) / BLOCK_BYTES_MAX;
		if (builder->nr_blocks > BUILT_BLOCKS_MAX || builder->bytes > EXTENT_BYTES_MAX)
			return -ENOSPC;
		err = repeats_add(builder->repeats, records[i], block_bytes_most(records[i].len));
	}
	return err;
}

int extent_builder_add(struct extent_builder *builder, const struct span records[], unsigned nr)
{
	builder->nr_blocks_before = builder->nr_blocks;
	builder->bytes_before = builder->bytes;
	extent_tally_copy(&builder->tally_before, &builder->tally);
	repeats_mark(builder->repeats);
	int err = add_spans(builder, records, nr);
	if (err)
		extent_builder_undo(builder);
	return err;
}

struct extent_tally *extent_builder_tally(struct extent_builder *builder)
{
	return &builder->tally;
}

void extent_builder_undo(struct extent_builder *builder)
{
	builder->nr_blocks = builder->nr_blocks_before;
	builder->bytes = builder->bytes_before;
	extent_tally_copy(&builder->tally, &builder->tally_before);
	repeats_undo(builder->repeats);
}

/* The counts lie behind the frame, if there is room. */
size_t extent_builder_end(struct extent_builder *builder, struct extent_info *ret_info)
{
	const size_t built = repeats_end(builder->repeats);
	const size_t at = (BUILT_HEADERS_BYTES + ZSTD_HASH_BYTES + built + 7) & ~(size_t)7;
	const size_t bytes = extent_tally_room(&builder->tally) * sizeof(struct extent_count);
	void *const counts = bytes && at + bytes <= builder->room ? builder->memory + at : NULL;

	extent_tally_read(&builder->tally, builder->bytes, counts, ret_info);
	return built;
}

size_t extent_from_built(uint8_t *memory, size_t built, struct extent_info *info)
{
	uint8_t *const hash = memory + BUILT_HEADERS_BYTES;
	const struct span frame = {hash, ZSTD_HASH_BYTES + built};
	const size_t counts_bytes = info->fields.nr_counts * sizeof(*info->counts);
	const struct extent_count *counts = info->counts;

	info->counts = counts_bytes ? malloc(counts_bytes) : NULL;
	if (info->counts)
		memcpy(info->counts, counts, counts_bytes);
	else
		info->fields.nr_counts = 0;
	zstd_put_hash((struct span){hash + ZSTD_HASH_BYTES, built}, hash);
	const size_t bytes = bytes_when_cut(frame);
	assert(bytes); /* each block fits into a record: block_bytes_most() */
	cut(frame, memory);
	return bytes;
}
