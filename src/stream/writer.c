/* SPDX-License-Identifier: MIT */
#include "stream/writer.h"

#include <errno.h>
#include <stdlib.h>

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

int writer_reap(struct writer *writer, enum writer_wait wait)
{
	if (writer->err)
		return writer->err;
	return writer->ops->reap ? stick(writer, writer->ops->reap(writer, wait)) : 0;
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
	return writer->behind && atomic_load_explicit(writer->behind, memory_order_relaxed);
}

int writer_place(struct writer *writer)
{
	return writer->err || !writer->ops->place ? writer->err : stick(writer, writer->ops->place(writer));
}

int writer_commit(struct writer *writer, bool all)
{
	return writer->err || !writer->ops->commit ? writer->err : stick(writer, writer->ops->commit(writer, all));
}

int writer_put(struct writer *writer, const void *bytes, size_t len)
{
	struct span span = {bytes, len};
	int err;

	if (!len || writer->err)
		return writer->err;
	if (writer->ops->put)
		return stick(writer, writer->ops->put(writer, bytes, len));
	while ((err = writer_queue(writer, &span, 1)) == -EAGAIN) {
		err = writer_reap(writer, WRITER_ROOM);
		if (err)
			return err;
	}
	return err;
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
