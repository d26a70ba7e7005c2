/* SPDX-License-Identifier: MIT */
/*
 * pack_pool: the threads that compress for all pack stages of a recording, and the memory of the extents.
 *
 * An extent is filled by the thread that drains, packed by a worker, and written by whichever worker finds it at the
 * front of its stage, so that extents of one stage are written in order, one at a time. The pool's lock is taken
 * a few times for each extent, never for a record, and is never held while something is packed, copied or written.
 *
 * One owner; outlives its stages. What is below `lock` belongs to whoever holds the lock.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "pack/extent_index.h"

struct bell;
struct pack_stage;
struct diag;
struct event_desc;
struct measure;
struct stack_cutter;

enum { PACK_TAIL_BYTES = 56 };

/* An extent under way. It has one owner at a time: free list, the stage that fills it, or a worker. */
struct pack_job {
	struct pack_job *next;         /* in the free list */
	struct pack_job *next_to_pack; /* in the queue of the workers */
	struct pack_job *next_in_line; /* in the order of its stage */
	struct pack_stage *stage;
	uint8_t *data; /* room for pool->extent_bytes */
	size_t len;         /* of records that were put in */
	size_t came_len;    /* of those, before their stacks were cut: as the rings gave them */
	size_t out_len;     /* valid when done: of what is to be written instead */
	uint8_t tail[PACK_TAIL_BYTES]; /* plain records that follow them */
	size_t tail_len;
	bool plain; /* stored as it is */
	struct extent_info info; /* of its records; the stage takes it */
	bool done;
};

/*
 * Told when the memory runs short, and when there is room again. The pool's lock is held: one call at a time, in turn,
 * from whichever thread takes or gives back an extent.
 */
struct pack_pressure {
	void (*set)(struct pack_pressure *pressure, bool high);
};

struct pack_params {
	int level;           /* 0: nothing is compressed, memory is all that is wanted; else 1 to ZSTD_LEVEL_LAST */
	size_t nr_stages;    /* that will be open at once */
	size_t nr_workers;   /* 0: as many as CPUs, within reason */
	size_t extent_bytes; /* 0: the default */
	const struct event_desc *events; /* for the index; borrowed for the call */
	size_t nr_events;
	size_t budget_bytes; /* beside one extent for each stage; 0: the default */
	bool realtime;       /* workers run SCHED_FIFO where that is allowed: for what is as short as draining */
	size_t ready_bytes;  /* of the memory, from the start: who drains waits for no pages there */
	bool trims; /* stack dumps are cut short when memory runs short */
	struct pack_pressure *pressure; /* borrowed until pack_pool_press_no_more(); NULL: nobody wants to know */
	struct bell *bell; /* borrowed; rung by who drains when compressors are late; NULL: nobody wants to know */
};

/* Valid when all stages are closed. */
struct pack_totals {
	uint64_t bytes_in, bytes_out; /* of extents: as the rings gave them, as written */
	uint64_t nr_extents, nr_plain, nr_failed; /* plain: stored as they are; failed: because the compressor refused */
	uint64_t nr_hurried;          /* compressed at a lower level than was asked for, or not at all: pack_pool_set_level() */
	uint64_t pack_cpu_ns, write_cpu_ns; /* of the workers, up to the last extent of each */
};

/* A thread that packs. It waits at a place of its own, so that the one that did so last is the next to be woken. */
struct pack_worker {
	struct pack_pool *pool;
	struct pack_worker *next_idle;
	pthread_t thread;
	/*
	 * No condition: those have a lock inside that nobody is lent a priority for, and a worker that lost its CPU within it
	 * would hold up who drains.
	 */
	sem_t wake;
};

struct pack_pool {
	int level; /* as asked for */
	struct bell *bell;
	size_t extent_bytes, nr_jobs;
	bool realtime;
	uint64_t age_ns; /* an extent waits no longer to become full */
	struct measure *measure; /* read only */
	struct stack_cutter *cutter; /* NULL: nothing dumps stacks */
	bool trims;
	atomic_uint stack_bytes; /* of a stack dump stay at most: read without the lock */
	atomic_int level_now;    /* of what is compressed: the same */
	struct pack_job *jobs; /* heap */
	uint8_t *memory;       /* mapped: touched only when it is used, or all of it at once */
	size_t memory_bytes;
	struct pack_worker *workers; /* heap */
	size_t nr_workers; /* that run */

	pthread_mutex_t lock;
	pthread_cond_t news; /* a job became free, a stage empty or failed */
	struct pack_job *free_jobs, *first_to_pack, *last_to_pack;
	struct pack_worker *idle; /* the last that became so first: its memory is in use already, and perhaps in a cache */
	bool ending;
	/* Of the jobs. Blocked: done, but behind one that is not in the line of their stage; unwritten: due to be written. */
	size_t nr_free, nr_to_pack, nr_packing, nr_blocked, nr_unwritten;
	struct pack_pressure *pressure; /* NULL: none */
	bool pressed;
	struct pack_totals totals;
};

/* Starts the workers. 0 or -errno; -ENOTSUP: a build without libzstd. */
int pack_pool_new(const struct pack_params *params, struct pack_pool **ret, struct diag *reterr);
/* Ends the workers; all stages are closed. Totals are complete then. Idempotent. */
void pack_pool_stop(struct pack_pool *pool);
void pack_pool_free(struct pack_pool *pool); /* NULL is fine */

struct pack_sight {
	size_t nr_extents, nr_free, nr_to_pack, nr_packing, nr_blocked, nr_unwritten;
	uint64_t nr_packed; /* so far */
};
struct pack_sight pack_pool_sight(struct pack_pool *pool); /* from any thread; NULL: all 0 */

/*
 * What is compressed from here on, also of what waits for it: 0 to pool->level; 0: stored as it is. What is under way at a
 * higher level and takes long begins anew. From any thread.
 */
void pack_pool_set_level(struct pack_pool *pool, int level);

/* The last call of the pressure, if it was high, is that it is not. Idempotent; NULL is fine. */
void pack_pool_press_no_more(struct pack_pool *pool);

/* For stages; the lock is held. NULL: none is free. */
struct pack_job *pack_pool_take(struct pack_pool *pool, struct pack_stage *stage);
void pack_pool_put(struct pack_pool *pool, struct pack_job *job);
/* A quarter of what could wait for compressors does: time to look whether they keep up. */
bool pack_pool_is_late(const struct pack_pool *pool);
/* Hands a job to the workers. */
void pack_pool_pack(struct pack_pool *pool, struct pack_job *job);
