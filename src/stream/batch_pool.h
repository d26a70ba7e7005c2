/* SPDX-License-Identifier: MIT */
/*
 * batch_pool: the threads that compress for all pipelines of a recording, and the memory of the extents.
 *
 * An extent is filled by the thread that drains, packed by a worker, and written by the worker that finds it at the
 * front of its stage: in order, one at a time. Workers take the lock a few times for each extent, and do not hold it
 * while something is packed, copied or written. Who drains takes and hands over extents without it: only where no
 * worker has the pipeline in hand, and none will come to it, is one called under the lock.
 *
 * One owner; outlives its stages. What is below `lock` belongs to the thread that holds the lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/free_list.h"

struct batch_job;
struct diag;
struct event_desc;
struct extent_stats;
struct notifier;
struct pipeline;
struct pool_client;
struct pool_worker;
struct stack_cutter;

enum { POOL_DROP_REASONS = 8 };

/* Told when memory runs short, and when there is room again. The pool's lock is held: one call at a time, in turn. */
struct memory_pressure {
	void (*set)(struct memory_pressure *pressure, bool high);
};

struct batch_pool_params {
	int level;           /* 0: nothing is compressed, memory is all that is wanted; else 1 to ZSTD_LEVEL_LAST */
	size_t nr_pipelines; /* that will be open at once */
	size_t nr_workers;   /* 0: as many as CPUs, within reason */
	size_t extent_bytes; /* 0: the default */
	const struct event_desc *events; /* for the index; borrowed for the call */
	size_t nr_events;
	size_t budget_bytes; /* beside one extent for each stage; 0: the default */
	bool realtime;       /* workers run SCHED_FIFO where that is allowed: for what is as short as draining */
	size_t ready_bytes;  /* of the memory, from the start: who drains waits for no pages there */
	bool trims;          /* stack dumps are cut short when memory runs short */
	bool no_index;       /* at level 0: extents are not listed; an observer of the stage notes what it needs */
	struct memory_pressure *pressure; /* borrowed until batch_pool_disable_pressure(); NULL: not wanted */
	struct notifier *notifier;        /* borrowed; rung by who drains when compressors are late; NULL: not wanted */
};

struct pool_drops { /* stage_count_dropped() */
	const char *reason;
	uint64_t nr_samples;
	uint64_t nr_in_ledger; /* of these; of the thread that finishes outputs */
};

/* Valid when all stages are closed. */
struct batch_pool_totals {
	uint64_t bytes_in, bytes_out; /* of extents: as they would be without compression, as written */
	uint64_t nr_extents, nr_plain,
		nr_failed;   /* plain: stored as they are; failed: because the compressor refused */
	uint64_t nr_lowered; /* compressed at a lower level than was asked for, or not at all: batch_pool_set_level() */
	uint64_t most_bytes; /* of memory that was in use at a time */
	uint64_t full_ns;    /* that a draining thread waited because all of it was in use */
	struct pool_drops drops[POOL_DROP_REASONS]; /* by stages; the first with no reason ends them */
	uint64_t pack_cpu_ns, write_cpu_ns; /* of the workers; the latter up to some batches ago, and all of it when
					       they have ended */
};

struct batch_pool {
	int level; /* as asked for */
	struct notifier *notifier;
	size_t extent_bytes, nr_jobs;
	bool realtime;
	struct extent_stats *stats;  /* read only */
	struct stack_cutter *cutter; /* NULL: nothing dumps stacks */
	bool trims, no_index;
	atomic_uint stack_bytes;        /* of a stack dump stay at most: read without the lock */
	atomic_int level_now;           /* of what is compressed: the same; 0 while it is overtaken */
	_Atomic uint64_t full_until_ns; /* CLOCK_MONOTONIC: a draining thread waited for memory; UINT64_MAX: one does;
					   0: never */
	struct batch_job *jobs;         /* heap */
	uint8_t *memory;                /* mapped: touched only when it is used, or all of it at once */
	size_t memory_bytes;
	struct pool_worker *workers; /* heap */
	size_t nr_workers;           /* that run */

	struct free_list free_jobs;
	/*
	 * Without the lock, each for itself exact: nr_free is not below what is free, and what waits for compressors is
	 * changed under the lock.
	 */
	atomic_size_t nr_free, nr_to_pack, nr_blocked; /* blocked: done, but behind one that is not in their line */
	atomic_size_t least_free;                      /* of nr_free, ever: the rest was used at once */
	atomic_bool is_asked;                          /* memory is short, and who keeps some was asked for it */
	_Atomic(struct memory_pressure *) pressure;    /* NULL: none; set under the lock */
	atomic_bool pressure_high;                     /* likewise */

	pthread_mutex_t lock;
	pthread_cond_t room; /* CLOCK_MONOTONIC; a job became free, for one who waits for that; or an output failed */
	pthread_cond_t news; /* a turn or the writing of what was done has ended: an output may be idle */
	struct batch_job *first_to_pack, *last_to_pack;
	struct pool_client *first_turn, *last_turn;
	struct pool_worker
		*idle; /* the last that became so first: its memory is in use already, and perhaps in a cache */
	bool ending;
	int level_asked;                 /* batch_pool_set_level() */
	bool overtaken;                  /* by what comes: nothing is compressed until half of the memory is free */
	struct pipeline *with_stages;    /* those whose stages may keep batches */
	size_t nr_packing, nr_unwritten; /* jobs; unwritten: due to be written */
	size_t nr_stores;                /* batch_pool_store() that had something to do */
	uint64_t stores_counted_ns;      /* CPU time of the one thread that stores, when it was last measured */
	struct batch_pool_totals totals;
};

/* Starts the workers. 0 or -errno; -ENOTSUP: a build without libzstd. */
int batch_pool_new(const struct batch_pool_params *params, struct batch_pool **ret, struct diag *reterr);
/* All stages are closed. Totals are complete then. Idempotent. */
void batch_pool_stop(struct batch_pool *pool);
void batch_pool_free(struct batch_pool *pool); /* NULL is fine */

struct batch_pool_stats {
	size_t nr_extents, nr_free, nr_to_pack, nr_packing, nr_blocked, nr_unwritten;
	uint64_t nr_packed; /* so far */
};
struct batch_pool_stats batch_pool_stats(struct batch_pool *pool); /* from any thread; NULL: all 0 */

/*
 * What is compressed from here on: 0 (not at all) to pool->level. What takes long at a higher level begins anew. From
 * any thread.
 */
void batch_pool_set_level(struct batch_pool *pool, int level);

/* The last call of the pressure is that it is low. NULL is fine. */
void batch_pool_disable_pressure(struct batch_pool *pool);
