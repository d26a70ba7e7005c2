/* SPDX-License-Identifier: MIT */
/*
 * batch_job: a batch on its way through a pool, and what a pipeline asks of that pool. Private to stream.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"
#include "stream/stage.h"

struct batch_pool;
struct pool_client;
struct producer;

/* An extent under way. It has one owner at a time: free list, producer, stage, or worker. */
struct batch_job {
	struct batch batch;             /* first: stages see no more of it */
	uint8_t *memory;                /* its own: a page, the room of the batch, and some for its tail */
	uint32_t number;                /* in the free list */
	struct batch_job *next_to_pack; /* in the queue of the workers */
	struct batch_job *next_in_line; /* in the order of its stage */
	struct pool_client *client;
	size_t came_len;                /* of its records, as the rings gave them: before their stacks were cut */
	size_t out_len;                 /* valid when done: of what is to be written instead */
	uint8_t tail[BATCH_TAIL_BYTES]; /* the batch's */
	struct producer *producer;      /* that filled it; NULL: a stage did */
	uint64_t complete_ns;           /* for that one: stage->complete_ns in stage.h */
	bool flush;                     /* STAGE_COMMIT for the stages, behind it */
	bool plain;                     /* stored as it is */
	bool commit; /* when it is written the writer behind the stage holds nothing back; under the pool's lock */
	struct extent_info info; /* of its records; the stage takes it */
	bool done;
};

/*
 * What gives work to the pool: a pipeline. Workers call both with the lock held; it is released while they work.
 */
struct pool_client {
	void (*call_stages)(struct pool_client *client, size_t most); /* of its turn: for so many batches */
	void (*write_done)(struct pool_client *client);               /* a job is done: writes what is due */
	struct pool_client *next;                                     /* that waits for its turn */
	atomic_bool has_turn;                                         /* or waits for it */
};

/*
 * For pipelines, without the lock.
 */

/* NULL: none is free. */
struct batch_job *batch_pool_take(struct batch_pool *pool, struct pool_client *client);
/* Less than a quarter of the memory is free. */
bool batch_pool_is_short(const struct batch_pool *pool);
/* A quarter of what could wait for compressors does: time to look whether they keep up. */
bool batch_pool_is_late(const struct batch_pool *pool);
/* The client gets a turn, if it has none. `wake`: from a worker that is idle, else from batch_pool_store(). */
void batch_pool_schedule(struct batch_pool *pool, struct pool_client *client, bool wake);

/*
 * The same, while the lock is held.
 */

void batch_pool_put(struct batch_pool *pool, struct batch_job *job);
/* Hands a job to the workers. */
void batch_pool_submit(struct batch_pool *pool, struct batch_job *job);
/* batch_pool_schedule() under the lock. */
void batch_pool_add_turn(struct batch_pool *pool, struct pool_client *client, bool wake);
/* A thread waits for what is queued: a worker does it, where no drain comes to it. */
void batch_pool_wake(struct batch_pool *pool);
/*
 * Some of what is queued, on this thread, always the same. The lock is held, and released while it works. The CPU time
 * of stores, estimated: of some calls together, 0 for the others; all sums are within what the thread used.
 */
uint64_t batch_pool_store(struct batch_pool *pool);
void batch_pool_count(struct batch_pool *pool, const struct batch_job *job, int64_t len, int level); /* into totals */
