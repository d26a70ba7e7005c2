/* SPDX-License-Identifier: MIT */
/*
 * writer: an ordered byte sink. Owned by one stream, used by one thread at a time.
 *
 * What is queued was copied or written when the call returns. Writers differ in how they store, and tell how far
 * (`stored`).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "compress/extent_index.h"

struct diag;
struct producers;

struct writer_params {
	int fd;           /* borrowed; -1 for engines that need none */
	uint64_t offset;  /* where the first queued byte goes, in a file */
	const char *path; /* for messages; borrowed for the life of the writer */
	size_t nr_blocks; /* staging engines: how many, each of block_bytes, which is the most that is queued at once */
	size_t block_bytes;
	size_t window_bytes; /* mapping engine: how much of the file is mapped at a time */
};

/* What writer_complete() waits for. */
enum writer_wait {
	WRITER_NOW,  /* nothing: look what is done */
	WRITER_ROOM, /* until something can be queued again */
	WRITER_ALL,  /* until everything queued is stored: the barrier */
};

/* First member of every engine's own struct. */
struct writer {
	const struct writer_ops *ops;
	const struct writer_ops *stores; /* of the writer that stores: its own, or those of the one behind a pipeline */
	uint64_t queued;                 /* bytes taken so far */
	uint64_t stored; /* bytes that are in the output without a gap; the end of a piece unless there was an error */
	const atomic_size_t *nr_behind; /* of a pipeline: batches that wait for the output; NULL: not known */
	atomic_bool waits; /* queue() may wait for storage now, and is not for a thread that drains. Any thread may read
				    it */
	bool memory_is_short;       /* set by the caller of queue(): what waits before this writer fills its memory */
	uint64_t packed;            /* of a pipeline: bytes saved by compression, of those in `stored` */
	struct extent_list extents; /* of a pipeline; valid when it is closed */
	uint64_t offset;            /* file offset of the first byte */
	/*
	 * CLOCK_MONOTONIC, set by its stream: all rings were read to their heads after that; UINT64_MAX: it has no
	 * rings.
	 */
	_Atomic uint64_t complete_ns;
	const char *path;
	int err;                     /* sticky: the first -errno; every later call returns it */
	struct producers *producers; /* of the output, when other streams drain into it, too; NULL: this one alone */
	uint64_t producer_epoch;     /* of the last pass that was reported to them */
};

struct writer_ops {
	const char *name;   /* the word of --writer */
	size_t state_bytes; /* size of the engine's struct */
	bool optional;      /* the kernel may refuse it: another engine has to do then */
	bool seeks;         /* writes at offsets: no pipe */
	bool stages;        /* copies into blocks: nr_blocks and block_bytes count */
	bool cuts;          /* `stored` may end inside a piece: do not report that records go so far */
	bool maps;          /* copies into a window: window_bytes counts */
	int (*open)(struct writer *writer, const struct writer_params *params);
	/* All or nothing; -EAGAIN: full, call complete() first. One or two spans, none empty. */
	int (*queue)(struct writer *writer, const struct span spans[], unsigned nr_spans);
	/* NULL: queue() does. The first bytes of the spans: whole records, as many as have room where they are stored
	 * from. How many, or -errno as queue(). */
	int64_t (*take)(struct writer *writer, const struct span spans[], unsigned nr_spans);
	/* NULL: there is nothing to do. Stores some of what waits, on this thread, however long it takes. Other threads
	 * may use the writer at the same time. The CPU time that it took. */
	uint64_t (*store)(struct writer *writer);
	/* NULL: queue() does. For bytes that are not from a ring, where that makes a difference; as writer_put(). */
	int (*put)(struct writer *writer, const void *bytes, size_t len);
	/* NULL: there is nothing to do. Fixes the place in the output of what was queued; that is then stored without
	 * another call. */
	int (*place)(struct writer *writer);
	/* NULL: nothing is held back until more has come. As writer_commit(). */
	int (*commit)(struct writer *writer, bool all);
	/* Advances `stored`. */
	int (*complete)(struct writer *writer, enum writer_wait wait);
	/* Stores what was queued, frees the writer, returns the first error. Called once, also after errors. Bytes of
	 * the output behind `stored` are undefined. */
	int (*close)(struct writer *writer);
};

extern const struct writer_ops writer_serial; /* write(2) and done */
extern const struct writer_ops writer_mmap;   /* copies into windows of the file; no pipe */
extern const struct writer_ops writer_aio;    /* POSIX AIO from staging blocks; no pipe; not in every build */
extern const struct writer_ops writer_direct; /* write past the page cache; not on every file system */
extern const struct writer_ops writer_auto;   /* that or the page cache, whichever is cheaper here; no pipe */
extern const struct writer_ops writer_mem;    /* keeps everything: writer_mem_bytes() */
extern const struct writer_ops writer_null;   /* drops everything: measures how fast draining can be at most */

/* The engines of this build that a recording can choose; ends with NULL. */
extern const struct writer_ops *const writers[];

/* By the word of --writer; NULL: there is none in this build. */
const struct writer_ops *writer_find(const char *name);

int writer_open(const struct writer_ops *ops, const struct writer_params *params, struct writer **ret);

/* 0, or the writer's sticky -errno. -EAGAIN does not stick. */
int writer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans);
int writer_complete(struct writer *writer, enum writer_wait wait);
int64_t writer_take(struct writer *writer, const struct span spans[], unsigned nr_spans);

/* Does anything wait for the output? From any thread; false where that is not known. */
bool writer_is_behind(const struct writer *writer);

/*
 * What was queued waits in this thread for nothing that comes later. Of a producer: it stands before all that any
 * producer queues from here on. 0, or the writer's sticky -errno.
 */
int writer_place(struct writer *writer);

/*
 * What was queued before the last call, or with `all` whatever was queued, is no longer held back until a block or an
 * extent is full: it is on its way to the output, and this call does not wait until it is there. What came since the
 * last call may wait for the next one. Called by the clock: so a writer knows what is old without a look at one, and at
 * a high rate, where blocks and extents fill between two calls, nothing is cut short. 0, or the writer's sticky -errno.
 */
int writer_commit(struct writer *writer, bool all);

/* Queue, however long it takes: for bytes that are not from a ring, which must not be held back. */
int writer_put(struct writer *writer, const void *bytes, size_t len);

/* How a writer ended. */
struct writer_end {
	uint64_t stored; /* bytes as far as the output is whole */
	uint64_t packed; /* bytes saved by compression: `stored` bytes hold stored + packed bytes of what was queued */
	struct extent_list extents; /* of a pipeline; the caller's: extent_list_fini() */
};

/* Stores what was queued, and frees the writer. Returns the sticky error; *ret is valid in any case. */
int writer_end(struct writer *writer, struct writer_end *ret);
/* The same; *ret_stored (NULL: not wanted) is how far the output is whole. */
int writer_close(struct writer *writer, uint64_t *ret_stored);

/* What was queued so far, with writer_mem. Valid until the next call. */
struct span writer_mem_bytes(const struct writer *writer);
