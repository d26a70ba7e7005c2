/* SPDX-License-Identifier: MIT */
#include "record/output/record_end.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "compress/zstd.h"
#include "perfdata/record.h"

enum { PIECE = 1 << 20 };

struct walk {
	int fd;
	uint64_t offset, bytes; /* of the file: what is looked at */
	uint64_t at, last;      /* relative to offset: of this record and of the one before */
	/* of the COMPRESSED2 records that claimed to be one; the end is not behind `at`: there are none here */
	uint64_t chunk_at, chunk_end;
	uint8_t *piece;
	uint64_t piece_at, piece_bytes;
	int err;           /* of reading; an early end is none */
	struct buf frame;  /* of the COMPRESSED records that came last, when they are such a frame */
	uint64_t frame_at; /* where it began */
};

/* `len` bytes at `at`; NULL: they are not there. */
static const uint8_t *bytes_at(struct walk *walk, uint64_t at, size_t len)
{
	if (at + len > walk->bytes)
		return NULL;
	if (at < walk->piece_at || at + len > walk->piece_at + walk->piece_bytes) {
		walk->piece_at = at;
		walk->piece_bytes = walk->bytes - at < PIECE ? walk->bytes - at : PIECE;
		int err = fd_pread(walk->fd, walk->piece, walk->piece_bytes, walk->offset + at);
		if (err) {
			walk->piece_bytes = 0;
			walk->err = err == -ENODATA ? 0 : err;
			return NULL;
		}
	}
	return walk->piece + (at - walk->piece_at);
}

/* Of several COMPRESSED2 records that claim to be one each gets its own size. false: here is no record. */
static bool mend_compressed2(struct walk *walk, struct perf_event_header *header)
{
	bool first = walk->chunk_end <= walk->at;
	const uint8_t *at;
	struct record_compressed2 record;

	if (first && header->type != RECORD_COMPRESSED2)
		return true;
	at = bytes_at(walk, walk->at, sizeof(record));
	if (!at)
		return false;
	memcpy(&record, at, sizeof(record));
	uint64_t chunk = first ? record_compressed2_chunk(&record) : walk->chunk_end - walk->at;
	if (!chunk)
		return true;
	if (chunk > walk->bytes - walk->at || !record_compressed2_in_chunk(&record, first, chunk))
		return false;
	if (first)
		walk->chunk_at = walk->at;
	walk->chunk_end = walk->at + chunk;
	*header = record.header;
	return true;
}

/* Bytes behind header->size that belong to the record, which is there. */
static uint64_t outside_bytes(struct walk *walk, const struct perf_event_header *header)
{
	const uint8_t *at = header->type < RECORD_USER_FIRST ? NULL : bytes_at(walk, walk->at, (size_t)header->size);

	return at ? record_outside_bytes(header, at + sizeof(*header)) : 0;
}

/* The record at walk->at, which may lie anywhere behind a COMPRESSED record, and its bytes. false: none is whole. */
static bool record_at(struct walk *walk, struct perf_event_header *ret, uint64_t *ret_bytes)
{
	const uint8_t *at = bytes_at(walk, walk->at, sizeof(*ret));
	uint64_t left = walk->bytes - walk->at;

	if (!at)
		return false;
	memcpy(ret, at, sizeof(*ret));
	if (!mend_compressed2(walk, ret) || ret->size < sizeof(*ret) || ret->size > left)
		return false;
	uint64_t outside = outside_bytes(walk, ret);
	*ret_bytes = ret->size + outside;
	return !walk->err && outside <= left - ret->size;
}

/* Behind the last record: a chunk of which some are missing cannot be read. */
static void leave_chunk(struct walk *walk)
{
	if (walk->chunk_end > walk->at)
		walk->at = walk->chunk_at;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; bytes && i < len; i++)
		if (bytes[i])
			return false;
	return bytes != NULL;
}

/* Blocks up to the last one, then the checksum: RFC 8878. */
static bool frame_is_whole(struct span frame)
{
	struct zstd_frame start;
	bool last = false;
	size_t len;

	if (!zstd_frame_start(frame, &start))
		return false;
	for (size_t at = start.header_bytes; !last; at += len) {
		const struct span left = {(const uint8_t *)frame.ptr + at, frame.len - at};
		if (!zstd_block(left, &len, &last) || len > left.len || (last && left.len - len < start.checksum_bytes))
			return false;
	}
	return true;
}

/* A frame that tells its size is kept until the next one begins. */
static void note_compressed(struct walk *walk, const struct perf_event_header *header, struct record_end *end)
{
	const uint8_t *record = bytes_at(walk, walk->at, header->size);
	struct zstd_frame start;

	if (!record)
		return;
	const struct span payload = {record + sizeof(*header), header->size - sizeof(*header)};
	end->compressed = true;
	if (zstd_frame_start(payload, &start) && start.bytes != UINT64_MAX) {
		end->framed = true;
		walk->frame.len = 0;
		walk->frame_at = walk->at;
		buf_put(&walk->frame, payload.ptr, payload.len);
	} else if (walk->frame.len) {
		buf_put(&walk->frame, payload.ptr, payload.len);
	}
}

/* A record before a place that was never written: was its own end written? */
static bool may_be_torn(struct walk *walk)
{
	enum { TAIL = 8 };
	uint64_t rest = walk->bytes - walk->at;

	if (walk->at == 0 || rest == 0 ||
	    !is_zero(bytes_at(walk, walk->at, rest < TAIL ? (size_t)rest : TAIL), rest < TAIL ? (size_t)rest : TAIL))
		return false;
	return walk->at - walk->last > TAIL && is_zero(bytes_at(walk, walk->at - TAIL, TAIL), TAIL);
}

struct record_end record_end_find(int fd, uint64_t offset, uint64_t bytes)
{
	AUTO_FREE uint8_t *piece = malloc(PIECE);
	struct walk walk = {.fd = fd, .offset = offset, .bytes = bytes, .piece = piece};
	struct progress progress = {.bytes = true, .total = bytes};
	struct record_end end = {0};
	struct perf_event_header header;
	uint64_t record_bytes;

	progress_start(&progress, "looking for the last whole record");
	while (piece && record_at(&walk, &header, &record_bytes) && header.type) {
		end.unknown = header.type > RECORD_USER_LAST;
		if (end.unknown)
			break;
		if (header.type == RECORD_COMPRESSED)
			note_compressed(&walk, &header, &end);
		else
			walk.frame.len = 0;
		end.compressed |= header.type == RECORD_COMPRESSED2;
		walk.last = walk.chunk_end > walk.at ? walk.chunk_at : walk.at;
		walk.at += record_bytes;
		progress_step(&progress, record_bytes, walk.at);
	}
	progress_end(&progress);
	leave_chunk(&walk);
	end.bytes = piece && may_be_torn(&walk) ? walk.last : walk.at;
	if (walk.frame.len && (end.bytes != walk.at || !frame_is_whole(buf_span(&walk.frame))))
		end.bytes = walk.frame_at;
	end.err = !piece || walk.frame.failed ? -ENOMEM : walk.err;
	buf_fini(&walk.frame);
	return end;
}

int64_t whole_records(int fd, uint64_t offset, uint64_t bytes)
{
	AUTO_FREE uint8_t *piece = malloc(PIECE);
	struct walk walk = {.fd = fd, .offset = offset, .bytes = bytes, .piece = piece};
	struct perf_event_header header;
	uint64_t record_bytes;

	while (piece && record_at(&walk, &header, &record_bytes))
		walk.at += record_bytes;
	leave_chunk(&walk);
	return !piece ? -ENOMEM : walk.err ? walk.err : (int64_t)walk.at;
}
