/* SPDX-License-Identifier: MIT */
/*
 * batch_job: a batch with what pool and pipeline need to know of it, and the functions of the pool that pipelines call.
 * Private to stream.
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

/* A batch on its way, to be stored as an extent. It has one owner at a time: free list, producer, stage, or worker. */
struct batch_job {
	struct batch batch; /* first member: all that stages see */
	/* its part of the pool's memory: a page, the room of the batch, and some for its tail */
	uint8_t *memory;
	uint32_t number;                /* in the free list */
	size_t saved;                   /* bytes at the end of its memory that others use: batch_pool_shrink() */
	struct batch_job *next_to_pack; /* in the queue of the workers */
	struct batch_job *next_in_line; /* in the order of its pipeline */
	struct pool_client *client;
	/* bytes of its records as they were in the rings, before stages changed them; with marks that were dropped */
	size_t came_len;
	size_t out_len;                 /* valid when done: bytes to be written */
	uint8_t tail[BATCH_TAIL_BYTES]; /* the batch's */
	struct producer *producer;      /* that filled it; NULL: a stage did */
	size_t producer_number;         /* the same, also when that is closed; valid when came_end is not 0 */
	uint64_t came_end;              /* ring bytes of the producer up to its end; 0: none, or a stage filled it */
	uint64_t complete_ns;           /* the value for stage->complete_ns (stage.h) once the stages have this batch */
	bool flush;                     /* flush the stages with STAGE_COMMIT behind it */
	bool plain;                     /* store it uncompressed */
	bool commit; /* when it is written, call writer_commit() of the inner writer; under the pool's lock */
	struct extent_info info; /* statistics of its records; the pipeline takes it over */
	bool has_info;           /* a stage has made them */
	bool seen;               /* by the only stage, in a ring or on the thread that drains */
	size_t built;            /* not 0: of extent_builder_end(): its memory holds no records */
	bool done;
};

/*
 * What gives work to the pool: a pipeline. Workers call both functions with the lock held; they release it while they
 * work.
 */
struct pool_client {
	/* in its turn: calls the stages with at most so many batches */
	void (*call_stages)(struct pool_client *client, size_t most);
	/* called when a job is done: writes the jobs at the front that are done */
	void (*write_done)(struct pool_client *client);
	struct pool_client *next;         /* in the queue of clients that wait for a turn */
	atomic_bool has_turn;             /* it has a turn, or waits for one */
	_Atomic uint64_t writes_since_ns; /* CLOCK_MONOTONIC: it is writing a batch; 0: it is not */
};

/* Called by pipelines without the lock: */

/* Takes a job from the free list; NULL: none is free. */
struct batch_job *batch_pool_take(struct batch_pool *pool, struct pool_client *client);
bool batch_pool_has_free(struct batch_pool *pool); /* whether one is */
/* Whether at most a quarter of the jobs are free. */
bool batch_pool_is_short(const struct batch_pool *pool);
/* Whether so many jobs wait to be compressed (a quarter of those that could) that the governor should look. */
bool batch_pool_is_late(const struct batch_pool *pool);
/*
 * Gives the client a turn, if it has none. `wake`: an idle worker is woken for it; else a draining thread that stores,
 * or a worker, comes to it.
 */
void batch_pool_schedule(struct batch_pool *pool, struct pool_client *client, bool wake);

/*
 * The records of the job take so many bytes, and will hardly take more: when memory is used up by what waits for the
 * output, the rest may be used for other batches. By its owner, without the lock: it may be a system call.
 */
void batch_pool_shrink(struct batch_pool *pool, struct batch_job *job, size_t bytes);

/* Called by pipelines with the lock held: */

void batch_pool_put(struct batch_pool *pool, struct batch_job *job);
/* Hands a job to the workers. */
void batch_pool_submit(struct batch_pool *pool, struct batch_job *job);
/* batch_pool_schedule() under the lock. */
void batch_pool_add_turn(struct batch_pool *pool, struct pool_client *client, bool wake);
/* Wakes a worker for the queued work, because a thread waits for it and no draining thread stores. */
void batch_pool_wake(struct batch_pool *pool);
/* Takes the first client out of the queue: the caller calls its call_stages(). NULL: none waits for a turn. */
struct pool_client *batch_pool_next_turn(struct batch_pool *pool);

struct store_clock {
	unsigned weight; /* how many stores this one stands for; 0: it is not measured */
	uint64_t before_ns;
};
/*
 * Before and after a turn on the thread that drains, always the same one. The second returns CPU time in ns: it is
 * measured only at some calls, for all calls since the last measurement, and 0 is returned by the others.
 */
struct store_clock batch_pool_begin_store(struct batch_pool *pool);
uint64_t batch_pool_end_store(struct batch_pool *pool, struct store_clock clock);
void batch_pool_count(struct batch_pool *pool, const struct batch_job *job, int64_t len, int level); /* into totals */
