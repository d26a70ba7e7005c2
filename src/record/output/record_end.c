/* SPDX-License-Identifier: MIT */
#include "record/output/record_end.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "compress/zstd.h"
#include "perfdata/record.h"

enum { PIECE = 1 << 20 };

int record_walk_init(struct record_walk *walk, int fd, uint64_t offset, uint64_t bytes)
{
	*walk = (struct record_walk){.fd = fd, .offset = offset, .bytes = bytes, .piece = malloc(PIECE)};
	return walk->piece ? 0 : -ENOMEM;
}

void record_walk_fini(struct record_walk *walk)
{
	free(walk->piece);
	walk->piece = NULL;
}

const uint8_t *record_walk_bytes(struct record_walk *walk, uint64_t at, size_t len)
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
static bool mend_compressed2(struct record_walk *walk, struct perf_event_header *header)
{
	bool first = walk->chunk_end <= walk->at;
	const uint8_t *at;
	struct record_compressed2 record;

	if (first && header->type != RECORD_COMPRESSED2)
		return true;
	at = record_walk_bytes(walk, walk->at, sizeof(record));
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
static uint64_t outside_bytes(struct record_walk *walk, const struct perf_event_header *header)
{
	const uint8_t *at =
		header->type < RECORD_USER_FIRST ? NULL : record_walk_bytes(walk, walk->at, (size_t)header->size);

	return at ? record_outside_bytes(header, at + sizeof(*header)) : 0;
}

/* It may lie anywhere behind a COMPRESSED record. */
bool record_walk_here(struct record_walk *walk, struct perf_event_header *ret, uint64_t *ret_bytes)
{
	const uint8_t *at = record_walk_bytes(walk, walk->at, sizeof(*ret));
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

void record_walk_leave_chunk(struct record_walk *walk)
{
	if (walk->chunk_end > walk->at)
		walk->at = walk->chunk_at;
}

/* The walk, and what is known of the records behind which it is. */
struct end_search {
	struct record_walk walk;
	uint64_t last;     /* where the record before walk.at began */
	struct buf frame;  /* of the COMPRESSED records that came last, when they are such a frame */
	uint64_t frame_at; /* where it began */
};

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
static void note_compressed(struct end_search *search, const struct perf_event_header *header, struct record_end *end)
{
	const uint8_t *record = record_walk_bytes(&search->walk, search->walk.at, header->size);
	struct zstd_frame start;

	if (!record)
		return;
	const struct span payload = {record + sizeof(*header), header->size - sizeof(*header)};
	end->compressed = true;
	if (zstd_frame_start(payload, &start) && start.bytes != UINT64_MAX) {
		end->framed = true;
		search->frame.len = 0;
		search->frame_at = search->walk.at;
		buf_put(&search->frame, payload.ptr, payload.len);
	} else if (search->frame.len) {
		buf_put(&search->frame, payload.ptr, payload.len);
	}
}

/* A record before a place that was never written: was its own end written? */
static bool may_be_torn(struct end_search *search)
{
	enum { TAIL = 8 };
	struct record_walk *walk = &search->walk;
	uint64_t rest = walk->bytes - walk->at;
	size_t len = rest < TAIL ? (size_t)rest : TAIL;

	if (walk->at == 0 || rest == 0 || !is_zero(record_walk_bytes(walk, walk->at, len), len))
		return false;
	return walk->at - search->last > TAIL && is_zero(record_walk_bytes(walk, walk->at - TAIL, TAIL), TAIL);
}

struct record_end record_end_find(int fd, uint64_t offset, uint64_t bytes)
{
	struct end_search search = {0};
	struct record_walk *walk = &search.walk;
	struct progress progress = {.bytes = true, .total = bytes};
	struct record_end end = {.err = record_walk_init(walk, fd, offset, bytes)};
	struct perf_event_header header;
	uint64_t record_bytes;

	if (end.err)
		return end;
	progress_start(&progress, "looking for the last whole record");
	while (record_walk_here(walk, &header, &record_bytes) && header.type) {
		end.unknown = header.type > RECORD_USER_LAST;
		if (end.unknown)
			break;
		if (header.type == RECORD_COMPRESSED)
			note_compressed(&search, &header, &end);
		else
			search.frame.len = 0;
		end.compressed |= header.type == RECORD_COMPRESSED2;
		search.last = walk->chunk_end > walk->at ? walk->chunk_at : walk->at;
		walk->at += record_bytes;
		progress_step(&progress, record_bytes, walk->at);
	}
	progress_end(&progress);
	record_walk_leave_chunk(walk);
	end.bytes = may_be_torn(&search) ? search.last : walk->at;
	if (search.frame.len && (end.bytes != walk->at || !frame_is_whole(buf_span(&search.frame))))
		end.bytes = search.frame_at;
	end.err = search.frame.failed ? -ENOMEM : walk->err;
	buf_fini(&search.frame);
	record_walk_fini(walk);
	return end;
}

int64_t whole_records(int fd, uint64_t offset, uint64_t bytes)
{
	struct record_walk walk;
	struct perf_event_header header;
	uint64_t record_bytes;
	int err = record_walk_init(&walk, fd, offset, bytes);

	if (err)
		return err;
	while (record_walk_here(&walk, &header, &record_bytes))
		walk.at += record_bytes;
	record_walk_leave_chunk(&walk);
	record_walk_fini(&walk);
	return walk.err ? walk.err : (int64_t)walk.at;
}

int cut_file(int fd, uint64_t end)
{
	(void)!fdatasync(fd); /* what is not on the disk after an error is lost in any case */
	return ftruncate(fd, (off_t)end) ? -errno : 0;
}

int cut_to_records(int fd, uint64_t *bytes)
{
	int64_t whole = whole_records(fd, 0, *bytes);

	if (whole >= 0) /* or all stay */
		*bytes = (uint64_t)whole;
	return cut_file(fd, *bytes);
}
