/* SPDX-License-Identifier: MIT */
#include "stream/pipeline.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_stats.h"
#include "compress/stack_cut.h"
#include "perfdata/record.h"
#include "stream/batch_job.h"
#include "stream/batch_pool.h"
#include "stream/producers.h"
#include "stream/retained.h"
#include "stream/ring.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "sysinfo/thread.h"

enum {
	PIECE_BYTES = 16 << 10,                           /* half of a first-level cache */
	MOST_SEEN_BYTES = PIECE_BYTES + RECORD_MAX_BYTES, /* by a stage at once, of records that begin in a piece */
};

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
	size_t unmeasured;              /* bytes that were added to it since its CPU time was measured */
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

static struct producer *producer_of(struct writer *writer)
{
	return (struct producer *)writer;
}

static struct pipeline *pipeline_of(struct writer *writer)
{
	return (struct pipeline *)writer;
}

static struct pipeline *pipeline_of_client(struct pool_client *client)
{
	return (struct pipeline *)((char *)client - offsetof(struct pipeline, client));
}

/* The first one stays: another thread may have met one while the lock was released. The lock is held. */
static void note_error(struct pipeline *pipeline, int err)
{
	if (!err || pipeline->err)
		return;
	pipeline->err = err;
	pthread_cond_broadcast(&pipeline->pool->room);
	if (pipeline->flushes && !pipeline->flushed) /* others may wait for the memory that its stages keep */
		batch_pool_add_turn(pipeline->pool, &pipeline->client, true);
}

/* Each chunk fits into a block of the writer. An error stays in the writer. */
static void queue_chunks(struct writer *inner, struct span span)
{
	for (size_t at = 0, part; at < span.len; at += part) {
		part = span.len - at < PIPELINE_WRITE_BYTES ? span.len - at : PIPELINE_WRITE_BYTES;
		writer_queue_wait(inner, &(struct span){(const char *)span.ptr + at, part}, 1);
	}
}

/* In one call, where the writer takes it. Its memory is used again when we return. */
static int write_job(struct pipeline *pipeline, const struct batch_job *job)
{
	const struct span all = {job->batch.records, job->out_len + job->batch.tail_len};
	struct writer *inner = pipeline->inner;

	memcpy(job->batch.records + job->out_len, job->tail, job->batch.tail_len); /* there is room behind each batch */
	if (inner->ops->stages)
		queue_chunks(inner, all);
	else if (all.len)
		writer_queue_wait(inner, &all, 1);
	return writer_complete(inner, WRITER_NOW); /* or the error of what was queued */
}

/*
 * Without an index: notes where the extent ends that is written now. When there is no memory for that, `stored` reaches
 * this end only together with the next one.
 */
static void note_end(struct pipeline *pipeline)
{
	if (!pipeline->pool->no_index)
		return;
	if (pipeline->first_end + pipeline->nr_ends == pipeline->room_ends) {
		if (pipeline->nr_ends)
			memmove(pipeline->ends, pipeline->ends + pipeline->first_end,
				pipeline->nr_ends * sizeof(*pipeline->ends));
		pipeline->first_end = 0;
	}
	if (array_room(pipeline->ends, pipeline->nr_ends, pipeline->room_ends))
		return;
	pipeline->ends[pipeline->first_end + pipeline->nr_ends++] = pipeline->out_bytes;
}

/* Takes over the counts. Also one of which a part is written: cut_extents() has to know where that begins. */
static void note_extent(struct pipeline *pipeline, struct extent_info *info, size_t len, size_t out_len)
{
	if (!len) {
		free(info->counts);
		info->counts = NULL;
		return;
	}
	info->fields.offset = pipeline->producer.writer.offset + pipeline->out_bytes;
	info->fields.packed_bytes = out_len;
	if (extent_list_add(&pipeline->extents, info))
		pipeline->extents_failed = true;
}

/* Without an output: keeps a copy of the extent. Called without the lock, which it takes. */
static int retain_job(struct pipeline *pipeline, struct batch_job *job)
{
	struct retained_extent *extent = retained_extent_new(job);

	pthread_mutex_lock(&pipeline->pool->lock);
	if (extent)
		retained_add(&pipeline->retained, extent);
	pthread_mutex_unlock(&pipeline->pool->lock);
	return extent ? 0 : -ENOMEM;
}

/* How far the output is whole: never a part of an extent, which is given to the writer in chunks. */
static uint64_t whole_bytes(struct pipeline *pipeline)
{
	if (pipeline->pool->no_index) {
		for (; pipeline->nr_ends && pipeline->ends[pipeline->first_end] <= pipeline->inner->stored;
		     pipeline->nr_ends--)
			pipeline->whole = pipeline->ends[pipeline->first_end++];
		return pipeline->whole;
	}
	uint64_t offset = pipeline->producer.writer.offset, end = offset + pipeline->inner->stored;

	for (size_t i = pipeline->extents.nr; i-- > 0;) {
		const struct extent_fields *fields = &pipeline->extents.infos[i].fields;
		if (fields->offset + fields->packed_bytes <= end)
			break;
		if (fields->offset < end)
			end = fields->offset;
	}
	return end - offset;
}

/* The lock is held. */
static void note_stored(struct pipeline *pipeline)
{
	uint64_t stored = whole_bytes(pipeline);

	pipeline->stored = stored;
	pipeline->holds_back = stored < pipeline->out_bytes;
}

/* What is done, and nothing that is not before it. */
static void find_due(struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	for (struct batch_job *job; (job = pipeline->due ? pipeline->due->next_in_line : pipeline->first) && job->done;
	     pipeline->due = job) {
		atomic_fetch_sub_explicit(&pool->nr_blocked, 1, memory_order_relaxed);
		pool->nr_unwritten++;
	}
}

/* A batch that is not in the line any more: `tried` to write it, with that error. The lock is held. */
static void note_written(struct pipeline *pipeline, struct batch_job *job, bool tried, int err)
{
	struct batch_pool *pool = pipeline->pool;

	if (tried && !pool->no_index)
		note_extent(pipeline, &job->info, job->batch.len, job->out_len);
	else
		free(job->info.counts);
	if (tried && !err) {
		pipeline->in_bytes += job->came_len + job->batch.tail_len;
		pipeline->out_bytes += job->out_len + job->batch.tail_len;
		note_end(pipeline);
	}
	note_error(pipeline, err);
	pipeline->commit |= job->commit;
	if (pipeline->inner)
		note_stored(pipeline);
	pool->nr_unwritten--;
	if (pipeline->due == job)
		pipeline->due = NULL;
	pipeline->first = job->next_in_line;
	if (!pipeline->first)
		pipeline->last = NULL;
	atomic_fetch_sub_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
	batch_pool_put(pool, job);
}

/*
 * What the inner writer has was old enough when its extent ended: none of it is held back once more. The
 * lock is held, and released during the call.
 */
static bool commit_inner(struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	if (!pipeline->commit || pipeline->err)
		return false;
	pipeline->commit = false;
	pthread_mutex_unlock(&pool->lock);
	int err = writer_commit(pipeline->inner, true);
	if (!err)
		err = writer_complete(pipeline->inner, WRITER_NOW);
	pthread_mutex_lock(&pool->lock);
	note_error(pipeline, err);
	note_stored(pipeline);
	return true;
}

/*
 * Of the pool's client: jobs are done; writes what is due. A worker that compresses shares its CPU with the load, and
 * memory that runs short lasts no longer for that: it writes with the priority of a thread that drains. The pool's lock
 * is held, and released while something is written.
 */
static void write_done(struct pool_client *client)
{
	struct pipeline *pipeline = pipeline_of_client(client);
	struct batch_pool *pool = pipeline->pool;
	struct priority before;
	const char *unused;

	find_due(pipeline);
	if (pipeline->busy)
		return; /* who is at it comes to this job, too */
	pipeline->busy = true;
	bool writes = (pipeline->first && pipeline->first->done) || pipeline->commit;
	bool raised = writes && pool->level && 2 * atomic_load(&pool->nr_free) < pool->nr_jobs;
	if (raised)
		(void)!priority_raise(0, &before, &unused);
	do {
		while (pipeline->first && pipeline->first->done) {
			struct batch_job *job = pipeline->first;
			int err = pipeline->err;
			bool tried = !err && pipeline->inner;
			if (tried)
				pipeline->inner->memory_is_short = 4 * atomic_load(&pool->nr_free) < 3 * pool->nr_jobs;
			pthread_mutex_unlock(&pool->lock);
			if (!err)
				err = pipeline->inner ? write_job(pipeline, job) : retain_job(pipeline, job);
			pthread_mutex_lock(&pool->lock);
			note_written(pipeline, job, tried, err);
		}
	} while (commit_inner(pipeline));
	pipeline->busy = false;
	if (raised)
		priority_restore(&before);
	pthread_cond_broadcast(&pool->progress);
}

static void append(struct batch_job **first, struct batch_job **last, struct batch_job *job)
{
	job->next_in_line = NULL;
	*(*first ? &(*last)->next_in_line : first) = job;
	*last = job;
}

/*
 * Its place in the output is known. What is neither compressed nor listed is done: who called the stages writes it.
 * The lock is held.
 */
static void line_up(struct pipeline *pipeline, struct batch_job *job)
{
	append(&pipeline->first, &pipeline->last, job);
	atomic_fetch_add_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pipeline->ordered_bytes, job->batch.len + job->batch.tail_len, memory_order_relaxed);
	if (!pipeline->pool->no_index || pipeline->flushes) { /* beside such stages another worker writes */
		batch_pool_submit(pipeline->pool, job);
		return;
	}
	job->plain = true;
	job->out_len = job->batch.len;
	job->done = true;
	atomic_fetch_add_explicit(&pipeline->pool->nr_blocked, 1, memory_order_relaxed);
	batch_pool_count(pipeline->pool, job, -ENOTSUP, 0);
}

/* Its memory is free, and what came in it is accounted for. The lock is held. */
static void free_job(struct pipeline *pipeline, struct batch_job *job)
{
	pipeline->nr_staged--;
	pipeline->freed_bytes += job->came_len;
	pipeline->turn_commits |= job->commit;
	batch_pool_put(pipeline->pool, job);
}

static uint64_t offset_of_next(const struct pipeline *pipeline)
{
	if (!pipeline->pool->no_index)
		return STAGE_NO_OFFSET;
	return pipeline->producer.writer.offset + atomic_load_explicit(&pipeline->ordered_bytes, memory_order_relaxed);
}

int stage_pass(struct stage *stage, struct batch *batch)
{
	struct pipeline *output = stage->output;
	struct batch_job *job = (struct batch_job *)batch;

	if (stage->next) {
		uint64_t complete_ns = batch->complete_ns;
		batch->next = NULL;
		batch->offset = offset_of_next(output);
		int err = stage->next->ops->process(stage->next, batch);
		if (complete_ns > stage->next->complete_ns)
			stage->next->complete_ns = complete_ns;
		return err;
	}
	pthread_mutex_lock(&output->pool->lock);
	if (batch->len || batch->tail_len) {
		output->nr_staged--;
		line_up(output, job);
	} else {
		free_job(output, job);
	}
	int err = output->err;
	pthread_mutex_unlock(&output->pool->lock);
	return err;
}

const struct extent_stats *stage_extent_stats(const struct stage *stage)
{
	return stage->output->pool->stats;
}

void stage_set_extent_info(struct batch *batch, const struct extent_info *info)
{
	struct batch_job *job = (struct batch_job *)batch;

	job->info = *info;
	job->has_info = true;
}

struct batch *stage_batch_new(struct stage *stage)
{
	struct pipeline *output = stage->output;
	struct batch_job *job = batch_pool_take(output->pool, &output->client);

	if (job)
		atomic_fetch_add_explicit(&output->nr_staged, 1, memory_order_relaxed);
	return job ? &job->batch : NULL;
}

void stage_batch_free(struct stage *stage, struct batch *batch)
{
	pthread_mutex_lock(&stage->output->pool->lock);
	free_job(stage->output, (struct batch_job *)batch);
	pthread_mutex_unlock(&stage->output->pool->lock);
}

/*
 * A mark says that what follows is not older than what stood before the mark before it. So none may come to stand
 * behind records that came later, or before others: one between the two batches is dropped, and counts as bytes that
 * came and are not stored.
 */
void stage_batch_join(struct stage *stage, struct batch *batch, struct batch *next)
{
	struct batch_job *job = (struct batch_job *)batch, *from = (struct batch_job *)next;

	if (next->len || next->tail_len) {
		memcpy(batch->records + batch->len, next->records, next->len);
		batch->len += next->len;
		job->came_len += batch->tail_len;
		memcpy(batch->tail, next->tail, next->tail_len);
		batch->tail_len = next->tail_len;
	}
	job->came_len += from->came_len;
	from->came_len = 0;
	job->commit |= from->commit;
	from->commit = false;
	stage_batch_free(stage, next);
}

void stage_count_dropped(struct stage *stage, const char *reason, uint64_t nr_samples)
{
	batch_pool_count_dropped(stage->output->pool, reason, nr_samples);
}

static int flush_stages(struct pipeline *pipeline, enum stage_flush why)
{
	bool all = why == STAGE_MEMORY || why == STAGE_END;
	int first_err = 0;

	for (struct stage *each = pipeline->stages; each && (!first_err || all); each = each->next) {
		if (why == STAGE_END) /* not earlier: the stage before it has passed on all that it kept only now */
			each->complete_ns = UINT64_MAX;
		int err = each->ops->flush ? each->ops->flush(each, why) : 0;
		first_err = first_err ? first_err : err;
	}
	return first_err;
}

/* Up to when is all known that came from the rings of all who fill the output? */
static uint64_t complete_of(const struct pipeline *pipeline)
{
	uint64_t complete_ns = UINT64_MAX;

	for (const struct producer *producer = &pipeline->producer; producer; producer = producer->next)
		if (producer->writer.complete_ns != UINT64_MAX && producer->complete_ns < complete_ns)
			complete_ns = producer->complete_ns;
	return complete_ns;
}

/* What the stages are told with the batch. */
static void set_for_stages(struct pipeline *pipeline, struct batch_job *job)
{
	if (job->producer)
		job->producer->complete_ns = job->complete_ns;
	pipeline->commits |= job->flush;
	if (pipeline->flushes) /* of each one: a stage that keeps some of a turn passes these on to the next */
		pipeline->complete_ns = complete_of(pipeline);
	job->batch.complete_ns = pipeline->complete_ns;
	job->batch.next = NULL;
	job->batch.offset = offset_of_next(pipeline);
}

static int end_round(struct pipeline *pipeline)
{
	struct stage *first = pipeline->stages;
	const uint64_t complete_ns = pipeline->complete_ns = complete_of(pipeline);
	bool commit = pipeline->commits, grown = complete_ns > first->complete_ns;

	pipeline->commits = false;
	if (grown)
		first->complete_ns = complete_ns; /* of the others when they get a batch */
	return commit || grown ? flush_stages(pipeline, commit ? STAGE_COMMIT : STAGE_ROUND) : 0;
}

/*
 * What arrived has its turn, in order. A commit is about all that had arrived when it was wanted, and what the writer
 * behind the pipeline has of it: the last batch on the way takes it along, or it is due. The lock is held.
 */
static void begin_turn(struct pipeline *pipeline)
{
	bool commit = atomic_exchange(&pipeline->commit_wanted, false);
	struct batch_job *last_first = atomic_exchange(&pipeline->arrived, NULL), *in_order = NULL;

	while (last_first) {
		struct batch_job *job = last_first;
		last_first = job->next_in_line;
		job->next_in_line = in_order;
		in_order = job;
	}
	while (in_order) {
		struct batch_job *job = in_order;
		in_order = job->next_in_line;
		append(&pipeline->in_turn, &pipeline->last_in_turn, job);
	}
	if (!commit)
		return;
	atomic_fetch_sub_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
	*(pipeline->in_turn ? &pipeline->last_in_turn->commit : &pipeline->turn_commits) = true;
}

/* Something came since the turn began: it has another. Pairs with what came before batch_pool_schedule(). */
static void end_turn(struct pipeline *pipeline)
{
	atomic_store(&pipeline->client.has_turn, false);
	if (pipeline->in_turn || atomic_load(&pipeline->arrived) || atomic_load(&pipeline->commit_wanted) ||
	    (pipeline->err && pipeline->flushes && !pipeline->flushed))
		batch_pool_add_turn(pipeline->pool, &pipeline->client, true);
}

/*
 * Once for all batches of a turn: what stages keep is more work at once then, and several threads may do it. When
 * memory is short and nothing comes any more, all that they keep. The lock is held, and released during that.
 */
static void flush_turn(struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	pthread_mutex_unlock(&pool->lock);
	int err = end_round(pipeline);
	if (!err && pipeline->nr_staged && batch_pool_is_short(pool) && !pipeline->arrived)
		err = flush_stages(pipeline, STAGE_MEMORY);
	pthread_mutex_lock(&pool->lock);
	note_error(pipeline, err);
}

/* After an error stages get no more batches, and keep none. The lock is held, and released during that. */
static void flush_failed(struct pipeline *pipeline)
{
	pipeline->flushed = true;
	pthread_mutex_unlock(&pipeline->pool->lock);
	(void)!flush_stages(pipeline, STAGE_MEMORY); /* the first error counts */
	pthread_mutex_lock(&pipeline->pool->lock);
}

/*
 * Of the pool's client: gives so many batches to the stages, and writes what needs no compression; then it has another
 * turn. The lock is held, and released during that.
 */
static void call_stages(struct pool_client *client, size_t most)
{
	struct pipeline *pipeline = pipeline_of_client(client);
	struct batch_pool *pool = pipeline->pool;

	begin_turn(pipeline);
	for (size_t nr = 0; nr < most && pipeline->in_turn; nr++) {
		struct batch_job *job = pipeline->in_turn;
		bool unseen = !job->seen;
		/* after an error it is dropped later */
		struct stage *first = unseen && !pipeline->err ? pipeline->stages : NULL;
		pipeline->in_turn = job->next_in_line;
		if (first) {
			atomic_fetch_add_explicit(&pipeline->nr_staged, 1, memory_order_relaxed);
			atomic_fetch_sub_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
			pthread_mutex_unlock(&pool->lock);
			set_for_stages(pipeline, job);
			int err = first->ops->process(first, &job->batch);
			pthread_mutex_lock(&pool->lock);
			note_error(pipeline, err);
		} else {
			line_up(pipeline, job);
			atomic_fetch_sub_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
		}
		if (unseen) /* what the stage did is seen by who finds that it has seen all */
			atomic_fetch_sub_explicit(&pipeline->nr_unseen, 1, memory_order_release);
		if (pipeline->first && pipeline->first->done)
			write_done(client);
	}
	if (pipeline->stages && pipeline->flushes && !pipeline->err)
		flush_turn(pipeline);
	if (pipeline->flushes && pipeline->err && !pipeline->flushed)
		flush_failed(pipeline);
	if (pipeline->turn_commits) /* also what the stages passed on */
		*(pipeline->first ? &pipeline->last->commit : &pipeline->commit) = true;
	pipeline->turn_commits = false;
	if (pipeline->commit)
		write_done(client);
	end_turn(pipeline);
	pthread_cond_broadcast(&pool->progress);
}

static void schedule(struct pipeline *pipeline)
{
	batch_pool_schedule(pipeline->pool, &pipeline->client,
			    !atomic_load_explicit(&pipeline->drain_stores, memory_order_relaxed));
}

/* Stages that keep batches give them back. The lock is held. */
static void request_memory(struct batch_pool *pool)
{
	for (struct pipeline *each = pool->with_stages; each; each = each->next_with_stages)
		if (each->nr_staged)
			batch_pool_add_turn(pool, &each->client, !each->drain_stores);
}

/* What is left to do workers do. */
static void end_built(struct producer *producer)
{
	struct batch_job *job = producer->filling;

	job->built = extent_builder_end(producer->builder, &job->info);
	job->batch.len = job->info.came_bytes = job->came_len;
	job->has_info = job->seen = true;
	producer->builds = false;
}

/* Hands the batch over to the thread whose turn it is. No lock, where one has it. */
static void seal(struct producer *producer)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_job *job = producer->filling;

	if (!job)
		return;
	if (producer->builds)
		end_built(producer);
	if (!job->seen)
		atomic_fetch_add_explicit(&pipeline->nr_unseen, 1, memory_order_relaxed);
	producer->filling = NULL;
	producer->aged = false;
	job->producer = producer;
	job->producer_number = producer->number;
	job->came_end = producer->came_bytes;
	job->complete_ns = producer->writer.complete_ns;
	job->batch.read_ns = clock_ns(CLOCK_MONOTONIC);
	atomic_fetch_add_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
	job->next_in_line = atomic_load_explicit(&pipeline->arrived, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&pipeline->arrived, &job->next_in_line, job))
		;
	schedule(pipeline);
}

/* Of the next bytes in the output, when no other thread fills it and nothing is compressed. */
static uint64_t offset_of_filled(const struct producer *producer)
{
	return producer->writer.offset + producer->writer.queued;
}

/*
 * Where the records stand in their page as they will in the page of the file, storing them is cheaper: no byte is moved
 * by less than a word, and writes past the page cache need no copy. Where they come elsewhere after all, because
 * stages change them or other producers come between, it is only dearer.
 */
static void align_as_output(struct producer *producer)
{
	if (producer->filling && producer->pipeline->pool->no_index)
		producer->filling->batch.records += offset_of_filled(producer) % 4096 & ~7UL;
}

/* Sees to it that something can be filled. -EAGAIN: not now. */
static int fill_next(struct producer *producer)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_pool *pool = pipeline->pool;

	if (producer->filling)
		return 0;
	int err = pipeline->err;
	producer->writer.stored = pipeline->stored;
	if (err)
		return err;
	producer->filling = batch_pool_take(pool, &pipeline->client);
	align_as_output(producer);
	if (batch_pool_is_short(pool) && !atomic_exchange(&pool->flush_requested, true)) {
		pthread_mutex_lock(&pool->lock);
		request_memory(pool);
		pthread_mutex_unlock(&pool->lock);
	}
	if (batch_pool_is_late(pool))
		notifier_notify(pool->notifier);
	return producer->filling ? 0 : -EAGAIN;
}

static bool is_idle(const struct pipeline *pipeline)
{
	return !pipeline->arrived && !pipeline->client.has_turn && !pipeline->first && !pipeline->busy;
}

static void note_full(struct batch_pool *pool, uint64_t from_ns)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	pool->totals.full_ns += now_ns - from_ns;
	atomic_store_explicit(&pool->full_until_ns, now_ns, memory_order_relaxed);
}

/* glibc from 2.27 on may lose a signal (its bug 25847): a thread that waits for an extent looks again after a while. */
static void wait_for_signal(struct batch_pool *pool)
{
	enum { LOOK_AGAIN_NS = 100000000 };
	const uint64_t ns = clock_ns(CLOCK_MONOTONIC) + LOOK_AGAIN_NS;
	const struct timespec until = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	pthread_cond_timedwait(&pool->room, &pool->lock, &until);
}

/*
 * Until an extent is free: each one wakes one thread, for others would find that there is none for them. What was woken
 * takes it; or it fails, which wakes all, or has failed. The lock is held, and released for that.
 */
static void wait_for_room(const struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	if (!free_list_is_empty(&pool->free_jobs))
		return;
	uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
	atomic_store_explicit(&pool->full_until_ns, UINT64_MAX, memory_order_relaxed);
	request_memory(pool);
	batch_pool_wake(pool);
	while (!pipeline->err && free_list_is_empty(&pool->free_jobs))
		wait_for_signal(pool);
	if (pipeline->err)
		pthread_cond_signal(&pool->room);
	note_full(pool, from_ns);
}

/* Until all that was handed over is written. The lock is held, and released during that. */
static void wait_until_idle(const struct pipeline *pipeline)
{
	batch_pool_wake(pipeline->pool);
	while (!is_idle(pipeline))
		pthread_cond_wait(&pipeline->pool->progress, &pipeline->pool->lock);
}

/* Returns the error of the inner writer. */
static int wait_for(struct producer *producer, enum writer_wait wait)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_pool *pool = pipeline->pool;

	if (wait != WRITER_NOW) {
		pthread_mutex_lock(&pool->lock);
		if (wait == WRITER_ROOM)
			wait_for_room(pipeline);
		else
			wait_until_idle(pipeline);
		pthread_mutex_unlock(&pool->lock);
	}
	producer->writer.stored = pipeline->stored;
	return pipeline->err;
}

/* When all that was handed over is written the inner writer is ours: workers leave alone what comes from here on. */
static int take_inner(struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	pthread_mutex_lock(&pool->lock);
	wait_until_idle(pipeline);
	int err = pipeline->err;
	pipeline->busy = true;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* `bytes`: that were written to it. */
static void leave_inner(struct producer *producer, int err, size_t bytes)
{
	struct pipeline *pipeline = producer->pipeline;

	pthread_mutex_lock(&pipeline->pool->lock);
	note_error(pipeline, err);
	pipeline->in_bytes += bytes;
	pipeline->out_bytes += bytes;
	atomic_fetch_add_explicit(&pipeline->ordered_bytes, bytes, memory_order_relaxed);
	note_end(pipeline);
	note_stored(pipeline);
	producer->writer.stored = pipeline->stored;
	pipeline->busy = false;
	write_done(&pipeline->client); /* what came since */
	pthread_mutex_unlock(&pipeline->pool->lock);
}

/*
 * Bytes of the first whole records of a ring that fit into `room`; 0: the first one does not, or is no record. They do
 * not wrap within their headers: rings are pages, records multiples of 8.
 */
static size_t whole_records(const struct span spans[2], size_t room)
{
	size_t at = 0;

	for (;;) {
		struct perf_event_header header;
		const char *where = at < spans[0].len ? (const char *)spans[0].ptr + at
						      : (const char *)spans[1].ptr + (at - spans[0].len);
		bool wraps = at < spans[0].len && spans[0].len - at < sizeof(header);
		if (wraps || at + sizeof(header) > room)
			break;
		memcpy(&header, where, sizeof(header));
		if (header.size < sizeof(header) || header.size % 8 || at + header.size > room)
			break;
		at += header.size;
	}
	return at;
}

static void skip_spans(struct span spans[2], size_t len)
{
	for (unsigned i = 0; i < 2; i++) {
		size_t part = spans[i].len < len ? spans[i].len : len;
		if (!part) /* there may be no second one: NULL */
			continue;
		spans[i].ptr = (const char *)spans[i].ptr + part;
		spans[i].len -= part;
		len -= part;
	}
}

static bool is_task_event(uint32_t type)
{
	return type == PERF_RECORD_COMM || type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT ||
	       type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2 || type == PERF_RECORD_LOST;
}

/* A record that does not wrap: shorter, if it is a sample. Returns the bytes of the copy. */
static size_t copy_record(const struct producer *producer, unsigned stack_bytes, const uint8_t *record, uint8_t *to)
{
	const struct perf_event_header *header = (const struct perf_event_header *)record;
	struct ring_converter *converter = producer->writer.converter;
	size_t bytes = 0;

	if (converter && header->type == PERF_RECORD_SAMPLE)
		bytes = converter->convert(converter, record, to);
	return bytes ? bytes : stack_cut_copy(producer->pipeline->pool->cutter, record, stack_bytes, to);
}

/*
 * Copies the first `len` bytes of the spans, and takes them off. Where stacks are dumped: record by record, dumps
 * without what is not stack, or shorter. A record may wrap in the ring, not in the batch.
 */
static void copy_records(struct producer *producer, struct span spans[2], size_t len)
{
	struct batch_pool *pool = producer->pipeline->pool;
	struct stack_cutter *cutter = pool->cutter;
	struct batch *batch = &producer->filling->batch;
	const unsigned stack_bytes = atomic_load_explicit(&pool->stack_bytes, memory_order_relaxed);

	while (len) {
		struct span *from = &spans[spans[0].len ? 0 : 1];
		struct perf_event_header header = {0};
		uint8_t *to = batch->records + batch->len;
		size_t bytes = len; /* of this record; or all, if none is to be cut, or if these are no records */
		if (cutter && from->len >= sizeof(header)) {
			memcpy(&header, from->ptr, sizeof(header));
			bytes = header.size < sizeof(header) || header.size > len ? len : header.size;
		}
		bool cuts = cutter && bytes == header.size;
		if (cuts && bytes <= from->len) {
			batch->len += copy_record(producer, stack_bytes, from->ptr, to);
		} else {
			size_t first = from->len < bytes ? from->len : bytes;
			memcpy(to, from->ptr, first);
			if (first < bytes)
				memcpy(to + first, spans[1].ptr, bytes - first);
			batch->len += bytes;
			if (cuts)
				batch->len -= stack_cut(cutter, to, stack_bytes);
		}
		if (pool->observer && cuts && is_task_event(header.type))
			pool->observer->see(pool->observer, to);
		skip_spans(spans, bytes);
		len -= bytes;
	}
}

static bool waits_for_device(const struct pipeline *pipeline)
{
	return pipeline->inner && atomic_load_explicit(&pipeline->inner->waits, memory_order_relaxed);
}

static void note_taken(struct producer *producer, size_t bytes)
{
	producer->filling->came_len += bytes;
	producer->came_bytes += bytes;
	producer->writer.queued += bytes;
}

/*
 * Copies the first records of the spans, for a device that reads memory itself. The stage looks at some KiB of them,
 * and then they are copied: both read a ring that another CPU has written, but only the first waits for its cache, and
 * no CPU reads the copy. Returns their bytes; 0: there is no room, or the stage cannot look any more.
 */
static size_t copy_seen(struct producer *producer, const struct span spans[2])
{
	struct stage *stage = producer->pipeline->stages;
	struct batch *batch = &producer->filling->batch;
	struct span left[2] = {spans[0], spans[1]};
	size_t bytes = 0;

	while (left[0].len && producer->pipeline->pool->extent_bytes - batch->len >= MOST_SEEN_BYTES) {
		const struct stage_look how = {.offset = offset_of_filled(producer), .most = PIECE_BYTES};
		const size_t seen = stage->ops->look(stage, left, left[1].len ? 2 : 1, &how);
		struct span piece[2] = {left[0], left[1]};
		producer->stage_looks = seen;
		if (!seen)
			break;
		spans_cut(piece, seen);
		ring_copy_uncached(batch->records + batch->len, piece);
		batch->len += seen;
		note_taken(producer, seen);
		bytes += seen;
		skip_spans(left, seen);
		if (!left[0].len) {
			left[0] = left[1];
			left[1].len = 0;
		}
	}
	return bytes;
}

/* Can the stage look at records in their ring? Not at those of several threads, whose order is not known yet. */
static bool may_look(const struct producer *producer)
{
	return producer->stage_looks && producer->writer.has_time && !producer->writer.producers;
}

/*
 * Whether the stage looks at what is copied into the present batch: at all of it or nothing. It can do so for each
 * batch that begins when it has seen all others. false: that has changed, and the batch is handed over.
 */
static bool choose_look(struct producer *producer)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_job *job = producer->filling;
	bool looks = may_look(producer) && !producer->builder && waits_for_device(pipeline);

	if (!job->came_len)
		job->seen = looks && !atomic_load_explicit(&pipeline->nr_unseen, memory_order_acquire);
	else if (job->seen && !looks)
		return false;
	return true;
}

static int wait_and_fill(struct producer *producer)
{
	int err;

	while ((err = fill_next(producer)) == -EAGAIN)
		wait_for(producer, WRITER_ROOM); /* its error is returned by the next call */
	return err;
}

/* Where stacks are cut short what came may have left most of the room: cut as much of them goes into it. */
static bool is_full(const struct producer *producer)
{
	const struct batch_pool *pool = producer->pipeline->pool;

	return !pool->cutter || producer->filling->batch.len > pool->extent_bytes / 2;
}

/* Of a chunk that does not fit. Where stacks are cut each record is looked at anyway, and what is left may be a lot. */
static bool ends_extent(const struct producer *producer)
{
	const struct batch_pool *pool = producer->pipeline->pool;

	return !pool->cutter && producer->filling->batch.len >= pool->extent_bytes / 2;
}

/* Can records be compressed while they are in their ring, and is it worth it? Few are worth no extent of their own. */
static bool may_build(const struct producer *producer, size_t bytes)
{
	enum { LEAST_BYTES = 32 << 10 };
	const struct batch_pool *pool = producer->pipeline->pool;

	return producer->builder && may_look(producer) &&
	       atomic_load_explicit(&pool->level_now, memory_order_relaxed) == 1 &&
	       (producer->builds || bytes >= LEAST_BYTES);
}

/* The stage has seen it then. Only behind batches that were compressed by workers for a while. */
static bool look_at_copied(struct producer *producer)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_job *job = producer->filling;
	const struct span records = {job->batch.records, job->batch.len};
	struct extent_tally tally;

	if (extent_tally_begin(&tally, pipeline->pool->stats))
		return false;
	job->seen = pipeline->stages->ops->look(pipeline->stages, &records, 1, &(struct stage_look){.tally = &tally});
	extent_tally_end(&tally, records.len, &job->info);
	job->has_info = producer->stage_looks = job->seen;
	if (!job->seen)
		free(take_ptr(job->info.counts));
	return job->seen;
}

/* The stage gets all in order: not beside or before batches that were handed over, and behind what was copied last. */
static bool can_build(struct producer *producer)
{
	const struct batch_job *job = producer->filling;

	if (atomic_load_explicit(&producer->pipeline->nr_unseen, memory_order_acquire))
		return false;
	if (producer->builds || !job || !job->came_len)
		return true;
	/* Where records repeat enough only now and then, each change would end an extent. */
	if (job->came_len < producer->pipeline->pool->extent_bytes / 2 || !look_at_copied(producer))
		return false;
	seal(producer);
	return true;
}

static unsigned double_up_to(unsigned nr, unsigned most)
{
	return nr ? (2 * nr < most ? 2 * nr : most) : 1;
}

static int add_and_look(struct producer *producer, const struct span spans[2])
{
	struct stage *stage = producer->pipeline->stages;
	struct extent_builder *builder = producer->builder;
	const unsigned nr = spans[1].len ? 2 : 1;
	int err = extent_builder_add(builder, spans, nr);

	if (err || stage->ops->look(stage, spans, nr, &(struct stage_look){.tally = extent_builder_tally(builder)}))
		return err;
	extent_builder_undo(builder);
	producer->stage_looks = false;
	return -ECANCELED;
}

/* The CPU time is an estimate: the clock is a system call, and is read only where enough has come. */
static int add_measured(struct producer *producer, const struct span spans[2])
{
	enum { MEASURE_BYTES = 1 << 19 }; /* some 100 us */
	const size_t bytes = span_total(spans, 2);

	producer->unmeasured += bytes;
	if (producer->unmeasured < MEASURE_BYTES)
		return add_and_look(producer, spans);
	uint64_t before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = add_and_look(producer, spans);
	uint64_t ns = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns) * producer->unmeasured / bytes;
	producer->filling->built_ns += ns;
	producer->writer.built_ns += ns;
	producer->unmeasured = 0;
	return err;
}

/* 0 or -errno; -ENOSPC, -ENOTSUP, -ECANCELED: nothing was added, and what was built is handed over. */
static int add_to_built(struct producer *producer, const struct span spans[2])
{
	bool begun = producer->builds;
	int err = fill_next(producer);

	if (err)
		return err;
	if (!begun)
		extent_builder_begin(producer->builder, producer->filling->batch.records,
				     producer->filling->batch.room);
	producer->builds = true;
	err = add_measured(producer, spans);
	if (!err)
		return 0;
	if (begun)
		seal(producer);
	producer->builds = false;
	return err;
}

/* The first whole records of the spans. Returns their bytes, or -errno; 0: they are to be copied. */
static int64_t build(struct producer *producer, const struct span spans[2])
{
	enum { MOST_VISITS = 64 };
	const size_t total = span_total(spans, 2), most = producer->pipeline->pool->extent_bytes;
	size_t bytes = total > most ? whole_records(spans, most) : total;
	struct span some[2] = {spans[0], spans[1]};

	spans_cut(some, bytes);
	if (producer->visits_to_copy) {
		producer->visits_to_copy--;
		return 0;
	}
	if (!bytes || !can_build(producer))
		return 0;
	if (producer->builds && producer->filling->came_len + bytes > most) {
		seal(producer);
		producer->visits_copied = 0;
	}
	bool begun = producer->builds;
	int err = add_to_built(producer, some);
	if (err == -ENOSPC && begun)
		err = add_to_built(producer, some);
	if (err == -ENOTSUP)
		producer->visits_to_copy = producer->visits_copied = double_up_to(producer->visits_copied, MOST_VISITS);
	if (err)
		return err == -ENOSPC || err == -ENOTSUP || err == -ECANCELED ? 0 : err;
	note_taken(producer, bytes);
	return (int64_t)bytes;
}

/* The first whole records of the spans that have room in the present batch. Returns their bytes, as copy_seen(). */
static size_t copy_unseen(struct producer *producer, struct span left[2])
{
	const struct batch *batch = &producer->filling->batch;
	const size_t total = span_total(left, 2), before = batch->len;
	const size_t room = producer->pipeline->pool->extent_bytes - before;
	size_t len = total;

	if (len > room)
		len = ends_extent(producer) ? 0 : whole_records(left, room);
	if (!len && before)
		return 0;
	len = len ? len : room; /* no records */
	copy_records(producer, left, len);
	producer->writer.left_out += len - (batch->len - before);
	note_taken(producer, len);
	if (len < total && is_full(producer))
		seal(producer);
	return len;
}

/* What has room in the present batch, or in the next one. */
static int64_t copy(struct producer *producer, struct span left[2])
{
	if (producer->builds)
		seal(producer);
	for (;;) {
		int err = fill_next(producer);
		if (err)
			return err;
		size_t bytes = 0;
		if (choose_look(producer))
			bytes = producer->filling->seen ? copy_seen(producer, left) : copy_unseen(producer, left);
		if (bytes)
			return (int64_t)bytes;
		if (producer->filling->came_len)
			seal(producer);
	}
}

static int64_t producer_take(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct producer *producer = producer_of(writer);
	struct span left[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	int64_t bytes = may_build(producer, span_total(left, 2)) ? build(producer, left) : 0;

	return bytes ? bytes : copy(producer, left);
}

static int producer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct span left[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	bool begun = false;

	while (span_total(left, 2)) {
		int64_t len = producer_take(writer, left, 2);
		if (len < 0 && (len != -EAGAIN || !begun))
			return (int)len;
		int err = len < 0 ? wait_for(producer_of(writer), WRITER_ROOM) : 0;
		if (err)
			return err;
		begun = true;
		skip_spans(left, len < 0 ? 0 : (size_t)len);
	}
	return 0;
}

static uint64_t producer_store(struct writer *writer)
{
	enum { AT_ONCE = 4 }; /* more than that is late: a worker goes on beside the drain */
	struct pipeline *pipeline = producer_of(writer)->pipeline;
	struct batch_pool *pool = pipeline->pool;

	if (pipeline->flushes)
		return 0; /* stages that keep batches do more than look at them: that is for workers */
	bool waits = waits_for_device(pipeline);
	if (waits && !pipeline->drain_stores)
		return 0;
	uint64_t ns = 0;
	pthread_mutex_lock(&pool->lock);
	pipeline->drain_stores = !waits;
	struct pool_client *client = waits ? NULL : batch_pool_next_turn(pool);
	if (client) {
		struct store_clock clock = batch_pool_begin_store(pool);
		client->call_stages(client, AT_ONCE);
		ns = batch_pool_end_store(pool, clock);
	}
	if (waits)
		batch_pool_wake(pool); /* of what has come before */
	pthread_mutex_unlock(&pool->lock);
	return ns;
}

/* What does not fit behind an extent is written at once, behind all that came before. */
static int put_long(struct producer *producer, const void *bytes, size_t len)
{
	seal(producer);
	int err = take_inner(producer->pipeline);
	if (!err)
		err = writer_put(producer->pipeline->inner, bytes, len);
	leave_inner(producer, err, err ? 0 : len);
	return err;
}

/* A batch that has room for a mark. Of one whose records the stage has seen it has seen the mark, too. */
static int fill_for_mark(struct producer *producer, const struct span *mark)
{
	struct stage *stage = producer->pipeline->stages;
	int err = wait_and_fill(producer);

	if (err || producer->builds || !producer->filling->seen)
		return err;
	const struct stage_look how = {.offset = offset_of_filled(producer), .most = mark->len};
	producer->stage_looks = producer->stage_looks && stage->ops->look(stage, mark, 1, &how);
	if (producer->stage_looks)
		return 0;
	seal(producer);
	return wait_and_fill(producer);
}

static int producer_put(struct writer *writer, const void *bytes, size_t len)
{
	struct producer *producer = producer_of(writer);
	int err = 0;

	if (len > BATCH_TAIL_BYTES) {
		err = put_long(producer, bytes, len);
	} else {
		err = fill_for_mark(producer, &(struct span){bytes, len});
		if (!err) {
			struct batch_job *job = producer->filling;
			memcpy(job->tail, bytes, len);
			job->batch.tail_len = len;
			seal(producer);
		}
	}
	if (!err)
		writer->queued += len;
	return err;
}

static int producer_fix_position(struct writer *writer)
{
	seal(producer_of(writer));
	return 0;
}

/*
 * Stages are flushed behind all that has come. An empty batch does where nothing has; if there is none, the next time.
 */
static void flush_by_clock(struct producer *producer)
{
	if (!producer->filling)
		producer->filling = batch_pool_take(producer->pipeline->pool, &producer->pipeline->client);
	if (producer->filling)
		producer->filling->flush = true;
	seal(producer);
}

/*
 * The inner writer is told when it has all that was handed over, by the thread that writes it. `sealed`: just now, of
 * what came before the last commit.
 */
static void request_commit(struct producer *producer, bool sealed)
{
	struct pipeline *pipeline = producer->pipeline;
	bool has_more =
		sealed || producer->committed != producer->writer.queued || pipeline->holds_back || pipeline->flushes;

	if (!pipeline->inner || !has_more)
		return;
	producer->committed = producer->writer.queued;
	atomic_fetch_add_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
	if (atomic_exchange(&pipeline->commit_wanted, true))
		atomic_fetch_sub_explicit(&pipeline->nr_behind, 1, memory_order_relaxed);
	else
		schedule(pipeline);
}

static int producer_commit(struct writer *writer, bool all)
{
	struct producer *producer = producer_of(writer);

	if (producer->pipeline->flushes)
		flush_by_clock(producer);
	/* Only what is compressed is worth another period. */
	bool seals = producer->filling && (all || producer->aged || producer->pipeline->pool->no_index);
	if (seals)
		seal(producer);
	else
		producer->aged = producer->filling != NULL;
	request_commit(producer, seals);
	return 0;
}

static int producer_complete(struct writer *writer, enum writer_wait wait)
{
	struct producer *producer = producer_of(writer);

	if (wait == WRITER_ALL)
		seal(producer);
	if (wait != WRITER_ALL || !producer->pipeline->inner)
		return wait_for(producer, wait);
	int err = take_inner(producer->pipeline);
	if (!err)
		err = writer_complete(producer->pipeline->inner, WRITER_ALL);
	leave_inner(producer, err, 0);
	return err;
}

/* After an error: an extent that is not whole goes, and with it what would follow. */
static void cut_extents(struct pipeline *pipeline)
{
	struct writer *writer = &pipeline->producer.writer;
	struct extent_list *extents = &pipeline->extents;

	writer->stored = extent_list_start(extents, 0, writer->offset + writer->stored) - writer->offset;
	writer->packed = 0;
	while (extents->nr && extents->infos[extents->nr - 1].fields.offset >= writer->offset + writer->stored)
		free(extents->infos[--extents->nr].counts);
	for (size_t i = 0; i < extents->nr; i++)
		writer->packed += extents->infos[i].came_bytes - extents->infos[i].fields.packed_bytes;
}

void pipeline_run_stages(struct writer *writer)
{
	struct pipeline *pipeline = pipeline_of(writer);

	seal(&pipeline->producer);
	wait_for(&pipeline->producer, WRITER_ALL);
}

/* Threads that run short of memory do not ask its stages any more. The lock is held. */
static void leave_those_with_stages(struct pipeline *pipeline)
{
	struct pipeline **each = &pipeline->pool->with_stages;

	while (*each && *each != pipeline)
		each = &(*each)->next_with_stages;
	if (*each)
		*each = pipeline->next_with_stages;
	pipeline->next_with_stages = NULL;
}

/* They pass on what they have, and all of it is written. No worker calls them any more. */
static void end_stages(struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	pipeline_run_stages(&pipeline->producer.writer);
	if (!pipeline->stages)
		return;
	pthread_mutex_lock(&pool->lock);
	leave_those_with_stages(pipeline);
	pipeline->flushed = true;
	pthread_mutex_unlock(&pool->lock);
	wait_for(&pipeline->producer, WRITER_ALL); /* another output may have asked them since then */
	int err = flush_stages(pipeline, STAGE_END);
	pthread_mutex_lock(&pool->lock);
	note_error(pipeline, err);
	pthread_mutex_unlock(&pool->lock);
	wait_for(&pipeline->producer, WRITER_ALL);
	pipeline->stages = NULL;
}

static int pipeline_close(struct writer *writer)
{
	struct pipeline *pipeline = pipeline_of(writer);

	end_stages(pipeline);
	extent_builder_free(pipeline->producer.builder);
	retained_fini(&pipeline->retained);
	struct writer_end end;
	int err = writer_end(pipeline->inner, &end);
	writer->stored = end.stored;
	err = err ? err : pipeline->err;
	if (err && !pipeline->pool->no_index)
		cut_extents(pipeline);
	else
		writer->packed = pipeline->in_bytes + pipeline->freed_bytes - pipeline->out_bytes;
	if (pipeline->extents_failed)
		extent_list_fini(&pipeline->extents);
	writer->extents = pipeline->extents;
	free(pipeline->ends);
	return err;
}

void pipeline_request_snapshot(struct writer *writer)
{
	struct pipeline *pipeline = pipeline_of(writer);

	pthread_mutex_lock(&pipeline->pool->lock);
	if (!pipeline->retained.requested_ns)
		pipeline->retained.requested_ns = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&pipeline->pool->lock);
}

struct retained_range pipeline_retained(struct writer *writer)
{
	struct pipeline *pipeline = pipeline_of(writer);

	pthread_mutex_lock(&pipeline->pool->lock);
	struct retained_range range = {
		.first_ns = retained_first_ns(&pipeline->retained),
		.last_ns = retained_last_ns(&pipeline->retained),
	};
	range.whole_ns =
		pipeline->retained.dropped_ns > range.first_ns ? pipeline->retained.dropped_ns : range.first_ns;
	pthread_mutex_unlock(&pipeline->pool->lock);
	return range;
}

const uint64_t *pipeline_dropped(const struct writer *writer)
{
	return ((const struct pipeline *)writer)->retained.dropped;
}

void pipeline_end_input(struct writer *writer)
{
	struct pipeline *pipeline = pipeline_of(writer);

	end_stages(pipeline);
	pthread_mutex_lock(&pipeline->pool->lock);
	retained_drop(&pipeline->retained);
	writer->queued -= pipeline->retained.dropped_bytes + pipeline->retained.dropped_tail_bytes;
	pthread_mutex_unlock(&pipeline->pool->lock);
}

void pipeline_attach(struct writer *writer, struct writer *inner)
{
	struct pipeline *pipeline = pipeline_of(writer);

	writer->offset = inner->offset;
	writer->stores = inner->ops;
	writer->path = inner->path;
	pipeline->inner = inner;
}

int pipeline_write_retained(struct writer *writer)
{
	struct pipeline *pipeline = pipeline_of(writer);
	struct retained_extent *extent;
	int err = pipeline->err;

	while (!err && (extent = retained_take(&pipeline->retained))) {
		queue_chunks(pipeline->inner, (struct span){extent->bytes, extent->out_len + extent->tail_len});
		err = writer_complete(pipeline->inner, WRITER_NOW);
		note_extent(pipeline, &extent->info, extent->len, extent->out_len);
		if (!err) {
			pipeline->in_bytes += extent->len + extent->tail_len;
			pipeline->out_bytes += extent->out_len + extent->tail_len;
		}
		retained_extent_free(extent);
	}
	pipeline->err = err;
	note_stored(pipeline);
	writer->stored = pipeline->stored;
	return err;
}

static const struct pool_client pipeline_client = {.call_stages = call_stages, .write_done = write_done};

static const struct writer_ops pipeline_ops = {
	.name = "zstd",
	.state_bytes = sizeof(struct pipeline),
	.queue = producer_queue,
	.take = producer_take,
	.store = producer_store,
	.put = producer_put,
	.fix_position = producer_fix_position,
	.commit = producer_commit,
	.complete = producer_complete,
	.close = pipeline_close,
};

int pipeline_open_retained(struct batch_pool *pool, const struct retained_limits *limits, struct writer **ret)
{
	const struct writer_params params = {.fd = -1};
	int err = writer_open(&pipeline_ops, &params, ret);

	if (err)
		return err;
	pipeline_of(*ret)->pool = pool;
	pipeline_of(*ret)->producer.pipeline = pipeline_of(*ret);
	(*ret)->nr_behind = &pipeline_of(*ret)->nr_behind;
	pipeline_of(*ret)->client = pipeline_client;
	pipeline_of(*ret)->retained.limits = *limits;
	err = retained_add_producer(&pipeline_of(*ret)->retained);
	if (err)
		writer_close(take_ptr(*ret), NULL);
	return err;
}

int pipeline_open(struct batch_pool *pool, struct writer *inner, struct writer **ret)
{
	struct writer_params params = {.fd = -1, .offset = inner->offset, .path = inner->path};
	struct writer *writer;
	int err = writer_open(&pipeline_ops, &params, &writer);

	if (err) {
		writer_close(inner, NULL);
		return err;
	}
	pipeline_of(writer)->pool = pool;
	writer->stores = inner->ops;
	pipeline_of(writer)->inner = inner;
	pipeline_of(writer)->producer.pipeline = pipeline_of(writer);
	writer->nr_behind = &pipeline_of(writer)->nr_behind;
	pipeline_of(writer)->client = pipeline_client;
	*ret = writer;
	return 0;
}

/*
 * Where one stage looks at records that nothing changes: in their ring, if they are not compressed, or at level 1,
 * whose search for repeats needs no memory of them.
 */
static void prepare_looking(struct pipeline *pipeline)
{
	const struct batch_pool *pool = pipeline->pool;
	struct producer *producer = &pipeline->producer;
	bool wanted = !pool->cutter && pipeline->inner && pipeline->stages && !pipeline->stages->next &&
		      pipeline->stages->ops->look;

	extent_builder_free(take_ptr(producer->builder));
	if (wanted && pool->level == 1 && !pool->thorough)
		(void)!extent_builder_new(pool->stats, &producer->builder); /* else they are copied */
	producer->stage_looks =
		wanted && (producer->builder || (pool->no_index && pool->extent_bytes >= 4 * MOST_SEEN_BYTES));
}

void pipeline_add_stage(struct writer *writer, struct stage *stage)
{
	struct pipeline *pipeline = pipeline_of(writer);
	struct stage **last = &pipeline->stages;

	while (*last)
		last = &(*last)->next;
	stage->next = NULL;
	stage->output = pipeline;
	*last = stage;
	writer->nr_passes_before_commit += stage->ops->flush && !stage->ops->keeps_until_commit;
	prepare_looking(pipeline);
	if (!stage->ops->flush || pipeline->flushes)
		return;
	pipeline->flushes = true;
	pthread_mutex_lock(&pipeline->pool->lock);
	pipeline->next_with_stages = pipeline->pool->with_stages;
	pipeline->pool->with_stages = pipeline;
	pthread_mutex_unlock(&pipeline->pool->lock);
}

void stage_makers_add(struct stage_maker **first, struct stage_maker *maker)
{
	while (*first)
		first = &(*first)->next;
	maker->next = NULL;
	*first = maker;
}

int stage_makers_initial_state(struct stage_maker *first, struct span records)
{
	int err = 0;

	for (; first && !err; first = first->next) {
		if (first->initial_state && !first->knows_state)
			err = first->initial_state(first, records);
		first->knows_state = true;
	}
	return err;
}

void pipeline_share(struct writer *writer, const struct producers_params *params)
{
	producers_init(&pipeline_of(writer)->producers, params);
	writer->producers = &pipeline_of(writer)->producers;
}

/* What it holds is in the line; the pipeline counts it as its own from here on. */
static int producer_close(struct writer *writer)
{
	struct producer *producer = producer_of(writer);
	struct pipeline *pipeline = producer->pipeline;
	struct producer **each = &pipeline->producer.next;

	seal(producer);
	pthread_mutex_lock(&pipeline->pool->lock);
	batch_pool_wake(pipeline->pool);
	while (pipeline->arrived || pipeline->client.has_turn) /* what stages have not seen refers to us */
		pthread_cond_wait(&pipeline->pool->progress, &pipeline->pool->lock);
	while (*each != producer)
		each = &(*each)->next;
	*each = producer->next;
	pthread_mutex_unlock(&pipeline->pool->lock);
	pipeline->producer.writer.queued += writer->queued;
	return 0;
}

static const struct writer_ops producer_ops = {
	.name = "producer",
	.state_bytes = sizeof(struct producer),
	.queue = producer_queue,
	.take = producer_take,
	.store = producer_store,
	.put = producer_put,
	.fix_position = producer_fix_position,
	.commit = producer_commit,
	.complete = producer_complete,
	.close = producer_close,
};

int producer_open(struct writer *stage, struct writer **ret)
{
	struct writer_params params = {.fd = -1, .offset = stage->offset, .path = stage->path};
	struct pipeline *pipeline = pipeline_of(stage);
	struct writer *writer;
	int err = pipeline->inner ? 0 : retained_add_producer(&pipeline->retained);

	if (!err)
		err = writer_open(&producer_ops, &params, &writer);
	if (err)
		return err;
	producer_of(writer)->pipeline = pipeline;
	if (!pipeline->inner)
		producer_of(writer)->number = pipeline->retained.nr_producers - 1;
	producer_of(writer)->next = pipeline->producer.next;
	pipeline->producer.next = producer_of(writer);
	writer->producers = &pipeline->producers;
	writer->nr_behind = &pipeline->nr_behind;
	writer->nr_passes_before_commit = stage->nr_passes_before_commit;
	*ret = writer;
	return 0;
}
