/* SPDX-License-Identifier: MIT */
/*
 * The direct engine: pieces are packed into large blocks, and a thread writes the full ones past the page cache
 * (O_DIRECT: open(2)), so that no byte is copied again and no page is looked for. Places, sizes and memory of such
 * writes are aligned; a block that is not full at a barrier, or is too old, goes through the page cache, and the next
 * one begins with the part of a page at its end.
 *
 * Where it must keep up (it was not asked for, but many threads drain into it) what comes faster than the storage takes
 * it goes through the page cache, which has more memory, and the thread is real-time: it does little but wait for the
 * storage, and on a machine whose every CPU is busy it would share one with the thread that fills the blocks.
 *
 * Between the two threads: a block belongs to the thread from `filled` to `written`; both are semaphores, and posting
 * one pairs with waiting for it. The stream's thread takes no lock and makes one system call for a block.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "stream/allocation.h"
#include "stream/writer.h"

enum {
	ALIGNMENT = 4096, /* of the largest logical sectors in use; statx(2) STATX_DIOALIGN */
	LEAST_BLOCKS = 2, /* one is filled while one is written */
	MAX_BLOCKS = 1 << 16,
	MOST_REFUSALS = 1000, /* of a storage that is never ready: a millisecond each */
	SLOW = 8,             /* a direct write that took so many times its CPU time waited for the storage */
};

struct direct_block {
	uint8_t *data;
	uint64_t at; /* file offset of its start, aligned */
	size_t len;
	size_t done; /* of these, stored */
	int err;     /* -errno of its write */
};

struct direct {
	struct writer writer;
	int fd;        /* the output, through the page cache */
	int direct_fd; /* ours; the thread's, which changes it to `fd` where it is refused after all */
	size_t block_bytes, nr_blocks;
	uint8_t *memory;
	struct direct_block *blocks; /* heap */
	struct direct_block **queue; /* heap; handed to the thread: nr_in_flight from `first` on, round the end */
	size_t first, nr_in_flight;
	struct direct_block **spare; /* heap; a stack: what was used last is still warm */
	size_t nr_spare;
	struct direct_block *current; /* being filled; NULL: none yet */
	bool aged;                    /* it was there at the last commit */
	uint64_t next_at;             /* where the next one starts */
	uint8_t lead[ALIGNMENT];      /* what stands there already, */
	size_t lead_bytes;            /* part of a page */
	struct allocation ahead;      /* the thread's */
	bool must_keep_up;
	bool slow; /* the thread's: the last direct write waited for the storage */
	pthread_t thread;
	sem_t filled, written;
	atomic_bool stop;
};

/* Whether the write may be tried again, after a while. */
static bool not_ready(int err, unsigned *refusals)
{
	if (err == EINTR)
		return true;
	if (err != EAGAIN || ++*refusals > MOST_REFUSALS)
		return false;
	usleep(1000);
	return true;
}

/* The rest of a block through the page cache; from its start: the file takes no direct writes, and gets no more. */
static void refuse_direct(struct direct *direct, const struct direct_block *block)
{
	if (block->done)
		return;
	if (!direct->must_keep_up)
		log_note("%s: no direct writes here: they go through the page cache", direct->writer.path);
	close(direct->direct_fd);
	direct->direct_fd = direct->fd;
}

/* All of it; *ret_done: how much, also after an error. */
static int write_at(int fd, struct span span, uint64_t at, size_t *ret_done)
{
	unsigned refusals = 0;
	size_t done = 0;
	int err = 0;

	while (done < span.len && !err) {
		ssize_t bytes = pwrite(fd, (const uint8_t *)span.ptr + done, span.len - done, (off_t)(at + done));
		if (bytes > 0)
			done += (size_t)bytes;
		else if (bytes == 0)
			err = -EIO;
		else if (!not_ready(errno, &refusals))
			err = errno == EAGAIN ? -EIO : -errno;
	}
	*ret_done = done;
	return err;
}

/* What is not stored of a block. */
static int write_rest(struct direct_block *block, int fd)
{
	struct span rest = {block->data + block->done, block->len - block->done};
	size_t done;
	int err = write_at(fd, rest, block->at + block->done, &done);

	block->done += done;
	return err;
}

/* Half of the blocks wait, and not for a CPU. */
static bool needs_cache(struct direct *direct)
{
	int waiting = 0;

	return direct->must_keep_up && direct->slow && !sem_getvalue(&direct->filled, &waiting) &&
	       (size_t)waiting >= direct->nr_blocks / 2;
}

static int write_past_cache(struct direct *direct, struct direct_block *block)
{
	uint64_t began_ns = clock_ns(CLOCK_MONOTONIC), cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = write_rest(block, direct->direct_fd);

	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	direct->slow = clock_ns(CLOCK_MONOTONIC) - began_ns > SLOW * cpu_ns;
	return err;
}

static int write_block(struct direct *direct, struct direct_block *block)
{
	allocation_reach(&direct->ahead, block->at + block->len);
	if (block->len % ALIGNMENT || needs_cache(direct))
		return write_rest(block, direct->fd);
	int err = write_past_cache(direct, block);
	if (err != -EINVAL || direct->direct_fd == direct->fd)
		return err;
	refuse_direct(direct, block);
	return write_rest(block, direct->fd);
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR)
		;
}

/* The thread: blocks in the order of the file. After one that failed the others are given back as they are. */
static void *write_blocks(void *arg)
{
	struct direct *direct = arg;
	int err = 0;

	if (direct->must_keep_up) /* where that is not allowed it runs as it does */
		sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 1});
	for (size_t next = 0;; next = (next + 1) % direct->nr_blocks) {
		wait_for(&direct->filled);
		if (atomic_load_explicit(&direct->stop, memory_order_relaxed))
			return NULL;
		struct direct_block *block = direct->queue[next];
		err = err ? err : write_block(direct, block);
		block->err = err;
		sem_post(&direct->written);
	}
}

static struct direct_block *current_block(struct direct *direct)
{
	struct direct_block *block = direct->current;

	if (block)
		return block;
	block = direct->current = direct->spare[--direct->nr_spare];
	block->at = direct->next_at;
	memcpy(block->data, direct->lead, direct->lead_bytes);
	block->len = direct->lead_bytes;
	direct->aged = false;
	return block;
}

/* The next byte goes to `at`; no block is under way. */
static int begin_at(struct direct *direct, uint64_t at)
{
	size_t lead = at % ALIGNMENT;

	direct->next_at = at - lead;
	direct->lead_bytes = lead;
	memset(direct->lead, 0, lead);
	int err = lead ? fd_pread(direct->fd, direct->lead, lead, at - lead) : 0;
	return err == -ENODATA ? 0 : err;
}

static int allocate(struct direct *direct)
{
	size_t bytes;

	if (direct->nr_blocks > MAX_BLOCKS || __builtin_mul_overflow(direct->nr_blocks, direct->block_bytes, &bytes))
		return -E2BIG;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -errno;
	direct->memory = memory;
	direct->blocks = calloc(direct->nr_blocks, sizeof(*direct->blocks));
	direct->queue = calloc(direct->nr_blocks, sizeof(struct direct_block *));
	direct->spare = calloc(direct->nr_blocks, sizeof(struct direct_block *));
	if (!direct->blocks || !direct->queue || !direct->spare)
		return -ENOMEM;
	for (size_t i = 0; i < direct->nr_blocks; i++) {
		direct->blocks[i].data = direct->memory + i * direct->block_bytes;
		direct->spare[direct->nr_spare++] = &direct->blocks[i];
	}
	return 0;
}

static void fini(struct direct *direct)
{
	if (direct->direct_fd >= 0 && direct->direct_fd != direct->fd)
		close(direct->direct_fd);
	if (direct->memory)
		munmap(direct->memory, direct->nr_blocks * direct->block_bytes);
	free(direct->blocks);
	free(direct->queue);
	free(direct->spare);
	sem_destroy(&direct->filled);
	sem_destroy(&direct->written);
}

/* Signals are for the thread that waits for them. */
static int start_thread(struct direct *direct)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = -pthread_create(&direct->thread, NULL, write_blocks, direct);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* The same file once more: what else is written to it goes on as it did. -EINVAL: it takes no direct writes. */
static int open_direct(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int direct_fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	return direct_fd < 0 ? -errno : direct_fd;
}

static int direct_open(struct writer *writer, const struct writer_params *params)
{
	struct direct *direct = (struct direct *)writer;

	if (lseek(params->fd, 0, SEEK_CUR) < 0)
		return -errno;
	direct->fd = params->fd;
	direct->must_keep_up = params->must_keep_up;
	direct->nr_blocks = params->nr_blocks > LEAST_BLOCKS ? params->nr_blocks : LEAST_BLOCKS;
	direct->block_bytes = (params->block_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	direct->ahead = (struct allocation){.fd = params->fd, .start = params->offset};
	sem_init(&direct->filled, 0, 0);
	sem_init(&direct->written, 0, 0);
	direct->direct_fd = open_direct(params->fd);
	int err = direct->direct_fd < 0 ? direct->direct_fd : direct->block_bytes ? allocate(direct) : -EINVAL;
	if (!err)
		err = begin_at(direct, params->offset);
	if (!err)
		err = start_thread(direct);
	if (err)
		fini(direct);
	return err;
}

/* How far the output is whole: the blocks come in order, and one may be written twice. */
static void note_stored(struct direct *direct, const struct direct_block *block)
{
	uint64_t end = block->at + block->done, before = direct->writer.offset + direct->writer.stored;

	if (end > before)
		direct->writer.stored = end - direct->writer.offset;
}

/* Takes back the oldest block, which is written. */
static int take_written(struct direct *direct)
{
	struct direct_block *block = direct->queue[direct->first];

	direct->first = (direct->first + 1) % direct->nr_blocks;
	direct->nr_in_flight--;
	direct->spare[direct->nr_spare++] = block;
	note_stored(direct, block);
	return block->err;
}

/* The block that is being filled, as full as it is; NULL is fine. */
static void hand_over(struct direct *direct)
{
	struct direct_block *block = direct->current;

	if (!block)
		return;
	direct->lead_bytes = block->len % ALIGNMENT;
	direct->next_at = block->at + block->len - direct->lead_bytes;
	memcpy(direct->lead, block->data + block->len - direct->lead_bytes, direct->lead_bytes);
	block->done = 0; /* what stood before it is written once more: a direct write begins at its start */
	block->err = 0;
	direct->queue[(direct->first + direct->nr_in_flight) % direct->nr_blocks] = block;
	direct->nr_in_flight++;
	direct->current = NULL;
	sem_post(&direct->filled);
}

static void put(struct direct *direct, struct span span)
{
	const uint8_t *from = span.ptr;

	while (span.len) {
		struct direct_block *block = current_block(direct);
		size_t room = direct->block_bytes - block->len, part = span.len < room ? span.len : room;
		memcpy(block->data + block->len, from, part);
		block->len += part;
		from += part;
		span.len -= part;
		if (block->len == direct->block_bytes)
			hand_over(direct);
	}
}

static int direct_reap(struct writer *writer, enum writer_wait wait)
{
	struct direct *direct = (struct direct *)writer;

	if (wait == WRITER_ALL)
		hand_over(direct);
	while (direct->nr_in_flight) {
		if (wait == WRITER_NOW) {
			if (sem_trywait(&direct->written))
				return 0;
		} else {
			wait_for(&direct->written);
		}
		int err = take_written(direct);
		if (err)
			return err;
		if (wait == WRITER_ROOM)
			wait = WRITER_NOW;
	}
	return 0;
}

static int direct_commit(struct writer *writer, bool all)
{
	struct direct *direct = (struct direct *)writer;

	if (all || direct->aged)
		hand_over(direct);
	else
		direct->aged = direct->current;
	return 0;
}

/* A piece that all blocks together cannot hold, when none is under way: it is written here and now. */
static int write_past(struct direct *direct, const struct span spans[], unsigned nr_spans)
{
	struct writer *writer = &direct->writer;
	int err = direct_reap(writer, WRITER_ALL);

	for (unsigned i = 0; i < nr_spans && !err; i++) {
		size_t done;
		err = write_at(direct->fd, spans[i], writer->offset + writer->stored, &done);
		writer->stored += done;
	}
	if (err)
		return err;
	writer->queued = writer->stored;
	return begin_at(direct, writer->offset + writer->queued);
}

static size_t room_of(const struct direct *direct)
{
	size_t spare = direct->nr_spare * direct->block_bytes;

	if (direct->current)
		return spare + direct->block_bytes - direct->current->len;
	return spare ? spare - direct->lead_bytes : 0;
}

static int direct_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct direct *direct = (struct direct *)writer;
	size_t len = span_total(spans, nr_spans);

	if (len > room_of(direct))
		return direct->nr_in_flight ? -EAGAIN : write_past(direct, spans, nr_spans);
	for (unsigned i = 0; i < nr_spans; i++)
		put(direct, spans[i]);
	writer->queued += len;
	return 0;
}

static int direct_close(struct writer *writer)
{
	struct direct *direct = (struct direct *)writer;
	int err = writer->err ? 0 : direct_reap(writer, WRITER_ALL);

	atomic_store_explicit(&direct->stop, true, memory_order_relaxed);
	sem_post(&direct->filled);
	pthread_join(direct->thread, NULL);
	allocation_trim(&direct->ahead, writer->offset + writer->stored);
	fini(direct);
	return err;
}

const struct writer_ops writer_direct = {
	.name = "direct",
	.cuts = true,
	.state_bytes = sizeof(struct direct),
	.optional = true,
	.seeks = true,
	.stages = true,
	.packs = true,
	.open = direct_open,
	.queue = direct_queue,
	.commit = direct_commit,
	.reap = direct_reap,
	.close = direct_close,
};
