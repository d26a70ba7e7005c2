/* SPDX-License-Identifier: MIT */
/*
 * writer: stores bytes in order. Owned by one stream, used by one thread at a time.
 *
 * Bytes that were queued are copied or written when the call returns, so their memory may be used again. Writers differ
 * in how they store; `stored` says how far the output is complete.
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
	int fd;           /* borrowed; -1 for writers that need none */
	uint64_t offset;  /* where the first queued byte goes, in a file */
	bool appends;     /* the file is another program's: bytes go where it stands */
	const char *path; /* for messages; borrowed for the life of the writer */
	size_t nr_blocks; /* of staging writers: of block_bytes, the most that may be queued at once */
	size_t block_bytes;
	size_t window_bytes; /* of the mmap writer: how much of the file is mapped at a time */
};

/* What writer_complete() waits for. */
enum writer_wait {
	WRITER_NOW,  /* for nothing: only notes what is done */
	WRITER_ROOM, /* until something can be queued again */
	WRITER_ALL,  /* until everything that was queued is stored */
};

/* First member of each writer's own struct. */
struct writer {
	const struct writer_ops *ops;
	const struct writer_ops *stores; /* of the writer that stores: of a pipeline the one behind it */
	uint64_t queued;                 /* bytes taken so far */
	uint64_t stored; /* bytes in the output without a gap; without an error they end where a queued chunk ends */
	const atomic_size_t *nr_behind; /* of a pipeline: number of batches that wait for the output; NULL: not known */
	atomic_bool waits; /* queue() may wait for storage: not for threads that drain. Read by any thread */
	unsigned nr_passes_before_commit; /* of a pipeline, and its producers: one for a stage that waits for records */
	bool memory_is_short; /* set by the caller of queue(): the memory before this writer is nearly full */
	uint64_t left_out;    /* of a pipeline, and its producers: bytes that were queued and are not kept: stacks */
	uint64_t packed;      /* of a pipeline: bytes that compression saved in what is stored */
	struct extent_list extents; /* of a pipeline: what it has stored; valid when it is closed */
	uint64_t offset;            /* file offset of the first byte */
	/* CLOCK_MONOTONIC, set by its stream: when all rings were last read to their heads; UINT64_MAX: no rings */
	_Atomic uint64_t complete_ns;
	const char *path;
	int err;                          /* sticky: the first -errno; every later call returns it */
	struct producers *producers;      /* shared with other streams of the same output; NULL: there are none */
	uint64_t producer_epoch;          /* epoch of the last pass that was reported to `producers` */
	struct ring_converter *converter; /* set by its stream around take(): stream.h; NULL: none */
	bool has_time;                    /* likewise: a stage may look at what is taken, on this thread */
	bool has_time_to_compress;        /* likewise: and it may be compressed */
};

struct writer_ops {
	const char *name;   /* the word of --writer */
	size_t state_bytes; /* size of the writer's own struct */
	bool optional;      /* the kernel or file system may refuse it; then another writer is used */
	bool seeks;         /* writes at offsets: cannot write to a pipe */
	bool stages;        /* copies into blocks: uses nr_blocks and block_bytes */
	bool cuts;          /* `stored` may end inside a queued chunk, and so inside a record */
	bool maps;          /* copies into a window: uses window_bytes */
	int (*open)(struct writer *writer, const struct writer_params *params);
	/* All or nothing; -EAGAIN: full, call complete() first. One or two spans, none empty. */
	int (*queue)(struct writer *writer, const struct span spans[], unsigned nr_spans);
	/*
	 * NULL: queue() is used. Takes only the first whole records of the spans, as many as fit into the present
	 * batch. Returns their bytes, or -errno as queue().
	 */
	int64_t (*take)(struct writer *writer, const struct span spans[], unsigned nr_spans);
	/*
	 * NULL: nothing to do. Stores some of what waits, on this thread, however long it takes, while other threads
	 * may use the writer. Returns the CPU time that it took, in ns.
	 */
	uint64_t (*store)(struct writer *writer);
	/* NULL: queue() is used. As writer_put(), if the writer treats bytes that are not from a ring differently. */
	int (*put)(struct writer *writer, const void *bytes, size_t len);
	/* NULL: there is nothing to do. As writer_fix_position(). */
	int (*fix_position)(struct writer *writer);
	/* NULL: nothing is ever held back until more has come. As writer_commit(). */
	int (*commit)(struct writer *writer, bool all);
	/* NULL: there is nothing to do. Notes finished writes, or waits for them; advances `stored`. 0 or -errno. */
	int (*complete)(struct writer *writer, enum writer_wait wait);
	/* Stores what was queued, frees the writer; the first error. Called once. Behind `stored` all is undefined. */
	int (*close)(struct writer *writer);
};

extern const struct writer_ops writer_serial; /* queue() calls write(2) */
extern const struct writer_ops writer_mmap;   /* copies into windows of the file; no pipe */
extern const struct writer_ops writer_aio;    /* POSIX AIO from staging blocks; no pipe; not in every build */
extern const struct writer_ops writer_direct; /* write past the page cache; not on every file system */
/* direct or page cache, whichever is cheaper here; no pipe */
extern const struct writer_ops writer_auto;
extern const struct writer_ops writer_mem;  /* keeps all bytes in memory: writer_mem_bytes() */
extern const struct writer_ops writer_null; /* drops all bytes: to measure how fast draining can be at most */

extern const struct writer_ops *const writers[];        /* of this build, that a recording can choose; ends with NULL */
const struct writer_ops *writer_find(const char *name); /* by a word of --writer; NULL: this build has none */

int writer_open(const struct writer_ops *ops, const struct writer_params *params, struct writer **ret);

/* See struct writer_ops. All errors but -EAGAIN are kept in writer->err, and returned by each later call. */
int writer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans);
int writer_queue_wait(struct writer *writer, const struct span spans[], unsigned nr_spans); /* waits for room */
int writer_complete(struct writer *writer, enum writer_wait wait);
int64_t writer_take(struct writer *writer, const struct span spans[], unsigned nr_spans);

/* Whether batches wait for the output; false also where that is not known. From any thread. */
bool writer_is_behind(const struct writer *writer);

/*
 * Fixes the position in the output of all that was queued; storing it needs no further call by this thread. Of a
 * producer: it stands before all that any producer queues from now on. 0, or the writer's sticky -errno.
 */
int writer_fix_position(struct writer *writer);

/*
 * Called periodically. Bytes that were queued before the previous call (with `all`: all that were queued) no longer
 * wait until a block or an extent is full, but are written; this call does not wait for that. Bytes that came since may
 * wait for the next call: so at high rates, where blocks fill between two calls, none is cut short. 0, or the writer's
 * sticky -errno.
 */
int writer_commit(struct writer *writer, bool all);

/* Queues bytes that are not from a ring, however long it takes. 0, or the writer's sticky -errno. */
int writer_put(struct writer *writer, const void *bytes, size_t len);

/* How a writer ended. */
struct writer_end {
	uint64_t stored; /* bytes up to which the output is complete */
	uint64_t packed; /* bytes saved by compression: `stored` bytes hold stored + packed bytes of what was queued */
	struct extent_list extents; /* of a pipeline: what it has stored; the caller calls extent_list_fini() */
};

/* Stores all, and frees the writer. Returns the sticky error; *ret is valid in any case. */
int writer_end(struct writer *writer, struct writer_end *ret);
/* The same; *ret_stored (NULL: not wanted): as writer_end.stored. */
int writer_close(struct writer *writer, uint64_t *ret_stored);

/* Of writer_mem: all bytes that were queued so far. Valid until the next call. */
struct span writer_mem_bytes(const struct writer *writer);
