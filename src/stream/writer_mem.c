/* SPDX-License-Identifier: MIT */
/* The mem engine: keeps everything on the heap. */
#include <errno.h>

#include "base/buf.h"
#include "stream/writer.h"

struct mem {
	struct writer writer;
	struct buf bytes;
};

static int mem_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct mem *mem = (struct mem *)writer;

	for (unsigned i = 0; i < nr_spans; i++) {
		buf_put(&mem->bytes, spans[i].ptr, spans[i].len);
		writer->queued += spans[i].len;
	}
	writer->stored = writer->queued;
	return mem->bytes.failed ? -ENOMEM : 0;
}

static int mem_close(struct writer *writer)
{
	buf_fini(&((struct mem *)writer)->bytes);
	return 0;
}

struct span writer_mem_bytes(const struct writer *writer)
{
	return buf_span(&((const struct mem *)writer)->bytes);
}

const struct writer_ops writer_mem = {
	.name = "mem",
	.state_bytes = sizeof(struct mem),
	.queue = mem_queue,
	.close = mem_close,
};
