/* SPDX-License-Identifier: MIT */
/*
 * The mmap writer: the file is extended and mapped a window at a time, and chunks are copied into the window. No
 * system call per chunk, so that a recording of system calls does not record its own writes.
 *
 * Blocks are allocated before they are mapped: a full disk is an error of fallocate(2) here, not a SIGBUS later. Where
 * the file system cannot do that, or the device fails, the SIGBUS of the copy becomes -EIO. A device that fails is
 * heard of when pages are written back: that is begun now and then, and its errors are asked for, so that a recording
 * does not go on for the half minute that the kernel may take.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "stream/writer.h"

struct mapped {
	struct writer writer;
	int fd;
	size_t window_bytes; /* what we ask for */
	uint8_t *window;     /* NULL: none */
	uint64_t start;      /* file offset of the window, a multiple of the page size */
	size_t bytes;        /* of the window that is mapped */
	uint64_t begun;      /* of the stored bytes, those whose write-back was begun; whole pages of the file */
	uint64_t begun_ns;
};

enum { BACK_BYTES = 8 << 20, BACK_NS = 500000000 };

/* The copy that is under way in this thread; NULL: a SIGBUS is not ours. Volatile: only the handler reads it. */
static _Thread_local sigjmp_buf *volatile copy_guard;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	if (copy_guard)
		siglongjmp(*copy_guard, 1);
	signal(number, SIG_DFL);
	raise(number);
}

static int mapped_open(struct writer *writer, const struct writer_params *params)
{
	struct mapped *mapped = (struct mapped *)writer;
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (lseek(params->fd, 0, SEEK_CUR) < 0)
		return -errno;
	mapped->fd = params->fd;
	mapped->begun = params->offset;
	mapped->begun_ns = clock_ns(CLOCK_MONOTONIC);
	mapped->window_bytes = (params->window_bytes + page - 1) / page * page;
	if (!mapped->window_bytes)
		return -EINVAL;
	return sigaction(SIGBUS, &action, NULL) ? -errno : 0;
}

static void drop_window(struct mapped *mapped)
{
	if (mapped->window)
		munmap(mapped->window, mapped->bytes);
	mapped->window = NULL;
	mapped->bytes = 0;
}

/* Room on the disk for the window; as much of it as there is, so that a full disk is filled to its end. */
static int allocate(struct mapped *mapped, uint64_t start, size_t *bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (;;) {
		if (fallocate(mapped->fd, 0, (off_t)start, (off_t)*bytes) == 0)
			return 0;
		if (errno == EOPNOTSUPP || errno == ENOSYS)
			return ftruncate(mapped->fd, (off_t)(start + *bytes)) ? -errno : 0;
		if (errno == EINTR)
			continue;
		if ((errno != ENOSPC && errno != EDQUOT && errno != EFBIG) || *bytes <= page)
			return -errno;
		*bytes = *bytes / 2 / page * page;
	}
}

/* Maps the window that holds file offset `at`. */
static int next_window(struct mapped *mapped, uint64_t at)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = mapped->window_bytes;
	uint64_t start = at / page * page;

	drop_window(mapped);
	int err = allocate(mapped, start, &bytes);
	if (err)
		return err;
	void *window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapped->fd, (off_t)start);
	if (window == MAP_FAILED)
		return -errno;
	mapped->window = window;
	mapped->start = start;
	mapped->bytes = bytes;
	return 0;
}

static int guarded_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	sigjmp_buf guard;

	if (sigsetjmp(guard, 0)) {
		copy_guard = NULL;
		return -EIO;
	}
	copy_guard = &guard;
	memcpy(to, from, len);
	copy_guard = NULL;
	return 0;
}

/* Copies to where the stored bytes end. */
static int put(struct mapped *mapped, struct span span)
{
	struct writer *writer = &mapped->writer;
	const uint8_t *from = span.ptr;

	while (span.len) {
		uint64_t at = writer->offset + writer->stored;
		if (!mapped->window || at - mapped->start >= mapped->bytes) {
			int err = next_window(mapped, at);
			if (err)
				return err;
		}
		size_t inside = (size_t)(at - mapped->start);
		size_t part = mapped->bytes - inside < span.len ? mapped->bytes - inside : span.len;
		int err = guarded_copy(mapped->window + inside, from, part);
		if (err)
			return err;
		from += part;
		writer->stored += part;
		span.len -= part;
	}
	return 0;
}

/*
 * What stands behind the stored bytes until more come, or the file gets its length: no record, and not zeroes, so that
 * after a SIGKILL a record before it that ends with zeroes is known to be complete (record/output/record_end.h).
 */
static int mark_end(struct mapped *mapped)
{
	static const struct perf_event_header mark = {.type = 0, .misc = UINT16_MAX, .size = UINT16_MAX};
	uint64_t inside = mapped->writer.offset + mapped->writer.stored - mapped->start;

	if (!mapped->window || mapped->bytes - inside < sizeof(mark))
		return 0;
	atomic_signal_fence(memory_order_release); /* the record was copied before */
	return guarded_copy(mapped->window + inside, (const uint8_t *)&mark, sizeof(mark));
}

static int mapped_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	for (unsigned i = 0; i < nr_spans; i++) {
		int err = put((struct mapped *)writer, spans[i]);
		if (err)
			return err;
	}
	writer->queued = writer->stored;
	return mark_end((struct mapped *)writer);
}

/*
 * Begins to write back what is complete, without waiting, and asks for the errors of what was begun before:
 * SYNC_FILE_RANGE_WAIT_BEFORE waits for pages of its range only, of which the first one of the file is long done, and
 * tells the errors of all (sync_file_range(2); fs/sync.c). Where that is no such file there is nothing to hear.
 */
static int mapped_complete(struct writer *writer, enum writer_wait wait)
{
	struct mapped *mapped = (struct mapped *)writer;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = (writer->offset + writer->stored) / page * page;
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	(void)wait;
	if (end < mapped->begun + BACK_BYTES && now_ns - mapped->begun_ns < BACK_NS)
		return 0;
	/*
	 * mlockall(2) of the recorder is about a window that is mapped by then, too: its pages would stay in memory
	 * when they are stored, which a control group's limit may not allow.
	 */
	if (mapped->window)
		munlock(mapped->window, mapped->bytes);
	int err = sync_file_range(mapped->fd, 0, (off_t)page, SYNC_FILE_RANGE_WAIT_BEFORE) ? -errno : 0;
	if (!err && end > mapped->begun)
		err = sync_file_range(mapped->fd, (off_t)mapped->begun, (off_t)(end - mapped->begun),
				      SYNC_FILE_RANGE_WRITE)
			      ? -errno
			      : 0;
	mapped->begun = end;
	mapped->begun_ns = now_ns;
	return err == -EIO || err == -ENOSPC || err == -EDQUOT ? err : 0;
}

static int mapped_close(struct writer *writer)
{
	struct mapped *mapped = (struct mapped *)writer;

	drop_window(mapped);
	return ftruncate(mapped->fd, (off_t)(writer->offset + writer->stored)) ? -errno : 0;
}

const struct writer_ops writer_mmap = {
	.name = "mmap",
	.state_bytes = sizeof(struct mapped),
	.seeks = true,
	.maps = true,
	.open = mapped_open,
	.queue = mapped_queue,
	.complete = mapped_complete,
	.close = mapped_close,
};
