/* SPDX-License-Identifier: MIT */
/*
 * The aio writer: POSIX AIO. A chunk is copied into a free block, which frees its source at once, and is written from
 * there at its own offset while the rings are drained on.
 *
 * The blocks of all rings are one pool: a hot ring gets those that idle ones do not need. glibc serves requests of
 * one file one after the other, in a thread of its own.
 */
#include <aio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "stream/staging.h"
#include "stream/writer.h"

struct aio {
	struct writer writer;
	int fd;
	struct staging staging;
	struct aiocb *controls; /* by block */
};

static struct aiocb *control_of(struct aio *aio, const struct staging_block *block)
{
	return &aio->controls[block - aio->staging.blocks];
}

static int aio_open(struct writer *writer, const struct writer_params *params)
{
	struct aio *aio = (struct aio *)writer;
	int err = staging_init(&aio->staging, params->nr_blocks, params->block_bytes);

	if (err)
		return err;
	aio->fd = params->fd;
	aio->controls = calloc(params->nr_blocks, sizeof(*aio->controls));
	if (!aio->controls) {
		staging_fini(&aio->staging);
		return -ENOMEM;
	}
	return 0;
}

/* Queues what is left of a block. When the system takes no more requests we write it ourselves. */
static void submit(struct aio *aio, struct staging_block *block)
{
	struct aiocb *control = control_of(aio, block);

	memset(control, 0, sizeof(*control));
	control->aio_fildes = aio->fd;
	control->aio_buf = block->data + block->done;
	control->aio_nbytes = block->len - block->done;
	control->aio_offset = (off_t)(block->offset + block->done);
	control->aio_sigevent.sigev_notify = SIGEV_NONE;
	if (aio_write(control) == 0)
		return;
	int err = fd_pwrite(aio->fd, block->data + block->done, block->len - block->done, block->offset + block->done);
	staging_progress(block, err ? err : (int64_t)(block->len - block->done));
}

static int aio_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct aio *aio = (struct aio *)writer;
	size_t len = 0;

	for (unsigned i = 0; i < nr_spans; i++)
		len += spans[i].len;
	if (len > aio->staging.block_bytes)
		return staging_bypass(&aio->staging, writer, aio->fd, spans, nr_spans);
	struct staging_block *block = staging_fill(&aio->staging, spans, nr_spans, writer->offset + writer->queued);
	if (!block)
		return -EAGAIN;
	submit(aio, block);
	writer->queued += len;
	return 0;
}

/*
 * Takes the results that are there, oldest first, up to the first that is not: nothing behind it counts as stored, and
 * requests of one file end in order. The rest of a short write is queued again.
 */
static void harvest(struct aio *aio)
{
	for (size_t i = 0; i < aio->staging.nr; i++) {
		struct staging_block *block = staging_at(&aio->staging, i);
		struct aiocb *control = control_of(aio, block);
		if (block->complete)
			continue;
		int err = aio_error(control);
		if (err == EINPROGRESS)
			return;
		ssize_t bytes = aio_return(control);
		if (!staging_progress(block, err ? -err : bytes))
			submit(aio, block);
	}
}

/* For the oldest only: aio_suspend() takes time for each request that it is given. */
static int wait_for_one(struct aio *aio)
{
	for (size_t i = 0; i < aio->staging.nr; i++) {
		struct staging_block *block = staging_at(&aio->staging, i);
		if (block->complete)
			continue;
		const struct aiocb *oldest = control_of(aio, block);
		return aio_suspend(&oldest, 1, NULL) == 0 || errno == EINTR ? 0 : -errno;
	}
	return 0;
}

static int aio_complete(struct writer *writer, enum writer_wait wait)
{
	struct aio *aio = (struct aio *)writer;

	for (;;) {
		harvest(aio);
		int err = staging_complete(&aio->staging, writer);
		if (err)
			return err;
		size_t target = wait == WRITER_ALL ? 0 : wait == WRITER_ROOM ? aio->staging.nr_blocks - 1 : SIZE_MAX;
		if (aio->staging.nr <= target)
			return 0;
		err = wait_for_one(aio);
		if (err)
			return err;
	}
}

/* Is a request still using our memory? */
static bool any_in_progress(struct aio *aio)
{
	for (size_t i = 0; i < aio->staging.nr; i++)
		if (!staging_at(&aio->staging, i)->complete)
			return true;
	return false;
}

static int aio_close(struct writer *writer)
{
	struct aio *aio = (struct aio *)writer;
	int err = 0;

	if (writer->err)
		aio_cancel(aio->fd, NULL);
	/* Also after an error: nothing is freed while it is written from. */
	while (any_in_progress(aio) && !err) {
		err = wait_for_one(aio);
		harvest(aio);
	}
	int complete_err = staging_complete(&aio->staging, writer);
	if (any_in_progress(aio))
		return err; /* cannot even wait: rather leak the memory than write rubbish */
	staging_fini(&aio->staging);
	free(aio->controls);
	return complete_err;
}

const struct writer_ops writer_aio = {
	.name = "aio",
	.state_bytes = sizeof(struct aio),
	.seeks = true,
	.stages = true,
	.open = aio_open,
	.queue = aio_queue,
	.complete = aio_complete,
	.close = aio_close,
};
