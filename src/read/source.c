/* SPDX-License-Identifier: MIT */
/*
 * Records of a mapped file and of a pipe, and the arena that both may need. source_unpack.c decompresses what they
 * give.
 */
#include "read/source.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "compress/zstd.h"
#include "perfdata/layout.h"

void arena_fini(struct arena *arena)
{
	for (struct arena_block *block = arena->all, *next; block; block = next) {
		next = block->next_all;
		free(block);
	}
	*arena = (struct arena){.block_bytes = arena->block_bytes};
}

size_t arena_block_bytes(const struct arena *arena)
{
	return arena->block_bytes ? arena->block_bytes : ARENA_BLOCK_BYTES;
}

static struct arena_block *block_new(struct arena *arena)
{
	size_t bytes = arena_block_bytes(arena);
	struct arena_block *block = aligned_alloc(bytes, bytes);

	if (!block)
		return NULL;
	block->nr_refs = 0;
	block->end = (uint8_t *)block + bytes;
	block->next_all = arena->all;
	arena->all = block;
	return block;
}

static void block_spare(struct arena *arena, struct arena_block *block)
{
	block->next_spare = arena->spare;
	arena->spare = block;
}

struct arena_block *arena_renew(struct arena *arena)
{
	struct arena_block *block = arena->spare;

	if (block)
		arena->spare = block->next_spare;
	else
		block = block_new(arena);
	if (!block)
		return NULL;
	if (arena->current && !arena->current->nr_refs)
		block_spare(arena, arena->current);
	arena->current = block;
	return block;
}

static struct arena_block *block_of(const struct arena *arena, const void *within)
{
	return (struct arena_block *)((uintptr_t)within & ~(uintptr_t)(arena_block_bytes(arena) - 1));
}

void arena_hold(struct arena *arena, const void *within)
{
	block_of(arena, within)->nr_refs++;
}

void arena_release(struct arena *arena, const void *within)
{
	struct arena_block *block = block_of(arena, within);

	if (--block->nr_refs == 0 && block != arena->current)
		block_spare(arena, block);
}

int source_check_size(const struct perf_event_header *header, uint64_t offset, struct diag *reterr)
{
	if (header->size >= sizeof(*header))
		return 0;
	return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": no record (type %" PRIu32 ", size %u)", offset,
			header->type, header->size);
}

struct source_range_state {
	struct source source;
	struct source_range range;
	uint64_t chunk_end;        /* of the COMPRESSED2 records that claimed to be one, if that is behind range.at */
	struct arena arena;        /* aligned copies of records that do not lie on a multiple of 8 */
	struct source_skip *skips; /* heap; ascending, from next_skip on still to come */
	size_t nr_skips, next_skip;
	uint8_t *free; /* in the arena's current block; NULL: none */
};

static struct source_range_state *state_of(struct source *source)
{
	return (struct source_range_state *)source;
}

static void range_hold(struct source *source, const void *record)
{
	arena_hold(&state_of(source)->arena, record);
}

static void range_release(struct source *source, const void *record)
{
	arena_release(&state_of(source)->arena, record);
}

static void range_close(struct source *source)
{
	arena_fini(&state_of(source)->arena);
	free(state_of(source)->skips);
	free(source);
}

static void *aligned_copy(struct source_range_state *state, const void *record, size_t len)
{
	if (!state->free || len > (size_t)(state->arena.current->end - state->free)) {
		struct arena_block *block = arena_renew(&state->arena);
		if (!block)
			return NULL;
		state->free = block->bytes;
	}
	void *copy = memcpy(state->free, record, len);
	state->free += (len + 7) & ~(size_t)7; /* blocks end at a multiple of 8, too */
	return copy;
}

static int range_end(const struct source_range_state *state, struct diag *reterr)
{
	const struct source_range *range = &state->range;

	switch (range->shortage) {
	case SOURCE_UNFINISHED:
		return diag_set(reterr, -EBADMSG,
				"offset %#" PRIx64 ": the recording was not finished; what was there is read",
				range->at);
	case SOURCE_TRUNCATED:
		return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": the file is cut off here; more was recorded",
				range->at);
	case SOURCE_UNDESCRIBED:
		return diag_set(reterr, -EBADMSG,
				"offset %#zx: the file is cut off here; all records were read, but what describes them "
				"is not all there",
				range->whole.len);
	default: return 0;
	}
}

static int range_cut(const struct source_range_state *state, const char *name, uint64_t need, struct diag *reterr)
{
	const struct source_range *range = &state->range;

	if (range->shortage == SOURCE_UNFINISHED || range->shortage == SOURCE_TRUNCATED)
		return range_end(state, reterr);
	return diag_set(reterr, -EBADMSG,
			"offset %#" PRIx64 ": cut off: %s takes %" PRIu64 " bytes, the data ends after %" PRIu64,
			range->at, name, need, range->end - range->at);
}

static void range_skip(struct source *source, struct source_skip *skips, size_t nr)
{
	free(state_of(source)->skips);
	state_of(source)->skips = skips;
	state_of(source)->nr_skips = nr;
}

/* What the list says is trusted no further than the range goes. */
static void pass_skips(struct source_range_state *state)
{
	struct source_range *range = &state->range;

	for (; state->next_skip < state->nr_skips; state->next_skip++) {
		const struct source_skip *skip = &state->skips[state->next_skip];
		if (skip->offset > range->at)
			return;
		if (skip->offset == range->at && skip->bytes <= range->end - range->at)
			range->at += skip->bytes;
	}
}

static bool range_stretch(struct source *source, struct source_stretch *ret)
{
	struct source_range_state *state = state_of(source);
	const struct source_range *range = &state->range;

	pass_skips(state);
	const uint8_t *bytes = (const uint8_t *)range->whole.ptr + range->at;
	uint64_t end = state->next_skip < state->nr_skips ? state->skips[state->next_skip].offset : range->end;
	if (end > range->end)
		end = range->end;
	if ((uintptr_t)bytes % 8 || range->at >= end)
		return false;
	*ret = (struct source_stretch){.records = {bytes, end - range->at}, .offset = range->at};
	return true;
}

static void range_pass(struct source *source, const struct source_passed *passed)
{
	state_of(source)->range.at += passed->bytes; /* what lies in the range stays */
}

/* 1: the next record of a chunk of COMPRESSED2 records; 0: none begins or goes on here; -errno. */
static int range_next_of_chunk(struct source_range_state *state, struct source_record *ret, struct diag *reterr)
{
	struct source_range *range = &state->range;
	const uint8_t *bytes = (const uint8_t *)range->whole.ptr + range->at;
	bool first = state->chunk_end <= range->at;
	struct record_compressed2 header;

	if (range->end - range->at < sizeof(header))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	if (first)
		state->chunk_end = range->at + record_compressed2_chunk(&header);
	if (state->chunk_end <= range->at)
		return 0;
	if (state->chunk_end > range->end)
		return range_cut(state, record_type_name(header.header.type), state->chunk_end - range->at, reterr);
	if (!record_compressed2_in_chunk(&header, first, state->chunk_end - range->at))
		return diag_set(reterr, -EBADMSG,
				"offset %#" PRIx64 ": no %s record, where a chunk of them goes on until %#" PRIx64,
				range->at, record_type_name(RECORD_COMPRESSED2), state->chunk_end);
	void *record = aligned_copy(state, bytes, header.header.size);
	if (!record)
		return diag_set(reterr, -ENOMEM, "out of memory");
	memcpy(record, &header, sizeof(header));
	*ret = (struct source_record){.view = {.header = record, .offset = range->at}};
	range->at += header.header.size;
	return 1;
}

static int range_next(struct source *source, struct source_record *ret, struct diag *reterr)
{
	struct source_range_state *state = state_of(source);
	struct source_range *range = &state->range;

	pass_skips(state);
	int got = range_next_of_chunk(state, ret, reterr);
	if (got)
		return got;
	const uint8_t *bytes = (const uint8_t *)range->whole.ptr + range->at;
	uint64_t left = range->end - range->at;
	struct perf_event_header header;

	if (!left)
		return range_end(state, reterr);
	if (left < sizeof(header))
		return range_cut(state, "a record", sizeof(header), reterr);
	memcpy(&header, bytes, sizeof(header));
	int err = source_check_size(&header, range->at, reterr);
	if (err)
		return err;
	if (header.size > left)
		return range_cut(state, record_type_name(header.type), header.size, reterr);

	const void *record = bytes;
	if ((uintptr_t)bytes % 8) {
		record = aligned_copy(state, bytes, header.size);
		if (!record)
			return diag_set(reterr, -ENOMEM, "out of memory");
	}
	uint64_t outside = source_outside_bytes(record);
	if (outside > left - header.size)
		return range_cut(state, record_type_name(header.type), header.size + outside, reterr);

	*ret = (struct source_record){
		.view = {.header = record, .offset = range->at},
		.outside = {bytes + header.size, outside},
	};
	range->at += header.size + outside;
	return 1;
}

/* The frame whose magic number is there begins a COMPRESSED record, behind a hash or not. */
static bool is_extent(const uint8_t *start, const uint8_t *magic, const uint8_t *end, uint64_t *ret_offset)
{
	for (size_t before = 0; before <= ZSTD_HASH_BYTES; before += ZSTD_HASH_BYTES) {
		struct perf_event_header header;
		struct zstd_frame frame;
		if ((size_t)(magic - start) < before + sizeof(header))
			break;
		const uint8_t *payload = magic - before, *record = payload - sizeof(header);
		memcpy(&header, record, sizeof(header));
		if (header.type != RECORD_COMPRESSED || header.size <= sizeof(header) || header.size > end - record ||
		    !zstd_frame_start((struct span){payload, header.size - sizeof(header)}, &frame))
			continue;
		*ret_offset = (uint64_t)(record - start);
		return true;
	}
	return false;
}

/* By bytes: COMPRESSED records are not aligned. */
static bool range_find_extent(struct source *source, uint64_t offset)
{
	static const uint32_t magic = 0xfd2fb528; /* RFC 8878, 3.1.1 */
	struct source_range *range = &state_of(source)->range;
	const uint8_t *start = range->whole.ptr, *at = start + offset + sizeof(struct perf_event_header);
	const uint8_t *end = start + range->end;

	if (offset >= range->end)
		return false;
	for (uint64_t found; at < end && (at = memmem(at, (size_t)(end - at), &magic, sizeof(magic))); at++) {
		if (is_extent(start, at, end, &found) && found >= offset) {
			range->at = found;
			state_of(source)->chunk_end = 0;
			return true;
		}
	}
	return false;
}

static const struct source_ops range_ops = {
	.find_extent = range_find_extent,
	.leave_out = range_skip,
	.stretch = range_stretch,
	.pass = range_pass,
	.next = range_next,
	.hold = range_hold,
	.release = range_release,
	.close = range_close,
};

int source_open_range(const struct source_range *range, struct source **ret)
{
	struct source_range_state *state = calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	state->source = (struct source){.ops = &range_ops, .stays = range->whole};
	state->range = *range;
	*ret = &state->source;
	return 0;
}

enum { OUTSIDE_STEP_BYTES = 1 << 20 }; /* memory follows what really comes, not what a record promises */

struct source_pipe {
	struct source source;
	struct session_stream stream;
	const volatile sig_atomic_t *const *stop;
	struct arena arena;
	uint8_t *at, *filled; /* unread bytes, in the arena's current block */
	uint64_t offset;      /* of `at` in the pipe */
	uint64_t chunk_end;   /* likewise: as in source_range_state */
	struct buf outside;
};

static struct source_pipe *pipe_of(struct source *source)
{
	return (struct source_pipe *)source;
}

static void pipe_hold(struct source *source, const void *record)
{
	(void)source;
	arena_hold(&pipe_of(source)->arena, record);
}

static void pipe_release(struct source *source, const void *record)
{
	arena_release(&pipe_of(source)->arena, record);
}

static void pipe_close(struct source *source)
{
	arena_fini(&pipe_of(source)->arena);
	buf_fini(&pipe_of(source)->outside);
	free(source);
}

static bool is_stopped(const struct source_pipe *pipe)
{
	return *pipe->stop && **pipe->stop;
}

/* Bytes read, 0 at the end, or -errno. */
static ssize_t read_some(const struct source_pipe *pipe, void *to, size_t len)
{
	while (!is_stopped(pipe)) {
		ssize_t got = pipe->stream.read(pipe->stream.ctx, to, len);
		if (got != -EINTR)
			return got;
	}
	return 0;
}

/* Puts the unread bytes where `need` of them fit, aligned. */
static int make_room(struct source_pipe *pipe, size_t need)
{
	size_t have = (size_t)(pipe->filled - pipe->at), skew = -(uintptr_t)pipe->at & 7;
	struct arena_block *block = pipe->arena.current;
	size_t room = block ? (size_t)(block->end - pipe->at) : 0;

	if (block && need + skew <= room && have + skew <= room) {
		/* Records of odd sizes (HEADER_FEATURE) leave what follows unaligned; no record there was given yet. */
		if (skew)
			memmove(pipe->at + skew, pipe->at, have);
		pipe->at += skew;
		pipe->filled += skew;
		return 0;
	}
	block = arena_renew(&pipe->arena);
	if (!block)
		return -ENOMEM;
	if (have)
		memcpy(block->bytes, pipe->at, have);
	pipe->at = block->bytes;
	pipe->filled = block->bytes + have;
	return 0;
}

/* At least `need` bytes at pipe->at. 1, 0 when the pipe ends before, -errno. */
static int fill(struct source_pipe *pipe, size_t need)
{
	if ((uintptr_t)pipe->at % 8 || !pipe->arena.current || need > (size_t)(pipe->arena.current->end - pipe->at)) {
		int err = make_room(pipe, need);
		if (err)
			return err;
	}
	while ((size_t)(pipe->filled - pipe->at) < need) {
		ssize_t got = read_some(pipe, pipe->filled, (size_t)(pipe->arena.current->end - pipe->filled));
		if (got <= 0)
			return (int)got;
		pipe->filled += got;
	}
	return 1;
}

static void pass(struct source_pipe *pipe, size_t bytes)
{
	pipe->at += bytes;
	pipe->offset += bytes;
}

/* err 0: it ends, or reading was stopped, which is no error wherever it was. */
static int pipe_failed(const struct source_pipe *pipe, int err, struct diag *reterr)
{
	if (err == 0 && is_stopped(pipe))
		return 0;
	if (err == 0)
		return diag_set(reterr, -EBADMSG, "offset %#" PRIx64 ": the pipe ends inside a record",
				pipe->offset + (uint64_t)(pipe->filled - pipe->at));
	return diag_set(reterr, err, "offset %#" PRIx64 ": reading the pipe: %s", pipe->offset, strerror(-err));
}

/* Moves `bytes` on to pipe->outside (keep) or to nowhere. 1, 0 at the end, -errno. */
static int take_outside(struct source_pipe *pipe, uint64_t bytes, bool keep)
{
	while (bytes) {
		size_t have = (size_t)(pipe->filled - pipe->at);
		if (!have) {
			int got = fill(pipe, 8 < bytes ? 8 : (size_t)bytes);
			if (got <= 0)
				return got;
			continue;
		}
		size_t step = have < bytes ? have : (size_t)bytes;
		if (keep)
			buf_put(&pipe->outside, pipe->at, step);
		pass(pipe, step);
		bytes -= step;
	}
	return pipe->outside.failed ? -ENOMEM : 1;
}

/* At pipe->at is a record of a chunk of COMPRESSED2 records: its sizes are put right. 1, 0 at the end, -errno. */
static int mend_in_chunk(struct source_pipe *pipe, struct diag *reterr)
{
	bool first = pipe->chunk_end <= pipe->offset;
	int got = fill(pipe, sizeof(struct record_compressed2));

	if (got <= 0)
		return got;
	struct record_compressed2 *header = (void *)pipe->at;
	if (first)
		pipe->chunk_end = pipe->offset + record_compressed2_chunk(header);
	if (pipe->chunk_end > pipe->offset &&
	    !record_compressed2_in_chunk(header, first, pipe->chunk_end - pipe->offset))
		return diag_set(reterr, -EBADMSG,
				"offset %#" PRIx64 ": no %s record, where a chunk of them goes on until %#" PRIx64,
				pipe->offset, record_type_name(RECORD_COMPRESSED2), pipe->chunk_end);
	return 1;
}

static int pipe_next(struct source *source, struct source_record *ret, struct diag *reterr)
{
	struct source_pipe *pipe = pipe_of(source);
	struct perf_event_header *header;

	int got = fill(pipe, sizeof(*header));
	if (got == 0 && pipe->at == pipe->filled)
		return 0;
	if (got <= 0)
		return pipe_failed(pipe, got, reterr);
	header = (void *)pipe->at;
	if (header->type == RECORD_COMPRESSED2 || pipe->chunk_end > pipe->offset) {
		got = mend_in_chunk(pipe, reterr);
		if (got <= 0)
			return got == -EBADMSG ? got : pipe_failed(pipe, got, reterr);
		header = (void *)pipe->at;
	}
	int err = source_check_size(header, pipe->offset, reterr);
	if (err)
		return err;
	got = fill(pipe, header->size);
	if (got <= 0)
		return pipe_failed(pipe, got, reterr);

	header = (void *)pipe->at;
	*ret = (struct source_record){.view = {.header = header, .offset = pipe->offset}};
	pass(pipe, header->size);

	uint64_t outside = source_outside_bytes(header);
	if (outside) {
		bool keep = header->type == RECORD_TRACING_DATA;
		struct perf_event_header *kept = header;
		pipe->outside.len = 0;
		arena_hold(&pipe->arena, kept);
		got = take_outside(pipe, outside, keep);
		arena_release(&pipe->arena, kept);
		if (got <= 0)
			return pipe_failed(pipe, got, reterr);
		ret->outside = keep ? buf_span(&pipe->outside) : (struct span){0};
	}
	return 1;
}

static const struct source_ops pipe_ops = {
	.next = pipe_next,
	.hold = pipe_hold,
	.release = pipe_release,
	.close = pipe_close,
};

static ssize_t read_fd(void *ctx, void *to, size_t len)
{
	struct pollfd input = {.fd = (int)(intptr_t)ctx, .events = POLLIN};
	ssize_t got = read(input.fd, to, len);

	/* A process that shares the file may have made it non-blocking. The caller reads again. */
	if (got < 0 && errno == EAGAIN && poll(&input, 1, -1) >= 0)
		return -EINTR;
	return got < 0 ? -errno : got;
}

struct session_stream source_stream_of(int fd)
{
	return (struct session_stream){.read = read_fd, .ctx = (void *)(intptr_t)fd};
}

int source_open_pipe(int fd, const volatile sig_atomic_t *const *stop, struct source **ret)
{
	return source_open_stream(source_stream_of(fd), stop, ret);
}

int source_open_stream(struct session_stream stream, const volatile sig_atomic_t *const *stop, struct source **ret)
{
	struct source_pipe *pipe = calloc(1, sizeof(*pipe));

	if (!pipe)
		return -ENOMEM;
	pipe->source.ops = &pipe_ops;
	pipe->stream = stream;
	pipe->stop = stop;
	pipe->offset = LAYOUT_PIPE_HEADER_BYTES;
	*ret = &pipe->source;
	return 0;
}
