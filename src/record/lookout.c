/* SPDX-License-Identifier: MIT */
#include "record/lookout.h"

#include <errno.h>
#include <stdlib.h>

#include "record/hits.h"
#include "stream/writer.h"

struct lookout {
	struct writer writer;
	struct writer *inner;
	struct hits_live *live;
};

static int mirror(struct lookout *lookout, int err)
{
	lookout->writer.queued = lookout->inner->queued;
	lookout->writer.retired = lookout->inner->retired;
	lookout->writer.stored = lookout->inner->stored;
	return err;
}

/* Behind the write: the bytes are in the cache then, and still in their ring, for the pump has not released them. */
static int lookout_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct lookout *lookout = (struct lookout *)writer;
	uint64_t offset = lookout->inner->offset + lookout->inner->queued;
	int err = mirror(lookout, writer_queue(lookout->inner, spans, nr_spans));

	if (!err)
		hits_live_see(lookout->live, offset, spans, nr_spans);
	return err;
}

/* What is put into a stage stands between its extents, and is read there. */
static int lookout_put_staged(struct writer *writer, const void *bytes, size_t len)
{
	struct lookout *lookout = (struct lookout *)writer;

	return mirror(lookout, writer_put(lookout->inner, bytes, len));
}

static int lookout_queue_staged(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct lookout *lookout = (struct lookout *)writer;
	int err = mirror(lookout, writer_queue(lookout->inner, spans, nr_spans));

	if (!err)
		hits_live_see_staged(lookout->live, spans, nr_spans);
	return err;
}

static int lookout_place(struct writer *writer)
{
	struct lookout *lookout = (struct lookout *)writer;

	return mirror(lookout, writer_place(lookout->inner));
}

static int lookout_reap(struct writer *writer, enum writer_wait wait)
{
	struct lookout *lookout = (struct lookout *)writer;

	return mirror(lookout, writer_reap(lookout->inner, wait));
}

static const struct writer_ops lookout_ops = {
	.name = "lookout",
	.state_bytes = sizeof(struct lookout),
	.queue = lookout_queue,
	.reap = lookout_reap,
};

static const struct writer_ops staged_ops = {
	.name = "lookout",
	.state_bytes = sizeof(struct lookout),
	.queue = lookout_queue_staged,
	.put = lookout_put_staged,
	.place = lookout_place,
	.reap = lookout_reap,
};

int lookout_open(struct writer *inner, bool staged, struct hits_live *live, struct writer **ret)
{
	struct lookout *lookout = calloc(1, sizeof(*lookout));

	if (!lookout)
		return -ENOMEM;
	*lookout = (struct lookout){
		.writer = {
			.ops = staged ? &staged_ops : &lookout_ops,
			.offset = inner->offset,
			.path = inner->path,
			.behind = inner->behind,
			.lanes = inner->lanes,
		},
		.inner = inner,
		.live = live,
	};
	mirror(lookout, 0);
	*ret = &lookout->writer;
	return 0;
}
