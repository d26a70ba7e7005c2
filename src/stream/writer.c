/* SPDX-License-Identifier: MIT */
#include "stream/writer.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "config.h"
#include "stream/allocation.h"

int writer_open(const struct writer_ops *ops, const struct writer_params *params, struct writer **ret)
{
	struct writer *writer = calloc(1, ops->state_bytes);

	if (!writer)
		return -ENOMEM;
	writer->ops = writer->stores = ops;
	writer->offset = params->offset;
	writer->path = params->path;
	int err = ops->open ? ops->open(writer, params) : 0;
	if (err) {
		free(writer);
		return err;
	}
	*ret = writer;
	return 0;
}

static int stick(struct writer *writer, int err)
{
	if (err < 0 && err != -EAGAIN && !writer->err)
		writer->err = err;
	return err;
}

int writer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	if (writer->err)
		return writer->err;
	return stick(writer, writer->ops->queue(writer, spans, nr_spans));
}

int writer_queue_wait(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	int err;

	while ((err = writer_queue(writer, spans, nr_spans)) == -EAGAIN)
		writer_complete(writer, WRITER_ROOM); /* its error is returned by the next call */
	return err;
}

int writer_complete(struct writer *writer, enum writer_wait wait)
{
	if (writer->err)
		return writer->err;
	return writer->ops->complete ? stick(writer, writer->ops->complete(writer, wait)) : 0;
}

int64_t writer_take(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	if (!writer->err && writer->ops->take) {
		int64_t bytes = writer->ops->take(writer, spans, nr_spans);
		return bytes < 0 ? stick(writer, (int)bytes) : bytes;
	}
	int err = writer_queue(writer, spans, nr_spans);
	return err ? err : (int64_t)span_total(spans, nr_spans);
}

bool writer_is_behind(const struct writer *writer)
{
	return writer->nr_behind && atomic_load_explicit(writer->nr_behind, memory_order_relaxed);
}

int writer_fix_position(struct writer *writer)
{
	return writer->err || !writer->ops->fix_position ? writer->err
							 : stick(writer, writer->ops->fix_position(writer));
}

int writer_commit(struct writer *writer, bool all)
{
	return writer->err || !writer->ops->commit ? writer->err : stick(writer, writer->ops->commit(writer, all));
}

int writer_put(struct writer *writer, const void *bytes, size_t len)
{
	if (!len || writer->err)
		return writer->err;
	if (writer->ops->put)
		return stick(writer, writer->ops->put(writer, bytes, len));
	return writer_queue_wait(writer, &(struct span){bytes, len}, 1);
}

int writer_end(struct writer *writer, struct writer_end *ret)
{
	*ret = (struct writer_end){0};
	if (!writer)
		return 0;
	int err = writer->ops->close ? stick(writer, writer->ops->close(writer)) : 0;
	err = writer->err ? writer->err : err;
	*ret = (struct writer_end){writer->stored, writer->packed, writer->extents};
	free(writer);
	return err;
}

int writer_close(struct writer *writer, uint64_t *ret_stored)
{
	struct writer_end end;
	int err = writer_end(writer, &end);

	extent_list_fini(&end.extents);
	if (writer && ret_stored)
		*ret_stored = end.stored;
	return err;
}

/* serial: write(2) of what it is given. */
struct serial {
	struct writer writer;
	int fd;
	struct allocation ahead;
};

static int serial_open(struct writer *writer, const struct writer_params *params)
{
	struct serial *serial = (struct serial *)writer;

	serial->fd = params->fd;
	serial->ahead = (struct allocation){.fd = params->fd, .start = params->offset, .off = params->appends};
	return 0;
}

static int serial_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct serial *serial = (struct serial *)writer;
	size_t done;

	allocation_reach(&serial->ahead, writer->offset + writer->queued + span_total(spans, nr_spans));
	int err = fd_write_spans(serial->fd, spans, nr_spans, &done);

	writer->stored += done;
	if (err)
		return err;
	writer->queued += done;
	return 0;
}

static int serial_close(struct writer *writer)
{
	allocation_trim(&((struct serial *)writer)->ahead, writer->offset + writer->stored);
	return 0;
}

const struct writer_ops writer_serial = {
	.name = "serial",
	.state_bytes = sizeof(struct serial),
	.open = serial_open,
	.queue = serial_queue,
	.close = serial_close,
};

/* mem: keeps everything on the heap. */
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

/* null: counts and forgets. Nothing is ever stored. */
static int null_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	for (unsigned i = 0; i < nr_spans; i++)
		writer->queued += spans[i].len;
	return 0;
}

const struct writer_ops writer_null = {
	.name = "null",
	.state_bytes = sizeof(struct writer),
	.queue = null_queue,
};

const struct writer_ops *const writers[] = {
	&writer_serial, &writer_mmap,
#ifdef HAVE_AIO
	&writer_aio,
#endif
	&writer_direct, &writer_null, NULL,
};

const struct writer_ops *writer_find(const char *name)
{
	for (const struct writer_ops *const *writer = writers; *writer; writer++)
		if (!strcmp((*writer)->name, name))
			return *writer;
	return NULL;
}
