/* SPDX-License-Identifier: MIT */
/*
 * output_buf: bytes that are written into a file in large writes. Append them to `buf` (a json_writer can, too), and
 * call output_buf_flush_large() now and then. One owner, one thread.
 */
#pragma once

#include "base/buf.h"
#include "base/fd.h"

enum { OUTPUT_BUF_WRITE_BYTES = 1 << 18 };

/* Zeroed but for the fd, which stays the caller's. */
struct output_buf {
	int fd;
	int err; /* first -errno; nothing is written after it */
	struct buf buf;
};

/* Writes all that is in `buf`. 0 or the first -errno. */
static inline int output_buf_flush(struct output_buf *output)
{
	if (!output->err)
		output->err = buf_status(&output->buf);
	if (!output->err && output->buf.len)
		output->err = fd_write(output->fd, output->buf.data, output->buf.len);
	output->buf.len = 0;
	return output->err;
}

/* Writes all when `buf` has OUTPUT_BUF_WRITE_BYTES or more. 0 or the first -errno. */
static inline int output_buf_flush_large(struct output_buf *output)
{
	return output->buf.len < OUTPUT_BUF_WRITE_BYTES && !output->buf.failed ? output->err : output_buf_flush(output);
}

static inline void output_buf_fini(struct output_buf *output)
{
	buf_fini(&output->buf);
}
