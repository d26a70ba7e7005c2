/* SPDX-License-Identifier: MIT */
/*
 * The uring engine: io_uring(7). As the aio engine, but the kernel's own workers write the blocks, and what is done is
 * seen in shared memory, without a system call.
 */
#include <errno.h>
#include <liburing.h>

#include "stream/staging.h"
#include "stream/writer.h"

struct uring {
	struct writer writer;
	int fd;
	struct staging staging;
	struct io_uring ring;
	size_t in_progress; /* requests without a result yet */
};

enum { MAX_BLOCKS = 32768 }; /* IORING_MAX_ENTRIES, io_uring/io_uring.c */

/*
 * One worker: writes to one file wait for each other anyway, on the lock of its inode, and each one that is forced to
 * a worker and has to wait gets a thread of its own (Linux 6.18: 1014 threads for 1088 writes to slow storage).
 * io_uring_register_iowq_max_workers(3); kernels before 5.15 do not know it, and get by with more.
 */
static void limit_workers(struct io_uring *ring)
{
	unsigned bounded_and_not[] = {1, 1};

	io_uring_register_iowq_max_workers(ring, bounded_and_not);
}

/* -ENOSYS, -EPERM, -EACCES: the kernel, its sysctl io_uring_disabled or a seccomp filter does not allow it. */
static int uring_open(struct writer *writer, const struct writer_params *params)
{
	struct uring *uring = (struct uring *)writer;

	if (params->nr_blocks > MAX_BLOCKS)
		return -E2BIG;
	uring->fd = params->fd;
	int err = staging_init(&uring->staging, params->nr_blocks, params->block_bytes);
	if (err)
		return err;
	err = io_uring_queue_init((unsigned)params->nr_blocks, &uring->ring, 0);
	if (err)
		staging_fini(&uring->staging);
	else
		limit_workers(&uring->ring);
	return err;
}

/* Requests that the kernel has; the others are entries that it has not taken yet. */
static size_t in_kernel(const struct uring *uring)
{
	return uring->in_progress - io_uring_sq_ready(&uring->ring);
}

/*
 * Hands over the entries that wait. A kernel that is short of memory for them takes them later, when it is done with
 * others (EAGAIN, EBUSY: io_uring_enter(2)); when it has no others, that is an error.
 */
static int hand_over(struct uring *uring)
{
	int submitted = io_uring_submit(&uring->ring);

	if (submitted >= 0 || submitted == -EINTR)
		return 0;
	if (submitted != -EAGAIN && submitted != -EBUSY)
		return submitted;
	return in_kernel(uring) || io_uring_submit(&uring->ring) >= 0 ? 0 : -ENOMEM;
}

/*
 * There is a submission entry for every block. ASYNC: a worker writes, also into the page cache; without it
 * io_uring_enter() would first try to do so itself, in our time.
 */
static int submit(struct uring *uring, struct staging_block *block)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&uring->ring);

	if (!entry)
		return -EIO;
	io_uring_prep_write(entry, uring->fd, block->data + block->done, (unsigned)(block->len - block->done),
			    block->offset + block->done);
	io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
	io_uring_sqe_set_data(entry, block);
	uring->in_progress++;
	return hand_over(uring);
}

static int uring_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct uring *uring = (struct uring *)writer;
	size_t len = 0;

	for (unsigned i = 0; i < nr_spans; i++)
		len += spans[i].len;
	if (len > uring->staging.block_bytes)
		return staging_bypass(&uring->staging, writer, uring->fd, spans, nr_spans);
	struct staging_block *block =
		staging_fill(&uring->staging, spans, nr_spans, writer->offset + writer->queued);
	if (!block)
		return -EAGAIN;
	int err = submit(uring, block);
	if (err)
		return err;
	writer->queued += len;
	writer->retired = writer->queued;
	return 0;
}

/*
 * When a thread ends the kernel gives up what it still has to do for it (ECANCELED, EINTR): then it is asked anew, by who
 * looks now.
 */
static int harvest(struct uring *uring)
{
	struct io_uring_cqe *done;
	int first_err = 0;

	while (io_uring_peek_cqe(&uring->ring, &done) == 0) {
		struct staging_block *block = io_uring_cqe_get_data(done);
		int result = done->res;
		io_uring_cqe_seen(&uring->ring, done);
		uring->in_progress--;
		if (staging_progress(block, result))
			continue;
		int err = submit(uring, block);
		if (err) {
			staging_progress(block, err);
			first_err = first_err ? first_err : err;
		}
	}
	return first_err;
}

static int wait_for_one(struct uring *uring)
{
	struct io_uring_cqe *done;
	int err = io_uring_sq_ready(&uring->ring) ? hand_over(uring) : 0;

	if (!err && in_kernel(uring))
		err = io_uring_wait_cqe(&uring->ring, &done);
	if (err == -EAGAIN)
		err = io_uring_wait_cqe(&uring->ring, &done); /* once, as who hands over does */
	return err == -EINTR ? 0 : err == -EAGAIN ? -EIO : err; /* EAGAIN would mean "full" to who reaps */
}

static int uring_reap(struct writer *writer, enum writer_wait wait)
{
	struct uring *uring = (struct uring *)writer;

	for (;;) {
		harvest(uring);
		int err = staging_retire(&uring->staging, writer);
		if (err)
			return err;
		size_t target = wait == WRITER_ALL ? 0 : wait == WRITER_ROOM ? uring->staging.nr_blocks - 1 : SIZE_MAX;
		if (uring->staging.nr <= target)
			return 0;
		err = wait_for_one(uring);
		if (err)
			return err;
	}
}

static int uring_close(struct writer *writer)
{
	struct uring *uring = (struct uring *)writer;
	int err = 0;

	/* Also after an error: nothing is freed while it is written from. */
	while (uring->in_progress && !err) {
		err = wait_for_one(uring);
		harvest(uring);
	}
	int retire_err = staging_retire(&uring->staging, writer);
	bool in_use = in_kernel(uring) > 0;
	io_uring_queue_exit(&uring->ring);
	if (!in_use)
		staging_fini(&uring->staging);
	return retire_err ? retire_err : err;
}

const struct writer_ops writer_uring = {
	.name = "uring",
	.state_bytes = sizeof(struct uring),
	.optional = true,
	.seeks = true,
	.stages = true,
	.open = uring_open,
	.queue = uring_queue,
	.reap = uring_reap,
	.close = uring_close,
};
