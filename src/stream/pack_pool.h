/* SPDX-License-Identifier: MIT */
/*
 * pack_pool: the threads that compress for all pack stages of a recording, and the memory of the extents.
 *
 * An extent is filled by the thread that drains, packed by a worker, and written by the worker that finds it at the
 * front of its stage: in order, one at a time. The lock is taken a few times for each extent, and not held while
 * something is packed, copied or written.
 *
 * One owner; outlives its stages. What is below `lock` belongs to the thread that holds the lock.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "compress/extent_index.h"
#include "stream/stage.h"

struct notifier;
struct pack_lane;
struct pack_stage;
struct diag;
struct event_desc;
struct extent_stats;
struct stack_cutter;

enum { POOL_DROP_REASONS = 8 };

/* An extent under way. It has one owner at a time: free list, stage, or worker. */
struct pack_job {
	struct batch batch;            /* first: stages see no more of it */
	struct pack_job *next;         /* in the free list */
	struct pack_job *next_to_pack; /* in the queue of the workers */
	struct pack_job *next_in_line; /* in the order of its stage */
	struct pack_stage *stage;
	size_t came_len;                /* of its records, as the rings gave them: before their stacks were cut */
	size_t out_len;                 /* valid when done: of what is to be written instead */
	uint8_t tail[BATCH_TAIL_BYTES]; /* the batch's */
	struct pack_lane *lane;         /* that filled it; NULL: a stage did */
	uint64_t complete_ns;           /* for that one: stage->complete_ns in stage.h */
	bool flush;                     /* STAGE_COMMIT for the stages, behind it */
	bool plain;                     /* stored as it is */
	bool commit; /* when it is written the writer behind the stage holds nothing back; under the pool's lock */
	struct extent_info info; /* of its records; the stage takes it */
	bool done;
};

/* Told when memory runs short, and when there is room again. The pool's lock is held: one call at a time, in turn. */
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
	bool trims;          /* stack dumps are cut short when memory runs short */
	bool no_index;       /* at level 0: extents are not listed; an observer of the stage notes what it needs */
	struct pack_pressure *pressure; /* borrowed until pack_pool_press_no_more(); NULL: not wanted */
	struct notifier *notifier;      /* borrowed; rung by who drains when compressors are late; NULL: not wanted */
};

struct pack_drops { /* stage_count_dropped() */
	const char *reason;
	uint64_t nr_samples;
	uint64_t nr_in_ledger; /* of these; of the thread that finishes outputs */
};

/* Valid when all stages are closed. */
struct pack_totals {
	uint64_t bytes_in, bytes_out; /* of extents: as the rings gave them, as written */
	uint64_t nr_extents, nr_plain,
		nr_failed;   /* plain: stored as they are; failed: because the compressor refused */
	uint64_t nr_hurried; /* compressed at a lower level than was asked for, or not at all: pack_pool_set_level() */
	uint64_t most_bytes; /* of memory that was in use at a time */
	uint64_t full_ns;    /* that a draining thread waited because all of it was in use */
	struct pack_drops drops[POOL_DROP_REASONS]; /* by stages; the first with no reason ends them */
	uint64_t pack_cpu_ns, write_cpu_ns; /* of the workers; the latter up to some batches ago, and all of it when
					       they have ended */
};

struct pack_turn { /* of a pack stage whose batches wait for their stages (stage.h) */
	struct pack_turn *next;
	struct pack_stage *stage;
};

struct pack_worker { /* a thread that packs; the one that began to wait last is the next to be woken */
	struct pack_pool *pool;
	struct pack_worker *next_idle;
	pthread_t thread;
	/* No condition variable: its inner lock has no priority inheritance, and would hold up a draining thread. */
	sem_t wake;
	uint64_t counted_ns, packed_ns,
		nr_uncounted; /* CPU time that is in the totals; since then: of compressing, waits */
};

struct pack_pool {
	int level; /* as asked for */
	struct notifier *notifier;
	size_t extent_bytes, nr_jobs;
	bool realtime;
	struct extent_stats *measure; /* read only */
	struct stack_cutter *cutter;  /* NULL: nothing dumps stacks */
	bool trims, no_index;
	atomic_uint stack_bytes;        /* of a stack dump stay at most: read without the lock */
	atomic_int level_now;           /* of what is compressed: the same */
	_Atomic uint64_t full_until_ns; /* CLOCK_MONOTONIC: a draining thread waited for memory; UINT64_MAX: one does;
					   0: never */
	struct pack_job *jobs;          /* heap */
	uint8_t *memory;                /* mapped: touched only when it is used, or all of it at once */
	size_t memory_bytes;
	struct pack_worker *workers; /* heap */
	size_t nr_workers;           /* that run */

	pthread_mutex_t lock;
	pthread_cond_t news; /* a job became free, a stage empty or failed */
	struct pack_job *free_jobs, *first_to_pack, *last_to_pack;
	struct pack_turn *first_turn, *last_turn;
	struct pack_worker
		*idle; /* the last that became so first: its memory is in use already, and perhaps in a cache */
	bool ending;
	struct pack_stage *with_stages; /* those whose stages may keep batches */
	/*
	 * Of the jobs. Blocked: done, but behind one that is not in the line of their stage; unwritten: due to be
	 * written.
	 */
	size_t least_free; /* of nr_free, ever: the rest was used at once */
	size_t nr_free, nr_to_pack, nr_packing, nr_blocked, nr_unwritten;
	size_t nr_stores;               /* pack_pool_store() that had something to do */
	struct pack_pressure *pressure; /* NULL: none */
	bool pressed;
	struct pack_totals totals;
};

/* Starts the workers. 0 or -errno; -ENOTSUP: a build without libzstd. */
int pack_pool_new(const struct pack_params *params, struct pack_pool **ret, struct diag *reterr);
/* All stages are closed. Totals are complete then. Idempotent. */
void pack_pool_stop(struct pack_pool *pool);
void pack_pool_free(struct pack_pool *pool); /* NULL is fine */

struct pack_sight {
	size_t nr_extents, nr_free, nr_to_pack, nr_packing, nr_blocked, nr_unwritten;
	uint64_t nr_packed; /* so far */
};
struct pack_sight pack_pool_sight(struct pack_pool *pool); /* from any thread; NULL: all 0 */

/*
 * What is compressed from here on: 0 (not at all) to pool->level. What takes long at a higher level begins anew. From
 * any thread.
 */
void pack_pool_set_level(struct pack_pool *pool, int level);

void pack_pool_press_no_more(
	struct pack_pool *pool); /* the last call of the pressure is that it is low. NULL is fine */
/* For pack stages, as what follows; the lock is held. NULL: none is free. */
struct pack_job *pack_pool_take(struct pack_pool *pool, struct pack_stage *stage);
void pack_pool_put(struct pack_pool *pool, struct pack_job *job);
/* A quarter of what could wait for compressors does: time to look whether they keep up. */
bool pack_pool_is_late(const struct pack_pool *pool);
/* Hands a job, or a stage whose turn it is, to the workers. */
void pack_pool_pack(struct pack_pool *pool, struct pack_job *job);
void pack_pool_order(struct pack_pool *pool, struct pack_turn *turn, bool wake);
/* A thread waits for what is queued: a worker does it, where no drain comes to it. */
void pack_pool_wake(struct pack_pool *pool);
/* Some of what is queued, on this thread. The lock is held, and released while it works. The CPU time that it took. */
uint64_t pack_pool_store(struct pack_pool *pool);
void pack_pool_count(struct pack_pool *pool, const struct pack_job *job, int64_t len, int level); /* into totals */
