/* SPDX-License-Identifier: MIT */
/* unpack_pool: threads that decompress extents beside the thread that reads, which does some itself while it waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Filled by the source's thread; a thread of the pool has it from unpack_pool_submit() to unpack_pool_wait(). */
struct unpack_job {
	uint8_t *packed; /* heap, grown as needed: the frame */
	size_t packed_len, packed_room;
	size_t blocks_end;     /* of the frame's blocks that are there */
	size_t checksum_bytes; /* behind them */
	bool whole;            /* the last of them is there */
	uint64_t bytes;        /* that it says it holds */
	uint64_t offset;       /* of the first COMPRESSED record */
	uint8_t *to;           /* room for `bytes` */
	int64_t got;           /* result: of zstd_unpack_frame() */
	bool done;
	struct unpack_job *next; /* in the pool's queue */
};

struct unpack_pool;

/*
 * A thread that has work of its own and does jobs when it must wait: in place of one of the threads, which would share
 * a CPU with it.
 */
struct unpack_helper {
	void (*wanted)(void *ctx); /* by the thread that submits: there is a job. NULL: no helper */
	void *ctx;
};

/* As many threads as there are CPUs for us beside the one that waits, within reason; 0: one CPU. */
size_t unpack_pool_useful_size(void);

/*
 * nr 0: none; jobs are done when they are submitted. Else the threads start with the first job. All jobs are submitted
 * and waited for by one thread. 0, -ENOMEM, -ENOTSUP.
 */
int unpack_pool_new(size_t nr, struct unpack_pool **ret);
void unpack_pool_free(struct unpack_pool *pool); /* NULL is fine; waits for what was begun */

/* By the thread that submits; not while the helper is at work. Without effect where there are no threads. */
void unpack_pool_set_helper(struct unpack_pool *pool, const struct unpack_helper *helper);
/* By the helper, after it was wanted: does a job that was not begun. false: there was none. */
bool unpack_pool_help(struct unpack_pool *pool);

void unpack_pool_submit(struct unpack_pool *pool, struct unpack_job *job);
/* Does this job, or others that were submitted, as long as some of them were not begun. */
void unpack_pool_wait(struct unpack_pool *pool, struct unpack_job *job);
