/* SPDX-License-Identifier: MIT */
/*
 * producer: what one thread fills of a pipeline: it copies the bytes of rings into batches, or compresses them in their
 * ring, and hands over batches that are full or old. A pipeline has one, or more where several threads fill it.
 *
 * Private to producer.c and to pipeline.c, which gives batches to the stages, and writes them in their order.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/batch_job.h"
#include "stream/producers.h"
#include "stream/retained.h"
#include "stream/writer.h"

struct batch_pool;
struct extent_builder;
struct stage;

/* What one thread fills. */
struct producer {
	struct writer writer;
	struct pipeline *pipeline;
	struct batch_job *filling;      /* NULL: none */
	bool aged;                      /* it was there at the last commit */
	size_t number;                  /* without an output: in the order of opening, from 0 on */
	uint64_t came_bytes;            /* from rings */
	uint64_t committed;             /* writer.queued at the last commit */
	struct producer *next;          /* of the same output */
	uint64_t complete_ns;           /* of what stages have seen: writer.complete_ns; the orderer's */
	struct extent_builder *builder; /* owned; NULL: records are copied, and compressed later */
	bool builds;                    /* `filling` is what it builds */
	bool stage_looks;               /* until it cannot any more */
	/* that come, because records repeat too little; how many that were the last time, 0: an extent became full */
	unsigned visits_to_copy, visits_copied;
};

struct pipeline {
	struct producer producer; /* the first, and often the only one */
	struct batch_pool *pool;
	struct writer *inner;       /* owned; used by the thread that set `busy` */
	struct producers producers; /* when there are others */

	/* Of any thread: */
	_Atomic(struct batch_job *) arrived; /* handed over, that no turn has seen: the last first */
	atomic_bool commit_wanted;           /* of all that was handed over before */
	atomic_size_t nr_behind;             /* of these two, of `in_turn` and of the line */
	atomic_bool drain_stores; /* who drains calls producer_store(): no worker is woken, but where a thread waits */
	atomic_int err;           /* of `inner`: what comes later is dropped; set under the lock */
	_Atomic uint64_t stored;  /* as `inner` tells; likewise */
	atomic_bool holds_back;   /* `inner` has more than that; likewise */
	atomic_size_t nr_staged;  /* batches that stages have */
	atomic_size_t nr_unseen;  /* batches handed over that the first stage has not seen */
	_Atomic uint64_t ordered_bytes; /* where the next one will begin in the output, if it is not compressed */

	/* Of the thread whose turn it is: */
	struct batch_job *in_turn, *last_in_turn; /* arrived, in order */

	/* Under the pool's lock: */
	struct batch_job *first, *last; /* handed over, in order */
	struct batch_job *due;          /* the last up to which all are done; NULL: the first is not */
	bool busy;                      /* a thread uses `inner` */
	uint64_t out_bytes;             /* given to `inner` */
	uint64_t in_bytes;              /* that they stand for */
	bool commit;                    /* `inner` holds back what is too old for that */
	struct extent_list extents;     /* written so far */
	bool extents_failed;            /* memory ran out: no index is better than half of one */
	struct retained retained;       /* without an output */
	struct stage *stages;           /* in order; NULL: none */
	struct pool_client client;
	bool flushes;         /* some of them keep batches */
	bool flushed;         /* after an error they were asked for all that they keep; or they end */
	uint64_t complete_ns; /* complete_of(), of the batches so far; likewise */
	bool commits;      /* STAGE_COMMIT for them, behind the batches of this turn; of the thread whose turn it is */
	bool turn_commits; /* likewise: `commit`, when the batches of this turn are written */
	uint64_t freed_bytes; /* that came in batches which they freed */
	struct pipeline *next_with_stages;
	uint64_t *ends; /* heap; without an index: where the extents end that `inner` has not stored, in order */
	size_t first_end, nr_ends, room_ends;
	uint64_t whole; /* the end of the last one that it has stored */
};

/* The operations of a writer that is a producer, or a pipeline (writer.h). On the thread that fills it. */
int64_t producer_take(struct writer *writer, const struct span spans[], unsigned nr_spans);
int producer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans);
uint64_t producer_store(struct writer *writer);
int producer_put(struct writer *writer, const void *bytes, size_t len);
int producer_fix_position(struct writer *writer);
int producer_commit(struct writer *writer, bool all);
int producer_complete(struct writer *writer, enum writer_wait wait);

extern const struct writer_ops producer_ops;

void producer_prepare(struct producer *producer); /* when its pipeline has got a stage */
void producer_seal(struct producer *producer);    /* hands over the batch that it fills, if there is one. No lock */
int producer_wait(struct producer *producer, enum writer_wait wait); /* 0, or the error of the output */

/* Of pipeline.c: there is something for its turn. Any thread, no lock. */
void pipeline_schedule(struct pipeline *pipeline);
/* Until all that was handed over is written. With the pool's lock, which it releases while it waits. */
void pipeline_wait_until_idle(const struct pipeline *pipeline);
/* When that is so the inner writer is the caller's, until it gives it back. 0, or the error of the output. No lock. */
int pipeline_take_inner(struct pipeline *pipeline);
void pipeline_leave_inner(struct producer *producer, int err, size_t bytes); /* that were written to it */
