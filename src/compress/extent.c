/* SPDX-License-Identifier: MIT */
#include "compress/extent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static void cut(struct span frame, uint8_t *out)
{
	for (size_t at = 0, part; at < frame.len; at += part) {
		part = next_part(frame, at);
		struct perf_event_header header = {
			.type = RECORD_COMPRESSED,
			.size = (uint16_t)(sizeof(header) + part),
		};
		memcpy(out, &header, sizeof(header));
		memcpy(out + sizeof(header), (const uint8_t *)frame.ptr + at, part);
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
