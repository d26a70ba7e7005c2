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

int lookout_open(struct writer *inner, struct hits_live *live, struct writer **ret)
{
	struct lookout *lookout = calloc(1, sizeof(*lookout));

	if (!lookout)
		return -ENOMEM;
	*lookout = (struct lookout){
		.writer = {.ops = &lookout_ops, .offset = inner->offset, .path = inner->path},
		.inner = inner,
		.live = live,
	};
	mirror(lookout, 0);
	*ret = &lookout->writer;
	return 0;
}
