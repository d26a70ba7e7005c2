/* SPDX-License-Identifier: MIT */
/*
 * The writers direct and auto: what is queued is written when the call returns, but for what is very small (below),
 * past the page cache (O_DIRECT: open(2)) or through it.
 *
 * Places, sizes and memory of direct writes are aligned. Bytes that lie in memory as they will lie in the file, within
 * a page, are written from where they are: the pipeline fills its batches that way. What comes otherwise is copied once
 * more. The part of a page at the end of what was queued is kept until more comes; at a commit and at a barrier it goes
 * through the page cache, and the next direct write begins with that page once more.
 *
 * auto finds out which way costs less CPU time here. Direct writes are several times cheaper where pages come slowly,
 * as in a virtual machine that has not used them yet, and never dirty more memory than they may; the page cache is
 * cheaper for small chunks, and its pages are there when the file is read. What is small goes through the page cache in
 * any case, and so does what storage takes too slowly while memory before the writer runs short: the cache has more of
 * it. From the first commit on what is very small is gathered, until there is enough or a commit comes: a write costs
 * as much as to copy some 100 KiB, for it changes the length of the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "stream/allocation.h"
#include "stream/writer.h"

enum {
	ALIGNMENT = 4096,         /* of the largest logical sectors in use; statx(2) STATX_DIOALIGN */
	COPY_BYTES = 1 << 20,     /* of memory for what is not aligned */
	GATHER_BYTES = 128 << 10, /* of memory for what is very small: */
	VERY_SMALL = GATHER_BYTES / 2,
	MAPPED_BYTES = ALIGNMENT + COPY_BYTES + GATHER_BYTES,
	MOST_REFUSALS = 1000, /* of a storage that is never ready: a millisecond each */
	SLOW = 8,             /* a direct write that took so many times its CPU time waited for the storage */
};

/* How it is decided: in bytes of one output. */
enum {
	FIRST_TRY = 2 << 20,      /* recordings that are shorter stay in the page cache */
	SHORT_TRY = 2 << 20,      /* tells what is clear: which way costs less than half of the other */
	TRY_BYTES = 8 << 20,      /* so much is written either way before anything else is judged */
	TRY_AGAIN = 512 << 20,    /* what costs change with: memory that was used before, other programs */
	LEAST_DIRECT = 256 << 10, /* less at a time tells nothing about costs, most of which are those of a call */
	LEAST_EVER = 32 << 10,    /* goes through the page cache, whatever that costs */
	WAKE_UP_NS = 20000,       /* of another thread, which waits for direct writes: a share of their cost */
	WORTH_IT_PERCENT = 85,    /* what is not clearly cheaper is not worth reading the file from the disk later */
};

enum way { CACHED, DIRECT, NR_WAYS };

/* What each way costs. */
struct choice {
	enum way way, best;
	unsigned nr_tries;                        /* of the other one; the first is a short one */
	uint64_t left_bytes;                      /* until the other way is tried, or the try is judged */
	uint64_t cpu_ns[NR_WAYS], bytes[NR_WAYS]; /* of the last time that each was used or tried */
};

struct direct {
	struct writer writer;
	int fd;        /* the output, through the page cache */
	int direct_fd; /* ours; -1: direct writes are not possible here */
	bool automatic;
	bool slow; /* the last direct write waited for the storage */
	struct choice choice;
	uint8_t *lead;     /* mapped: a page; what was queued of the last page, which is not full: */
	size_t lead_bytes; /* so much */
	bool lead_stored;  /* it is in the file, too */
	bool lead_aged;    /* it was there at the last commit */
	uint8_t *copy;     /* mapped: COPY_BYTES */
	uint8_t *gather;   /* mapped: GATHER_BYTES; the last of what was queued, which is not written: */
	size_t gathered;   /* so much */
	bool gathers;      /* from the first commit on: a file that is short has its header at once */
	struct allocation ahead;
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

/* The file takes no direct writes after all, and gets no more of them. */
static void refuse_direct(struct direct *direct)
{
	if (!direct->automatic)
		log_note("%s: the file system refuses O_DIRECT: writing through the page cache", direct->writer.path);
	close(direct->direct_fd);
	direct->direct_fd = -1;
	direct->choice.way = direct->choice.best = CACHED;
	direct->choice.left_bytes = UINT64_MAX;
	atomic_store_explicit(&direct->writer.waits, false, memory_order_relaxed);
}

/* So much of what is kept, and `rest` behind it. Advances `stored`, also when it fails in between. */
static int write_pages(struct direct *direct, enum way way, size_t lead_bytes, struct span rest)
{
	struct writer *writer = &direct->writer;
	uint64_t at = writer->offset + writer->queued - (lead_bytes ? direct->lead_bytes : 0);
	struct iovec iov[2] = {{direct->lead, lead_bytes}, {(void *)(uintptr_t)rest.ptr, rest.len}};
	unsigned refusals = 0;
	int err = 0;

	allocation_reach(&direct->ahead, at + lead_bytes + rest.len);
	while (iov[0].iov_len + iov[1].iov_len && !err) {
		unsigned first = iov[0].iov_len ? 0 : 1;
		int fd = way == DIRECT && direct->direct_fd >= 0 ? direct->direct_fd : direct->fd;
		ssize_t bytes = pwritev(fd, iov + first, (int)(2 - first), (off_t)at);
		if (bytes > 0) {
			at += (uint64_t)bytes;
			for (unsigned i = first; i < 2 && bytes; i++) {
				size_t part = iov[i].iov_len < (size_t)bytes ? iov[i].iov_len : (size_t)bytes;
				iov[i].iov_base = (uint8_t *)iov[i].iov_base + part;
				iov[i].iov_len -= part;
				bytes -= (ssize_t)part;
			}
		} else if (bytes == 0) {
			err = -EIO;
		} else if (errno == EINVAL && fd == direct->direct_fd) {
			refuse_direct(direct);
		} else if (!not_ready(errno, &refusals)) {
			err = errno == EAGAIN ? -EIO : -errno;
		}
	}
	uint64_t end = at - writer->offset;
	if (end > writer->stored)
		writer->stored = end;
	return err;
}

/*
 * The span was queued, and ends in the middle of a page: that part stays here. Of the first page what is ours: others
 * write what stands before.
 */
static void keep_lead(struct direct *direct, struct span span, bool stored)
{
	const struct writer *writer = &direct->writer;
	size_t lead = (writer->offset + writer->queued) % ALIGNMENT;

	if (lead > writer->queued)
		lead = (size_t)writer->queued;
	if (lead <= span.len)
		memcpy(direct->lead, (const uint8_t *)span.ptr + span.len - lead, lead);
	else
		memcpy(direct->lead + lead - span.len, span.ptr, span.len);
	direct->lead_bytes = lead;
	direct->lead_stored = stored;
	direct->lead_aged = false;
}

static int write_cached(struct direct *direct, struct span span)
{
	int err = write_pages(direct, CACHED, direct->lead_stored ? 0 : direct->lead_bytes, span);

	if (err)
		return err;
	direct->writer.queued += span.len;
	keep_lead(direct, span, true);
	return 0;
}

/* `span` begins where it belongs in its page of memory, and no other's bytes stand in that page of the file. */
static int write_aligned(struct direct *direct, struct span span)
{
	size_t room = direct->lead_bytes ? ALIGNMENT - direct->lead_bytes : 0, part = span.len < room ? span.len : room;
	size_t whole = (span.len - part) / ALIGNMENT * ALIGNMENT;

	if (part == room && room + whole) {
		memcpy(direct->lead + direct->lead_bytes, span.ptr, part);
		int err = write_pages(direct, DIRECT, room ? ALIGNMENT : 0,
				      (struct span){(const uint8_t *)span.ptr + part, whole});
		if (err)
			return err;
	}
	direct->writer.queued += span.len;
	keep_lead(direct, span, false);
	return 0;
}

/* Through memory in which it lies as it should. */
static int write_copied(struct direct *direct, struct span span)
{
	int err = 0;

	while (span.len && !err) {
		size_t phase = (direct->writer.offset + direct->writer.queued) % ALIGNMENT;
		size_t part = span.len < COPY_BYTES - phase ? span.len : COPY_BYTES - phase;
		memcpy(direct->copy + phase, span.ptr, part);
		err = write_aligned(direct, (struct span){direct->copy + phase, part});
		span = (struct span){(const uint8_t *)span.ptr + part, span.len - part};
	}
	return err;
}

static int write_direct(struct direct *direct, struct span span)
{
	const struct writer *writer = &direct->writer;
	size_t phase = (writer->offset + writer->queued) % ALIGNMENT;

	if (phase > writer->queued) { /* the first page, of which others have a part */
		size_t part = ALIGNMENT - phase < span.len ? ALIGNMENT - phase : span.len;
		int err = write_cached(direct, (struct span){span.ptr, part});
		span = (struct span){(const uint8_t *)span.ptr + part, span.len - part};
		if (err || !span.len)
			return err;
		phase = (phase + part) % ALIGNMENT;
	}
	return (uintptr_t)span.ptr % ALIGNMENT == phase ? write_aligned(direct, span) : write_copied(direct, span);
}

static double cost_of(const struct choice *choice, enum way way)
{
	return (double)choice->cpu_ns[way] / (double)(choice->bytes[way] ? choice->bytes[way] : 1);
}

static bool is_half_as_dear(const struct choice *choice, enum way way)
{
	return 2 * cost_of(choice, way) < cost_of(choice, way == CACHED ? DIRECT : CACHED);
}

static void begin_try(struct choice *choice)
{
	choice->way = choice->best == CACHED ? DIRECT : CACHED;
	choice->cpu_ns[choice->way] = choice->bytes[choice->way] = 0;
	choice->left_bytes = choice->nr_tries++ ? TRY_BYTES : SHORT_TRY;
}

/* A short try that leaves it open is followed by a long one, of both ways. */
static void end_try(struct choice *choice)
{
	bool is_short = choice->nr_tries == 1;
	bool is_open = is_short && !is_half_as_dear(choice, DIRECT) && !is_half_as_dear(choice, CACHED);
	bool worth_it = !is_open && cost_of(choice, DIRECT) < WORTH_IT_PERCENT / 100.0 * cost_of(choice, CACHED);

	choice->way = choice->best = worth_it ? DIRECT : CACHED;
	choice->cpu_ns[choice->best] = choice->bytes[choice->best] = 0;
	choice->left_bytes = is_open ? TRY_BYTES : TRY_AGAIN;
}

/* What went one way has cost so much. Where memory runs short before the other was ever tried, that may be why. */
static void decide(struct choice *choice, uint64_t cpu_ns, size_t bytes, bool memory_is_short)
{
	bool tries = choice->way != choice->best;
	bool early = memory_is_short && choice->nr_tries == 0;

	choice->cpu_ns[choice->way] += cpu_ns;
	choice->bytes[choice->way] += bytes;
	if (tries && choice->bytes[choice->way] >= SHORT_TRY && is_half_as_dear(choice, choice->best))
		early = true;
	if (choice->left_bytes > bytes && !early)
		choice->left_bytes -= bytes;
	else if (tries)
		end_try(choice);
	else
		begin_try(choice);
}

/*
 * From how many bytes on a direct write costs less, where that is the way: if what LEAST_DIRECT bytes cost were all for
 * the call. Not known before both ways have been used.
 */
static size_t least_direct(const struct choice *choice)
{
	if (!choice->bytes[DIRECT] || !choice->bytes[CACHED])
		return LEAST_DIRECT;
	double bytes = LEAST_DIRECT * cost_of(choice, DIRECT);
	double cached = cost_of(choice, CACHED);

	if (bytes >= LEAST_DIRECT * cached)
		return LEAST_DIRECT;
	return bytes <= LEAST_EVER * cached ? LEAST_EVER : (size_t)(bytes / cached);
}

static enum way way_of(const struct direct *direct, size_t bytes)
{
	if (direct->direct_fd < 0)
		return CACHED;
	if (!direct->automatic)
		return DIRECT;
	if (bytes < least_direct(&direct->choice) || (direct->writer.memory_is_short && direct->slow))
		return CACHED;
	return direct->choice.way;
}

/* A direct write waited for the storage, and longer than the page cache needs to take as much. */
static bool is_slow(const struct choice *choice, uint64_t took_ns, uint64_t cpu_ns, size_t bytes)
{
	return took_ns > SLOW * cpu_ns && (double)took_ns > cost_of(choice, CACHED) * (double)bytes;
}

static int write_span(struct direct *direct, struct span span)
{
	struct writer *writer = &direct->writer;
	enum way way = way_of(direct, span.len);
	bool judged = span.len >= LEAST_DIRECT;
	bool timed = direct->automatic && direct->direct_fd >= 0 && (judged || way == DIRECT);
	uint64_t began_ns = timed ? clock_ns(CLOCK_MONOTONIC) : 0;
	uint64_t cpu_ns = timed ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	int err = way == DIRECT ? write_direct(direct, span) : write_cached(direct, span);

	if (err || !timed)
		return err;
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	if (way == DIRECT)
		direct->slow = is_slow(&direct->choice, clock_ns(CLOCK_MONOTONIC) - began_ns, cpu_ns, span.len);
	else if (!writer->memory_is_short)
		direct->slow = false;
	if (judged && way == direct->choice.way)
		decide(&direct->choice, cpu_ns + (way == DIRECT ? WAKE_UP_NS : 0), span.len, writer->memory_is_short);
	atomic_store_explicit(&writer->waits, direct->choice.way == DIRECT, memory_order_relaxed);
	return 0;
}

static int write_gathered(struct direct *direct)
{
	const struct span span = {direct->gather, direct->gathered};

	if (!span.len)
		return 0;
	direct->gathered = 0;
	direct->writer.queued -= span.len; /* it is counted where it is written */
	return write_span(direct, span);
}

static void gather(struct direct *direct, struct span span)
{
	memcpy(direct->gather + direct->gathered, span.ptr, span.len);
	direct->gathered += span.len;
	direct->writer.queued += span.len;
}

static int direct_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct direct *direct = (struct direct *)writer;
	int err = 0;

	for (unsigned i = 0; i < nr_spans && !err; i++) {
		bool gathers = direct->gathers && spans[i].len < VERY_SMALL;
		if (!gathers || direct->gathered + spans[i].len > GATHER_BYTES)
			err = write_gathered(direct);
		if (!err && gathers)
			gather(direct, spans[i]);
		else if (!err)
			err = write_span(direct, spans[i]);
	}
	return err;
}

/* The part of a page at the end, as far as it came. */
static int store_lead(struct direct *direct)
{
	if (!direct->lead_bytes || direct->lead_stored)
		return 0;
	direct->lead_stored = true;
	return write_pages(direct, CACHED, direct->lead_bytes, (struct span){0});
}

static int direct_commit(struct writer *writer, bool all)
{
	struct direct *direct = (struct direct *)writer;
	int err = write_gathered(direct);

	direct->gathers = direct->automatic;
	if (err || all || direct->lead_aged)
		return err ? err : store_lead(direct);
	direct->lead_aged = direct->lead_bytes && !direct->lead_stored;
	return 0;
}

static int direct_complete(struct writer *writer, enum writer_wait wait)
{
	struct direct *direct = (struct direct *)writer;
	int err = wait == WRITER_ALL ? write_gathered(direct) : 0;

	return err || wait != WRITER_ALL ? err : store_lead(direct);
}

/* The same file once more: what else is written to it goes on as it did. -EINVAL: it takes no direct writes. */
static int open_direct(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int direct_fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	return direct_fd < 0 ? -errno : direct_fd;
}

static void fini(struct direct *direct)
{
	if (direct->direct_fd >= 0)
		close(direct->direct_fd);
	if (direct->lead)
		munmap(direct->lead, MAPPED_BYTES);
}

static int map_pages(struct direct *direct)
{
	void *memory = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	direct->lead = memory;
	direct->copy = direct->lead + ALIGNMENT;
	direct->gather = direct->copy + COPY_BYTES;
	return 0;
}

static int open_either(struct writer *writer, const struct writer_params *params, bool automatic)
{
	struct direct *direct = (struct direct *)writer;

	if (lseek(params->fd, 0, SEEK_CUR) < 0)
		return -errno;
	direct->fd = params->fd;
	direct->automatic = automatic;
	direct->choice.left_bytes = FIRST_TRY;
	direct->ahead = (struct allocation){.fd = params->fd, .start = params->offset};
	direct->direct_fd = open_direct(params->fd);
	if (direct->direct_fd < 0 && !automatic)
		return direct->direct_fd;
	atomic_init(&writer->waits, !automatic);
	int err = map_pages(direct);
	if (err)
		fini(direct);
	return err;
}

static int direct_open(struct writer *writer, const struct writer_params *params)
{
	return open_either(writer, params, false);
}

static int auto_open(struct writer *writer, const struct writer_params *params)
{
	return open_either(writer, params, true);
}

static int direct_close(struct writer *writer)
{
	struct direct *direct = (struct direct *)writer;
	int err = writer->err ? 0 : direct_complete(writer, WRITER_ALL);

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
	.open = direct_open,
	.queue = direct_queue,
	.commit = direct_commit,
	.complete = direct_complete,
	.close = direct_close,
};

const struct writer_ops writer_auto = {
	.name = "auto",
	.cuts = true,
	.state_bytes = sizeof(struct direct),
	.optional = true,
	.seeks = true,
	.open = auto_open,
	.queue = direct_queue,
	.commit = direct_commit,
	.complete = direct_complete,
	.close = direct_close,
};
