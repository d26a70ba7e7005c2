/* SPDX-License-Identifier: MIT */
/*
 * batch_pool: the worker threads of all pipelines of a recording, which call stages, compress and write; and the memory
 * of the batches (jobs).
 *
 * A batch is filled by a thread that drains, compressed by any worker, and written by the worker that finds it at the
 * front of its pipeline: in order, one at a time. Workers take the lock a few times for each batch, and do not hold it
 * while they compress, copy or write. A thread that drains takes and hands over batches without the lock; it takes the
 * lock only to wake a worker, when no worker works for the pipeline or is about to.
 *
 * One owner; it must outlive its pipelines. Fields below `lock` are used only by the thread that holds the lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/free_list.h"

struct diag;

enum { POOL_DROP_REASONS = 8 };

/*
 * Implemented by the owner, who is notified when the pool runs short of memory (high), and when it has room again.
 * Called with the pool's lock held, so one call at a time; `high` alternates.
 */
struct memory_pressure {
	void (*set)(struct memory_pressure *pressure, bool high);
};

struct batch_pool_params {
	int level;           /* 0: nothing is compressed, the pool only buffers; else 1 to ZSTD_LEVEL_LAST */
	size_t nr_pipelines; /* how many pipelines will be open at once */
	size_t nr_workers;   /* 0: as many as CPUs, up to a limit */
	size_t extent_bytes; /* 0: the default */
	const struct event_desc *events; /* for the index; borrowed for the call */
	size_t nr_events;
	size_t budget_bytes; /* of memory, in addition to one batch for each pipeline; 0: the default */
	bool bounds_all;     /* budget_bytes bounds all batches together, where that leaves enough of them */
	bool realtime;       /* workers run with SCHED_FIFO where that is allowed: for work as short as draining */
	size_t ready_bytes;  /* so much memory is touched at the start, so that draining causes no page faults */
	bool trims;          /* stack dumps are cut short when memory runs short */
	bool thorough;       /* extent_pack_params.thorough: what stages do costs more */
	bool no_index;       /* at level 0: the pipelines make no list of extents */
	bool spares;         /* addresses cost nothing: the budget is that of pages that are in use, not of batches */
	struct memory_pressure *pressure; /* borrowed until batch_pool_disable_pressure(); NULL: not wanted */
	struct notifier *notifier; /* borrowed; notified while draining when compression is late; NULL: not wanted */
};

struct pool_drops { /* stage_count_dropped() */
	const char *reason;
	uint64_t nr_samples;
	uint64_t nr_in_ledger; /* how many of these are in a ledger already; used by the thread that finishes outputs */
};

/* Valid when all pipelines are closed. */
struct batch_pool_totals {
	uint64_t bytes_in, bytes_out;             /* of extents: uncompressed, as written */
	uint64_t nr_extents, nr_plain, nr_failed; /* plain: not compressed; failed: because the compressor failed */
	uint64_t nr_built, nr_lowered; /* in rings, by who drains; less than params.level asks for, or not at all */
	uint64_t most_bytes;           /* the most memory that was in use at any time */
	uint64_t full_ns; /* how long a draining thread, or several, waited because all memory was in use */
	struct pool_drops drops[POOL_DROP_REASONS]; /* by stages; the first one without a reason ends the list */
	uint64_t pack_cpu_ns, write_cpu_ns; /* of the workers; the latter without their last batches until they end */
};

struct batch_pool {
	int level; /* as asked for */
	struct notifier *notifier;
	size_t extent_bytes, nr_jobs;
	bool realtime;
	struct extent_stats *stats;  /* read only */
	struct stack_cutter *cutter; /* NULL: nothing dumps stacks */
	bool trims, thorough, no_index;
	atomic_uint stack_bytes;          /* the most bytes of a stack dump that are kept; read without the lock */
	struct record_observer *observer; /* stream.h; borrowed; set before anything is drained; NULL: none */
	atomic_int level_now; /* the present compression level, read without the lock; 0 while `overtaken` */
	/* CLOCK_MONOTONIC: a draining thread waited for memory; UINT64_MAX: one waits now; 0: never */
	_Atomic uint64_t full_until_ns;
	struct batch_job *jobs; /* heap */
	uint8_t *memory;        /* mmap(2); pages are touched at their first use, or see ready_bytes */
	size_t memory_bytes;
	struct pool_worker *workers; /* heap */
	size_t nr_workers;           /* workers that run */
	/* spare: in use while others that wait for the output have saved as many bytes, see batch_pool_shrink() */
	struct free_list free_jobs, spare_jobs;
	uint8_t *spare_memory; /* mmap(2): only addresses, but of what is in use; NULL: there are none */
	size_t nr_spare;
	atomic_size_t nr_spare_known, nr_spare_used, saved_bytes; /* known: were in use at some time */
	struct idle_memory *idle_memory;                          /* heap */
	/*
	 * Read without the lock; each is exact, but not consistent with the others. to_pack: changed under the lock
	 * only; blocked: compressed, but behind one of the same pipeline that is not.
	 */
	atomic_size_t nr_free, nr_to_pack, nr_blocked;
	atomic_size_t most_bytes;    /* that were in use at any time */
	atomic_bool flush_requested; /* memory is short, and the stages were asked to pass batches on (STAGE_MEMORY) */
	_Atomic(struct memory_pressure *) pressure; /* NULL: none; set under the lock */
	atomic_bool pressure_high;                  /* likewise */

	pthread_mutex_t lock;
	pthread_cond_t room;     /* CLOCK_MONOTONIC; signalled when a job becomes free, or when an output fails */
	pthread_cond_t progress; /* signalled when a worker has ended a turn or has written: a pipeline may be idle */
	struct batch_job *first_to_pack, *last_to_pack;
	struct pool_client *first_turn, *last_turn;
	struct pool_worker *idle; /* idle workers; the last that became idle is first: its memory is in use already */
	int requested_level;      /* batch_pool_set_level() */
	bool ending, overtaken;   /* compression is too slow: nothing is compressed until more memory is free */
	struct pipeline *with_stages;             /* list of the pipelines whose stages may keep batches */
	size_t nr_packing, nr_waiting;            /* waiting: draining threads, for memory, since full_from_ns */
	atomic_size_t nr_unwritten;               /* waiting to be written; read without the lock, too */
	size_t nr_stores;                         /* number of times that a draining thread has stored */
	uint64_t full_from_ns, stores_counted_ns; /* the latter: CPU time of the draining thread, when last measured */
	struct batch_pool_totals totals;
};

/* Starts the workers. 0 or -errno; -ENOTSUP: a build without libzstd. */
int batch_pool_new(const struct batch_pool_params *params, struct batch_pool **ret, struct diag *reterr);
/* After all pipelines are closed: ends the workers; the totals are complete then. Idempotent. */
void batch_pool_stop(struct batch_pool *pool);
void batch_pool_free(struct batch_pool *pool); /* NULL is fine */

struct batch_pool_stats {
	size_t nr_extents, nr_free, nr_to_pack, nr_packing, nr_blocked, nr_unwritten;
	uint64_t nr_packed; /* so far */
};
struct batch_pool_stats batch_pool_stats(struct batch_pool *pool); /* from any thread; NULL: all 0 */

/*
 * Sets the compression level from now on: 0 (none) to pool->level. Compressions that run at a higher level are
 * cancelled and begin again at this level. From any thread.
 */
void batch_pool_set_level(struct batch_pool *pool, int level);

/*
 * Memory that was not needed for some seconds is the kernel's again. now_ns: CLOCK_MONOTONIC. To be called now and then
 * by one thread. NULL is fine.
 */
void batch_pool_give_back(struct batch_pool *pool, uint64_t now_ns);

/* As stage_count_dropped() (stream/stage.h), for samples that are in no batch. From any thread. */
void batch_pool_count_dropped(struct batch_pool *pool, const char *reason, uint64_t nr_samples);

/* Makes no further calls of pressure->set(); if the last one was high, first calls it with false. NULL is fine. */
void batch_pool_disable_pressure(struct batch_pool *pool);
