/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "format/layout.h"
#include "read/arena.h"
#include "read/source.h"

enum { OUTSIDE_STEP_BYTES = 1 << 20 }; /* memory follows what really comes, not what a record promises */

struct source_pipe {
	struct source source;
	int fd;
	struct arena arena;
	uint8_t *at, *filled; /* unread bytes, in the arena's current block */
	uint64_t offset;      /* of `at` in the pipe */
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

/* Bytes read, 0 at the end, or -errno. */
static ssize_t read_some(int fd, void *to, size_t len)
{
	ssize_t got;

	do
		got = read(fd, to, len);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Puts the unread bytes where `need` of them fit, aligned. */
static int make_room(struct source_pipe *pipe, size_t need)
{
	size_t have = (size_t)(pipe->filled - pipe->at), skew = -(uintptr_t)pipe->at & 7;
	struct arena_block *block = pipe->arena.current;
	size_t room = block ? (size_t)(block->end - pipe->at) : 0;

	if (block && need + skew <= room && have + skew <= room) {
		/* Records of odd sizes (HEADER_FEATURE) leave what follows askew; nobody else points there yet. */
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
		ssize_t got =
			read_some(pipe->fd, pipe->filled, (size_t)(pipe->arena.current->end - pipe->filled));
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

static int pipe_failed(const struct source_pipe *pipe, int err, struct diag *reterr)
{
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
		struct perf_event_header *held = header;
		pipe->outside.len = 0;
		arena_hold(&pipe->arena, held);
		got = take_outside(pipe, outside, keep);
		arena_release(&pipe->arena, held);
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

int source_open_pipe(int fd, struct source **ret)
{
	struct source_pipe *pipe = calloc(1, sizeof(*pipe));

	if (!pipe)
		return -ENOMEM;
	pipe->source.ops = &pipe_ops;
	pipe->fd = fd;
	pipe->offset = LAYOUT_PIPE_HEADER_BYTES;
	*ret = &pipe->source;
	return 0;
}
