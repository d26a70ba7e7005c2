/* SPDX-License-Identifier: MIT */
/*
 * sink: bytes into a file in large writes. Put them into `buf` (also by a json_writer), and call sink_relieve() now and
 * then. One owner, one thread.
 */
#pragma once

#include "base/buf.h"
#include "base/fd.h"

enum { SINK_WRITE_BYTES = 1 << 18 };

/* Zeroed but for the fd, which stays the caller's. */
struct sink {
	int fd;
	int err; /* first -errno; nothing is written after it */
	struct buf buf;
};

/* Writes what there is. 0 or the first -errno. */
static inline int sink_flush(struct sink *sink)
{
	if (!sink->err)
		sink->err = buf_status(&sink->buf);
	if (!sink->err && sink->buf.len)
		sink->err = fd_write(sink->fd, sink->buf.data, sink->buf.len);
	sink->buf.len = 0;
	return sink->err;
}

/* Writes when there is much. 0 or the first -errno. */
static inline int sink_relieve(struct sink *sink)
{
	return sink->buf.len < SINK_WRITE_BYTES && !sink->buf.failed ? sink->err : sink_flush(sink);
}

static inline void sink_fini(struct sink *sink)
{
	buf_fini(&sink->buf);
}
