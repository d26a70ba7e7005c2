/* SPDX-License-Identifier: MIT */
#include "stream/pipeline.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_stats.h"
#include "perfdata/record.h"
#include "stream/batch_pool.h"
#include "stream/producer.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "sysinfo/thread.h"

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

/* Others see for how long the output has taken nothing: batch_pool_shrink(). */
static void note_write(struct pipeline *pipeline, bool begins)
{
	uint64_t since_ns = begins ? clock_ns(CLOCK_MONOTONIC) : 0;

	atomic_store_explicit(&pipeline->client.writes_since_ns, since_ns, memory_order_relaxed);
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
	note_write(pipeline, true);
	int err = writer_commit(pipeline->inner, true);
	if (!err)
		err = writer_complete(pipeline->inner, WRITER_NOW);
	note_write(pipeline, false);
	pthread_mutex_lock(&pool->lock);
	note_error(pipeline, err);
	note_stored(pipeline);
	return true;
}

/* Of a thread, while it writes. */
struct writing {
	bool raised; /* to real-time priority, if it may */
	struct priority before;
	struct slow_cpu slow;
	uint64_t nr_short; /* jobs before which memory was short */
};

/*
 * Between two jobs. A worker that compresses shares its CPU with the load, and memory that runs short lasts no longer
 * for that: it writes with the priority of a thread that drains. Who has that stays on a CPU that does little for it.
 */
static void keep_up(struct writing *writing, const struct batch_pool *pool)
{
	const size_t nr_free = atomic_load(&pool->nr_free);
	const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	const char *unused;

	if (!writing->raised && pool->level && 2 * nr_free < pool->nr_jobs) {
		(void)!priority_raise(0, &writing->before, &unused);
		writing->raised = true;
	}
	writing->nr_short += 4 * nr_free < 3 * pool->nr_jobs;
	if ((pool->realtime || writing->raised) && slow_cpu_is_due(&writing->slow, now_ns) &&
	    slow_cpu_look(&writing->slow, now_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID), writing->nr_short))
		(void)!slow_cpu_leave(); /* on its CPU it is slower, not wrong */
}

/*
 * Of the pool's client: jobs are done; writes what is due. The pool's lock is held, and released while something is
 * written.
 */
static void write_done(struct pool_client *client)
{
	struct pipeline *pipeline = pipeline_of_client(client);
	struct batch_pool *pool = pipeline->pool;
	struct writing writing = {0};

	find_due(pipeline);
	if (pipeline->busy)
		return; /* who is at it comes to this job, too */
	pipeline->busy = true;
	do {
		while (pipeline->first && pipeline->first->done) {
			struct batch_job *job = pipeline->first;
			int err = pipeline->err;
			bool tried = !err && pipeline->inner;
			if (tried)
				pipeline->inner->memory_is_short = 4 * atomic_load(&pool->nr_free) < 3 * pool->nr_jobs;
			pthread_mutex_unlock(&pool->lock);
			keep_up(&writing, pool);
			note_write(pipeline, true);
			if (!err)
				err = pipeline->inner ? write_job(pipeline, job) : retain_job(pipeline, job);
			note_write(pipeline, false);
			pthread_mutex_lock(&pool->lock);
			note_written(pipeline, job, tried, err);
		}
	} while (commit_inner(pipeline));
	pipeline->busy = false;
	if (writing.raised)
		priority_restore(&writing.before);
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
	batch_pool_shrink(output->pool, job, batch->len + batch->tail_len);
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

void pipeline_schedule(struct pipeline *pipeline)
{
	batch_pool_schedule(pipeline->pool, &pipeline->client,
			    !atomic_load_explicit(&pipeline->drain_stores, memory_order_relaxed));
}

/* Until all that was handed over is written. The lock is held, and released during that. */
static bool is_idle(const struct pipeline *pipeline)
{
	return !pipeline->arrived && !pipeline->client.has_turn && !pipeline->first && !pipeline->busy;
}

void pipeline_wait_until_idle(const struct pipeline *pipeline)
{
	batch_pool_wake(pipeline->pool);
	while (!is_idle(pipeline))
		pthread_cond_wait(&pipeline->pool->progress, &pipeline->pool->lock);
}

/* When all that was handed over is written the inner writer is ours: workers leave alone what comes from here on. */
int pipeline_take_inner(struct pipeline *pipeline)
{
	struct batch_pool *pool = pipeline->pool;

	pthread_mutex_lock(&pool->lock);
	pipeline_wait_until_idle(pipeline);
	int err = pipeline->err;
	pipeline->busy = true;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* `bytes`: that were written to it. */
void pipeline_leave_inner(struct producer *producer, int err, size_t bytes)
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

	producer_seal(&pipeline->producer);
	producer_wait(&pipeline->producer, WRITER_ALL);
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
	producer_wait(&pipeline->producer, WRITER_ALL); /* another output may have asked them since then */
	int err = flush_stages(pipeline, STAGE_END);
	pthread_mutex_lock(&pool->lock);
	note_error(pipeline, err);
	pthread_mutex_unlock(&pool->lock);
	producer_wait(&pipeline->producer, WRITER_ALL);
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
	producer_prepare(&pipeline->producer);
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
	struct producer *producer = (struct producer *)writer;
	producer->pipeline = pipeline;
	if (!pipeline->inner)
		producer->number = pipeline->retained.nr_producers - 1;
	producer->next = pipeline->producer.next;
	pipeline->producer.next = producer;
	writer->producers = &pipeline->producers;
	writer->nr_behind = &pipeline->nr_behind;
	writer->nr_passes_before_commit = stage->nr_passes_before_commit;
	*ret = writer;
	return 0;
}
