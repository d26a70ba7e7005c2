/* SPDX-License-Identifier: MIT */
#include "stream/pack_stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "compress/stack_cut.h"
#include "perfdata/record.h"
#include "stream/lanes.h"
#include "stream/pack_hold.h"
#include "stream/pack_pool.h"
#include "stream/stage.h"

/* What one thread fills. */
struct pack_lane {
	struct writer writer;
	struct pack_stage *stage;
	struct pack_job *filling; /* NULL: none */
	bool aged;                /* it was there at the last commit */
	struct pack_lane *next;   /* of the same output */
	uint64_t complete_ns;     /* of what stages have seen: writer.complete_ns; the orderer's */
};

struct pack_stage {
	struct pack_lane lane; /* the first, and often the only one */
	struct pack_pool *pool;
	struct writer *inner; /* owned; used by whoever set `busy` */
	struct lanes lanes;   /* when there are others */

	/* Under the pool's lock: */
	struct pack_job *first, *last; /* handed over, in order */
	struct pack_job *due;          /* the last up to which all are done; NULL: the first is not */
	atomic_bool behind;            /* there are any: read without the lock */
	bool busy;                     /* somebody uses `inner` */
	int err;                       /* of `inner`: what comes later is dropped */
	uint64_t out_bytes;            /* given to `inner` */
	uint64_t in_bytes;             /* that they stand for */
	uint64_t stored;               /* as `inner` tells */
	bool commit;                   /* `inner` holds back what is too old for that */
	struct extent_list extents;    /* written so far */
	bool extents_failed;           /* memory ran out: no index is better than half of one */
	struct pack_hold hold;         /* without an output */
	struct stage *stages;          /* in order; NULL: none */
	struct pack_turn turn;
	bool flushes;      /* some of them keep batches */
	bool drain_stores; /* who drains calls lane_store(): no worker is woken, but where a thread waits */
	bool ordering;     /* it has its turn, or waits for it: its thread calls the stages */
	struct pack_job *arrived, *last_arrived; /* that no stage has seen, in order */
	size_t nr_staged;                        /* batches that stages have */
	uint64_t freed_bytes;                    /* that came in batches which they freed */
	uint64_t ordered_bytes; /* where the next one will begin in the output, if it is not compressed */
	struct pack_stage *next_with_stages;
	uint64_t *ends; /* heap; without an index: where the extents end that `inner` has not stored, in order */
	size_t first_end, nr_ends, room_ends;
	uint64_t whole; /* the end of the last one that it has stored */
};

static struct pack_lane *lane_of(struct writer *writer)
{
	return (struct pack_lane *)writer;
}

static struct pack_stage *stage_of(struct writer *writer)
{
	return (struct pack_stage *)writer;
}

static int queue_piece(struct writer *inner, struct span span)
{
	int err;

	while ((err = writer_queue(inner, &span, 1)) == -EAGAIN) {
		err = writer_reap(inner, WRITER_ROOM);
		if (err)
			return err;
	}
	return err;
}

static int queue_inner(struct writer *inner, const void *bytes, size_t len)
{
	int err = 0;

	for (size_t at = 0, part; at < len && !err; at += part) {
		part = len - at < PACK_PIECE_BYTES ? len - at : PACK_PIECE_BYTES;
		err = queue_piece(inner, (struct span){(const char *)bytes + at, part});
	}
	return err;
}

/* Their memory is used again when we return. */
static int write_pieces(struct writer *inner, struct span packed, struct span tail)
{
	int err = queue_inner(inner, packed.ptr, packed.len);

	if (!err)
		err = queue_inner(inner, tail.ptr, tail.len);
	return err ? err : writer_reap(inner, WRITER_NOW);
}

/* In one call, where the writer takes it. */
static int write_job(struct pack_stage *stage, const struct pack_job *job)
{
	const struct span spans[2] = {{job->batch.records, job->out_len}, {job->tail, job->batch.tail_len}};
	const struct span *first = job->out_len ? spans : spans + 1;
	unsigned nr = (job->out_len != 0) + (job->batch.tail_len != 0);
	struct writer *inner = stage->inner;
	int err;

	if (job->out_len + job->batch.tail_len > PACK_PIECE_BYTES)
		return write_pieces(inner, spans[0], spans[1]);
	if (!nr)
		return 0;
	while ((err = writer_queue(inner, first, nr)) == -EAGAIN) {
		err = writer_reap(inner, WRITER_ROOM);
		if (err)
			return err;
	}
	return err ? err : writer_reap(inner, WRITER_NOW);
}

/* Where the extent ends that is written now. Without memory for that the output is known to be whole later. */
static void note_end(struct pack_stage *stage, uint64_t end)
{
	if (stage->first_end + stage->nr_ends == stage->room_ends) {
		if (stage->nr_ends)
			memmove(stage->ends, stage->ends + stage->first_end, stage->nr_ends * sizeof(*stage->ends));
		stage->first_end = 0;
	}
	if (stage->nr_ends == stage->room_ends) {
		size_t room = stage->room_ends ? 2 * stage->room_ends : 64;
		uint64_t *grown = reallocarray(stage->ends, room, sizeof(*grown));
		if (!grown)
			return;
		stage->ends = grown;
		stage->room_ends = room;
	}
	stage->ends[stage->first_end + stage->nr_ends++] = end;
}

/* Takes over the counts. Also one of which a part is written: cut_extents() has to know where that begins. */
static void note_extent(struct pack_stage *stage, struct extent_info *info, size_t len, size_t out_len)
{
	if (!len) {
		free(info->counts);
		info->counts = NULL;
		return;
	}
	info->fields.offset = stage->lane.writer.offset + stage->out_bytes;
	info->fields.packed_bytes = out_len;
	if (extent_list_add(&stage->extents, info))
		stage->extents_failed = true;
}

/* Nowhere to go yet. Called without the lock, which it takes. */
static int hold_job(struct pack_stage *stage, struct pack_job *job)
{
	struct pack_piece *piece = pack_piece_new(job);

	pthread_mutex_lock(&stage->pool->lock);
	if (piece)
		pack_hold_add(&stage->hold, piece);
	pthread_mutex_unlock(&stage->pool->lock);
	return piece ? 0 : -ENOMEM;
}

static int pass_on(struct pack_stage *stage, struct pack_job *job)
{
	return stage->inner ? write_job(stage, job) : hold_job(stage, job);
}

/* How far the output is whole: never a part of an extent, which is given to the writer in pieces. */
static uint64_t whole_bytes(struct pack_stage *stage)
{
	if (stage->pool->no_index) {
		for (; stage->nr_ends && stage->ends[stage->first_end] <= stage->inner->stored; stage->nr_ends--)
			stage->whole = stage->ends[stage->first_end++];
		return stage->whole;
	}
	uint64_t offset = stage->lane.writer.offset, end = offset + stage->inner->stored;

	for (size_t i = stage->extents.nr; i-- > 0;) {
		const struct extent_fields *fields = &stage->extents.infos[i].fields;
		if (fields->offset + fields->packed_bytes <= end)
			break;
		if (fields->offset < end)
			end = fields->offset;
	}
	return end - offset;
}

/* What is done, and nothing that is not before it. */
static void find_due(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	for (struct pack_job *job; (job = stage->due ? stage->due->next_in_line : stage->first) && job->done;
	     stage->due = job) {
		pool->nr_blocked--;
		pool->nr_unwritten++;
	}
}

/* Those of the line that are done. The lock is held, and let go meanwhile. */
static void deliver_done(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	while (stage->first && stage->first->done) {
		struct pack_job *job = stage->first;
		int err = stage->err;
		bool tried = !err && stage->inner;
		pthread_mutex_unlock(&pool->lock);
		if (!err)
			err = pass_on(stage, job);
		pthread_mutex_lock(&pool->lock);
		if (tried && !pool->no_index)
			note_extent(stage, &job->info, job->batch.len, job->out_len);
		else
			free(job->info.counts);
		if (tried && !err) {
			stage->in_bytes += job->came_len + job->batch.tail_len;
			stage->out_bytes += job->out_len + job->batch.tail_len;
			if (pool->no_index)
				note_end(stage, stage->out_bytes);
		}
		stage->err = err;
		stage->commit |= job->commit;
		if (stage->inner)
			stage->stored = whole_bytes(stage);
		pool->nr_unwritten--;
		if (stage->due == job)
			stage->due = NULL;
		stage->first = job->next_in_line;
		if (!stage->first)
			stage->last = NULL;
		atomic_store_explicit(&stage->behind, stage->first || stage->arrived, memory_order_relaxed);
		pack_pool_put(pool, job);
		pthread_cond_broadcast(&pool->news);
	}
}

/*
 * What the writer behind the stage has was old enough when its extent ended: none of it is held back once more. The
 * lock is held, and released during the call.
 */
static bool commit_inner(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	if (!stage->commit || stage->err)
		return false;
	stage->commit = false;
	pthread_mutex_unlock(&pool->lock);
	int err = writer_commit(stage->inner, true);
	if (!err)
		err = writer_reap(stage->inner, WRITER_NOW);
	pthread_mutex_lock(&pool->lock);
	stage->err = err;
	stage->stored = whole_bytes(stage);
	return true;
}

void pack_stage_deliver(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	find_due(stage);
	if (stage->busy)
		return; /* who is at it comes to this job, too */
	stage->busy = true;
	do
		deliver_done(stage);
	while (commit_inner(stage));
	stage->busy = false;
	pthread_cond_broadcast(&pool->news);
}

/* Nothing is compressed or listed: it can be written. */
static void finish_plain(struct pack_stage *stage, struct pack_job *job)
{
	job->plain = true;
	job->out_len = job->batch.len;
	job->done = true;
	stage->pool->nr_blocked++;
	pack_pool_count(stage->pool, job, -ENOTSUP, 0);
	pack_stage_deliver(stage);
}

static void append(struct pack_job **first, struct pack_job **last, struct pack_job *job)
{
	job->next_in_line = NULL;
	*(*first ? &(*last)->next_in_line : first) = job;
	*last = job;
}

/* Its place in the output is known. The lock is held, and released while something is written. */
static void line_up(struct pack_stage *stage, struct pack_job *job)
{
	append(&stage->first, &stage->last, job);
	atomic_store_explicit(&stage->behind, true, memory_order_relaxed);
	stage->ordered_bytes += job->batch.len + job->batch.tail_len;
	if (stage->pool->no_index)
		finish_plain(stage, job);
	else
		pack_pool_pack(stage->pool, job);
}

/* Its memory is free, and what came in it is accounted for. The lock is held. */
static void free_job(struct pack_stage *stage, struct pack_job *job)
{
	stage->nr_staged--;
	stage->freed_bytes += job->came_len;
	stage->commit |= job->commit;
	pack_pool_put(stage->pool, job);
	pthread_cond_broadcast(&stage->pool->news);
}

static uint64_t offset_of_next(const struct pack_stage *stage)
{
	return stage->pool->no_index ? stage->lane.writer.offset + stage->ordered_bytes : STAGE_NO_OFFSET;
}

static int enter_stage(struct pack_stage *output, struct stage *stage, struct batch *batch)
{
	batch->next = NULL;
	batch->offset = offset_of_next(output);
	return stage->ops->process(stage, batch);
}

int stage_pass(struct stage *stage, struct batch *batch)
{
	struct pack_stage *output = stage->output;
	struct pack_job *job = (struct pack_job *)batch;

	if (stage->next)
		return enter_stage(output, stage->next, batch);
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

struct batch *stage_batch_new(struct stage *stage)
{
	struct pack_stage *output = stage->output;

	pthread_mutex_lock(&output->pool->lock);
	struct pack_job *job = pack_pool_take(output->pool, output);
	output->nr_staged += job != NULL;
	pthread_mutex_unlock(&output->pool->lock);
	return job ? &job->batch : NULL;
}

void stage_batch_free(struct stage *stage, struct batch *batch)
{
	pthread_mutex_lock(&stage->output->pool->lock);
	free_job(stage->output, (struct pack_job *)batch);
	pthread_mutex_unlock(&stage->output->pool->lock);
}

void stage_count_dropped(struct stage *stage, const char *reason, uint64_t nr_samples)
{
	struct pack_pool *pool = stage->output->pool;
	size_t at = 0;

	pthread_mutex_lock(&pool->lock);
	while (at < POOL_DROP_REASONS - 1 && pool->totals.drops[at].reason &&
	       strcmp(pool->totals.drops[at].reason, reason))
		at++;
	if (!pool->totals.drops[at].reason)
		pool->totals.drops[at].reason = reason;
	pool->totals.drops[at].nr_samples += nr_samples;
	pthread_mutex_unlock(&pool->lock);
}

static int flush_stages(struct pack_stage *stage, enum stage_flush why)
{
	int first_err = 0;

	for (struct stage *each = stage->stages; each && (!first_err || why == STAGE_END); each = each->next) {
		int err = each->ops->flush ? each->ops->flush(each, why) : 0;
		first_err = first_err ? first_err : err;
	}
	return first_err;
}

/* Up to when is all known that came from the rings of all who fill the output? */
static bool has_grown_complete(struct pack_stage *stage)
{
	uint64_t complete_ns = UINT64_MAX;

	for (const struct pack_lane *lane = &stage->lane; lane; lane = lane->next)
		if (lane->writer.complete_ns != UINT64_MAX && lane->complete_ns < complete_ns)
			complete_ns = lane->complete_ns;
	bool grown = complete_ns > stage->stages->complete_ns;
	for (struct stage *each = stage->stages; each && grown; each = each->next)
		each->complete_ns = complete_ns;
	return grown;
}

static int run_stages(struct pack_stage *stage, struct pack_job *job)
{
	bool commit = job->flush;

	if (job->lane)
		job->lane->complete_ns = job->complete_ns;
	int err = enter_stage(stage, stage->stages, &job->batch);
	bool grown = stage->flushes && has_grown_complete(stage);
	if (!err && (commit || grown))
		err = flush_stages(stage, commit ? STAGE_COMMIT : STAGE_ROUND);
	return err;
}

static bool is_short(const struct pack_pool *pool)
{
	return pool->nr_free <= pool->nr_jobs / 4;
}

void pack_stage_order(struct pack_stage *stage, size_t most)
{
	struct pack_pool *pool = stage->pool;
	bool flushed = false; /* what they keep all the same is not worth asking again */

	for (size_t nr = 0; nr < most && (stage->arrived || (!flushed && stage->nr_staged && is_short(pool))); nr++) {
		struct pack_job *job = stage->arrived;
		int err = stage->err;
		if (job)
			stage->arrived = job->next_in_line;
		if (job && (err || !stage->stages)) {
			line_up(stage, job); /* after an error it is dropped there */
			continue;
		}
		stage->nr_staged += job != NULL;
		pthread_mutex_unlock(&pool->lock);
		err = job ? run_stages(stage, job) : flush_stages(stage, STAGE_MEMORY);
		pthread_mutex_lock(&pool->lock);
		stage->err = stage->err ? stage->err : err;
		flushed = !job;
	}
	stage->ordering = stage->arrived != NULL;
	if (stage->ordering)
		pack_pool_order(pool, &stage->turn, true);
	pthread_cond_broadcast(&pool->news);
}

static void schedule(struct pack_stage *stage)
{
	if (!stage->ordering)
		pack_pool_order(stage->pool, &stage->turn, !stage->drain_stores);
	stage->ordering = true;
}

/* Stages that keep batches give them back. The lock is held. */
static void ask_for_memory(struct pack_pool *pool)
{
	if (!is_short(pool))
		return;
	for (struct pack_stage *each = pool->with_stages; each; each = each->next_with_stages)
		if (each->nr_staged)
			schedule(each);
}

/* Hands the batch to the workers, for the stages or to be compressed. The lock is held. */
static void hand_over(struct pack_stage *stage, struct pack_job *job)
{
	if (!stage->stages && !stage->pool->no_index) {
		line_up(stage, job);
		return;
	}
	append(&stage->arrived, &stage->last_arrived, job);
	atomic_store_explicit(&stage->behind, true, memory_order_relaxed);
	schedule(stage);
}

static void seal(struct pack_lane *lane)
{
	struct pack_stage *stage = lane->stage;
	struct pack_pool *pool = stage->pool;
	struct pack_job *job = lane->filling;

	if (!job)
		return;
	lane->filling = NULL;
	lane->aged = false;
	job->lane = lane;
	job->complete_ns = lane->writer.complete_ns;
	job->batch.read_ns = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&pool->lock);
	hand_over(stage, job);
	pthread_mutex_unlock(&pool->lock);
}

/* Sees to it that something can be filled. -EAGAIN: not now. */
static int fill_next(struct pack_lane *lane)
{
	struct pack_stage *stage = lane->stage;
	struct pack_pool *pool = stage->pool;

	if (lane->filling)
		return 0;
	pthread_mutex_lock(&pool->lock);
	int err = stage->err;
	if (!err) {
		lane->filling = pack_pool_take(pool, stage);
		ask_for_memory(pool);
		err = lane->filling ? 0 : -EAGAIN;
	}
	lane->writer.stored = stage->stored;
	bool is_late = pack_pool_is_late(pool);
	pthread_mutex_unlock(&pool->lock);
	if (is_late)
		notifier_notify(pool->notifier);
	return err;
}

static bool is_idle(const struct pack_stage *stage)
{
	return !stage->arrived && !stage->ordering && !stage->first && !stage->busy;
}

static void note_full(struct pack_pool *pool, uint64_t from_ns)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	pool->totals.full_ns += now_ns - from_ns;
	atomic_store_explicit(&pool->full_until_ns, now_ns, memory_order_relaxed);
}

/*
 * Waits until an extent is free, or until all that was handed over is written. Returns the error of the inner writer.
 */
static int wait_for(struct pack_lane *lane, enum writer_wait wait)
{
	struct pack_stage *stage = lane->stage;
	struct pack_pool *pool = stage->pool;

	pthread_mutex_lock(&pool->lock);
	uint64_t from_ns = wait == WRITER_ROOM && !pool->free_jobs ? clock_ns(CLOCK_MONOTONIC) : 0;
	if (from_ns)
		atomic_store_explicit(&pool->full_until_ns, UINT64_MAX, memory_order_relaxed);
	if (wait != WRITER_NOW)
		pack_pool_wake(pool);
	while (wait == WRITER_ROOM ? !stage->err && !pool->free_jobs : wait == WRITER_ALL && !is_idle(stage))
		pthread_cond_wait(&pool->news, &pool->lock);
	if (from_ns)
		note_full(pool, from_ns);
	int err = stage->err;
	lane->writer.stored = stage->stored;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* When all that was handed over is written the inner writer is ours: workers leave alone what comes meanwhile. */
static int take_inner(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	pthread_mutex_lock(&pool->lock);
	pack_pool_wake(pool);
	while (!is_idle(stage))
		pthread_cond_wait(&pool->news, &pool->lock);
	int err = stage->err;
	stage->busy = true;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* `bytes`: that were written meanwhile. */
static void leave_inner(struct pack_lane *lane, int err, size_t bytes)
{
	struct pack_stage *stage = lane->stage;

	pthread_mutex_lock(&stage->pool->lock);
	stage->err = err;
	stage->in_bytes += bytes;
	stage->out_bytes += bytes;
	stage->ordered_bytes += bytes;
	if (stage->pool->no_index && bytes)
		note_end(stage, stage->out_bytes);
	stage->stored = whole_bytes(stage);
	lane->writer.stored = stage->stored;
	stage->busy = false;
	pack_stage_deliver(stage); /* what came meanwhile */
	pthread_mutex_unlock(&stage->pool->lock);
}

/*
 * How much of more bytes an extent with so much room may take: whole records, that it can be read alone; 0: not one.
 * Records do not wrap within their headers: rings are pages, records multiples of 8.
 */
static size_t whole_records(const struct span spans[2], size_t room)
{
	size_t at = 0;

	for (;;) {
		struct perf_event_header header;
		const char *where = at < spans[0].len ? (const char *)spans[0].ptr + at
						      : (const char *)spans[1].ptr + (at - spans[0].len);
		if (at + sizeof(header) > room)
			break;
		if (at < spans[0].len && spans[0].len - at < sizeof(header))
			return room;
		memcpy(&header, where, sizeof(header));
		if (header.size < sizeof(header) || header.size % 8)
			return room; /* no records */
		if (at + header.size > room)
			break;
		at += header.size;
	}
	return at;
}

static void skip_spans(struct span spans[2], size_t len)
{
	for (unsigned i = 0; i < 2; i++) {
		size_t part = spans[i].len < len ? spans[i].len : len;
		spans[i].ptr = (const char *)spans[i].ptr + part;
		spans[i].len -= part;
		len -= part;
	}
}

static void copy_in(struct pack_job *job, struct span spans[2], size_t len)
{
	for (unsigned i = 0; i < 2 && len; i++) {
		size_t part = spans[i].len < len ? spans[i].len : len;
		if (!part)
			continue;
		memcpy(job->batch.records + job->batch.len, spans[i].ptr, part);
		job->batch.len += part;
		len -= part;
		spans[i].ptr = (const char *)spans[i].ptr + part;
		spans[i].len -= part;
	}
}

/*
 * Record by record, stack dumps without what is not stack, or shorter. A record may wrap in the ring, not in the
 * extent.
 */
static void copy_in_cut(struct pack_pool *pool, struct pack_job *job, struct span spans[2], size_t len)
{
	unsigned most = atomic_load_explicit(&pool->stack_bytes, memory_order_relaxed);

	while (len) {
		struct perf_event_header header = {0};
		uint8_t *record = job->batch.records + job->batch.len;
		if (len >= sizeof(header))
			memcpy(&header, spans[0].len ? spans[0].ptr : spans[1].ptr, sizeof(header));
		/* No records: as they are. */
		size_t part = header.size < sizeof(header) || header.size > len ? len : header.size;
		copy_in(job, spans, part);
		len -= part;
		if (part == header.size)
			job->batch.len -= stack_cut(pool->cutter, record, most);
	}
}

static void fill(struct pack_lane *lane, struct span spans[2], size_t len)
{
	struct pack_pool *pool = lane->stage->pool;

	lane->filling->came_len += len;
	if (pool->cutter)
		copy_in_cut(pool, lane->filling, spans, len);
	else
		copy_in(lane->filling, spans, len);
}

static int wait_and_fill(struct pack_lane *lane)
{
	int err;

	while ((err = fill_next(lane)) == -EAGAIN) {
		err = wait_for(lane, WRITER_ROOM);
		if (err)
			return err;
	}
	return err;
}

/* Of a chunk that does not fit. Where stacks are cut each record is looked at anyway, and what is left may be a lot. */
static bool ends_extent(const struct pack_lane *lane)
{
	const struct pack_pool *pool = lane->stage->pool;

	return !pool->cutter && lane->filling->batch.len >= pool->extent_bytes / 2;
}

/* What has room in the present batch, or in the next one. */
static int64_t lane_take(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct pack_lane *lane = lane_of(writer);
	struct span left[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	const size_t total = span_total(left, 2), extent_bytes = lane->stage->pool->extent_bytes;

	for (;;) {
		int err = fill_next(lane);
		if (err)
			return err;
		size_t room = extent_bytes - lane->filling->batch.len, len = total;
		if (len > room)
			len = ends_extent(lane) ? 0 : whole_records(left, room);
		if (len || !lane->filling->batch.len) {
			len = len ? len : room; /* no records */
			fill(lane, left, len);
			writer->queued += len;
			if (len < total)
				seal(lane);
			return (int64_t)len;
		}
		seal(lane);
	}
}

static int lane_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct span left[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	bool begun = false;

	while (span_total(left, 2)) {
		int64_t len = lane_take(writer, left, 2);
		if (len < 0 && (len != -EAGAIN || !begun))
			return (int)len;
		int err = len < 0 ? wait_for(lane_of(writer), WRITER_ROOM) : 0;
		if (err)
			return err;
		begun = true;
		skip_spans(left, len < 0 ? 0 : (size_t)len);
	}
	return 0;
}

static uint64_t lane_store(struct writer *writer)
{
	struct pack_stage *stage = lane_of(writer)->stage;

	if (stage->flushes)
		return 0; /* stages that keep batches do more than look at them: that is for workers */
	pthread_mutex_lock(&stage->pool->lock);
	stage->drain_stores = true;
	uint64_t ns = pack_pool_store(stage->pool);
	pthread_mutex_unlock(&stage->pool->lock);
	return ns;
}

/* What does not fit behind an extent is written at once, behind all that came before. */
static int put_long(struct pack_lane *lane, const void *bytes, size_t len)
{
	seal(lane);
	int err = take_inner(lane->stage);
	if (!err)
		err = writer_put(lane->stage->inner, bytes, len);
	leave_inner(lane, err, err ? 0 : len);
	return err;
}

static int lane_put(struct writer *writer, const void *bytes, size_t len)
{
	struct pack_lane *lane = lane_of(writer);
	int err = 0;

	if (len > BATCH_TAIL_BYTES) {
		err = put_long(lane, bytes, len);
	} else {
		err = wait_and_fill(lane);
		if (!err) {
			struct pack_job *job = lane->filling;
			memcpy(job->tail, bytes, len);
			job->batch.tail_len = len;
			seal(lane);
		}
	}
	if (!err)
		writer->queued += len;
	return err;
}

static int lane_place(struct writer *writer)
{
	seal(lane_of(writer));
	return 0;
}

/* The writer behind the stage is told when it has all that is in the line now; at once, when nothing is. */
static void ask_for_commit(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	if (!stage->inner)
		return;
	pthread_mutex_lock(&pool->lock);
	if (stage->arrived)
		stage->last_arrived->commit = true;
	else if (stage->last)
		stage->last->commit = true;
	else
		stage->commit = true;
	pack_stage_deliver(stage);
	pthread_mutex_unlock(&pool->lock);
}

/*
 * Stages are flushed behind all that has come. An empty batch does where nothing has; if there is none, the next time.
 */
static void flush_by_clock(struct pack_lane *lane)
{
	struct pack_pool *pool = lane->stage->pool;

	if (!lane->filling) {
		pthread_mutex_lock(&pool->lock);
		lane->filling = pack_pool_take(pool, lane->stage);
		pthread_mutex_unlock(&pool->lock);
	}
	if (lane->filling)
		lane->filling->flush = true;
	seal(lane);
}

static int lane_commit(struct writer *writer, bool all)
{
	struct pack_lane *lane = lane_of(writer);

	if (lane->stage->flushes)
		flush_by_clock(lane);
	/* Only what is compressed is worth another period. */
	if (lane->filling && (all || lane->aged || lane->stage->pool->no_index))
		seal(lane);
	else
		lane->aged = lane->filling != NULL;
	ask_for_commit(lane->stage);
	return 0;
}

static int lane_reap(struct writer *writer, enum writer_wait wait)
{
	struct pack_lane *lane = lane_of(writer);

	if (wait == WRITER_ALL)
		seal(lane);
	if (wait != WRITER_ALL || !lane->stage->inner)
		return wait_for(lane, wait);
	int err = take_inner(lane->stage);
	if (!err)
		err = writer_reap(lane->stage->inner, WRITER_ALL);
	leave_inner(lane, err, 0);
	return err;
}

/* After an error: an extent that is not whole goes, and with it what would follow. */
static void cut_extents(struct pack_stage *stage)
{
	struct writer *writer = &stage->lane.writer;
	struct extent_list *extents = &stage->extents;

	writer->stored = extent_list_start(extents, 0, writer->offset + writer->stored) - writer->offset;
	writer->packed = 0;
	while (extents->nr && extents->infos[extents->nr - 1].fields.offset >= writer->offset + writer->stored)
		free(extents->infos[--extents->nr].counts);
	for (size_t i = 0; i < extents->nr; i++)
		writer->packed += extents->infos[i].came_bytes - extents->infos[i].fields.packed_bytes;
}

void pack_stage_run_stages(struct writer *writer)
{
	struct pack_stage *stage = stage_of(writer);

	seal(&stage->lane);
	wait_for(&stage->lane, WRITER_ALL);
}

/* They pass on what they have, and all of it is written. No worker calls them any more. */
static void end_stages(struct pack_stage *stage)
{
	struct pack_pool *pool = stage->pool;

	pack_stage_run_stages(&stage->lane.writer);
	if (!stage->stages)
		return;
	for (struct stage *each = stage->stages; each; each = each->next)
		each->complete_ns = UINT64_MAX;
	int err = flush_stages(stage, STAGE_END);
	pthread_mutex_lock(&pool->lock);
	stage->err = stage->err ? stage->err : err;
	struct pack_stage **each = &pool->with_stages;
	while (*each && *each != stage)
		each = &(*each)->next_with_stages;
	if (*each)
		*each = stage->next_with_stages;
	stage->next_with_stages = NULL;
	pthread_mutex_unlock(&pool->lock);
	wait_for(&stage->lane, WRITER_ALL);
	stage->stages = NULL;
}

static int stage_close(struct writer *writer)
{
	struct pack_stage *stage = stage_of(writer);

	end_stages(stage);
	pack_hold_fini(&stage->hold);
	struct writer_end end;
	int err = writer_end(stage->inner, &end);
	writer->stored = end.stored;
	err = err ? err : stage->err;
	if (err && !stage->pool->no_index)
		cut_extents(stage);
	else
		writer->packed = stage->in_bytes + stage->freed_bytes - stage->out_bytes;
	if (stage->extents_failed)
		extent_list_fini(&stage->extents);
	writer->extents = stage->extents;
	free(stage->ends);
	return err;
}

void pack_stage_ask(struct writer *writer)
{
	struct pack_stage *stage = stage_of(writer);

	pthread_mutex_lock(&stage->pool->lock);
	if (!stage->hold.asked_ns)
		stage->hold.asked_ns = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&stage->pool->lock);
}

struct pack_held pack_stage_held(struct writer *writer)
{
	struct pack_stage *stage = stage_of(writer);

	pthread_mutex_lock(&stage->pool->lock);
	struct pack_held held = {
		.first_ns = pack_hold_first_ns(&stage->hold),
		.last_ns = pack_hold_last_ns(&stage->hold),
		.dropped_bytes = stage->hold.dropped_bytes,
	};
	held.whole_ns = stage->hold.dropped_ns > held.first_ns ? stage->hold.dropped_ns : held.first_ns;
	pthread_mutex_unlock(&stage->pool->lock);
	return held;
}

void pack_stage_settle(struct writer *writer)
{
	struct pack_stage *stage = stage_of(writer);

	end_stages(stage);
	pthread_mutex_lock(&stage->pool->lock);
	pack_hold_drop(&stage->hold);
	writer->queued -= stage->hold.dropped_bytes + stage->hold.dropped_tail_bytes;
	pthread_mutex_unlock(&stage->pool->lock);
}

void pack_stage_attach(struct writer *writer, struct writer *inner)
{
	struct pack_stage *stage = stage_of(writer);

	writer->offset = inner->offset;
	writer->stores = inner->ops;
	writer->path = inner->path;
	stage->inner = inner;
}

int pack_stage_pour(struct writer *writer)
{
	struct pack_stage *stage = stage_of(writer);
	struct pack_piece *piece;
	int err = stage->err;

	while (!err && (piece = pack_hold_take(&stage->hold))) {
		err = write_pieces(stage->inner, (struct span){piece->bytes, piece->out_len},
				   (struct span){piece->bytes + piece->out_len, piece->tail_len});
		note_extent(stage, &piece->info, piece->len, piece->out_len);
		if (!err) {
			stage->in_bytes += piece->len + piece->tail_len;
			stage->out_bytes += piece->out_len + piece->tail_len;
		}
		pack_piece_free(piece);
	}
	stage->err = err;
	stage->stored = whole_bytes(stage);
	writer->stored = stage->stored;
	return err;
}

static const struct writer_ops pack_stage_ops = {
	.name = "zstd",
	.state_bytes = sizeof(struct pack_stage),
	.queue = lane_queue,
	.take = lane_take,
	.store = lane_store,
	.put = lane_put,
	.place = lane_place,
	.commit = lane_commit,
	.reap = lane_reap,
	.close = stage_close,
};

int pack_stage_open_held(struct pack_pool *pool, const struct pack_hold_limits *limits, struct writer **ret)
{
	const struct writer_params params = {.fd = -1};
	int err = writer_open(&pack_stage_ops, &params, ret);

	if (err)
		return err;
	stage_of(*ret)->pool = pool;
	stage_of(*ret)->lane.stage = stage_of(*ret);
	(*ret)->behind = &stage_of(*ret)->behind;
	stage_of(*ret)->turn.stage = stage_of(*ret);
	stage_of(*ret)->hold.limits = *limits;
	return 0;
}

int pack_stage_open(struct pack_pool *pool, struct writer *inner, struct writer **ret)
{
	struct writer_params params = {.fd = -1, .offset = inner->offset, .path = inner->path};
	struct writer *writer;
	int err = writer_open(&pack_stage_ops, &params, &writer);

	if (err) {
		writer_close(inner, NULL);
		return err;
	}
	stage_of(writer)->pool = pool;
	writer->stores = inner->ops;
	stage_of(writer)->inner = inner;
	stage_of(writer)->lane.stage = stage_of(writer);
	writer->behind = &stage_of(writer)->behind;
	stage_of(writer)->turn.stage = stage_of(writer);
	*ret = writer;
	return 0;
}

void pack_stage_add(struct writer *writer, struct stage *stage)
{
	struct pack_stage *pack = stage_of(writer);
	struct stage **last = &pack->stages;

	while (*last)
		last = &(*last)->next;
	stage->next = NULL;
	stage->output = pack;
	*last = stage;
	if (!stage->ops->flush || pack->flushes)
		return;
	pack->flushes = true;
	pthread_mutex_lock(&pack->pool->lock);
	pack->next_with_stages = pack->pool->with_stages;
	pack->pool->with_stages = pack;
	pthread_mutex_unlock(&pack->pool->lock);
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

void pack_stage_share(struct writer *writer, const struct lanes_params *params)
{
	lanes_init(&stage_of(writer)->lanes, params);
	writer->lanes = &stage_of(writer)->lanes;
}

/* What it holds is in the line; the stage counts it as its own from here on. */
static int lane_close(struct writer *writer)
{
	struct pack_lane *lane = lane_of(writer);
	struct pack_stage *stage = lane->stage;
	struct pack_lane **each = &stage->lane.next;

	seal(lane);
	pthread_mutex_lock(&stage->pool->lock);
	pack_pool_wake(stage->pool);
	while (stage->arrived || stage->ordering) /* what stages have not seen refers to us */
		pthread_cond_wait(&stage->pool->news, &stage->pool->lock);
	while (*each != lane)
		each = &(*each)->next;
	*each = lane->next;
	pthread_mutex_unlock(&stage->pool->lock);
	stage->lane.writer.queued += writer->queued;
	return 0;
}

static const struct writer_ops pack_lane_ops = {
	.name = "lane",
	.state_bytes = sizeof(struct pack_lane),
	.queue = lane_queue,
	.take = lane_take,
	.store = lane_store,
	.put = lane_put,
	.place = lane_place,
	.commit = lane_commit,
	.reap = lane_reap,
	.close = lane_close,
};

int pack_lane_open(struct writer *stage, struct writer **ret)
{
	struct writer_params params = {.fd = -1, .offset = stage->offset, .path = stage->path};
	struct writer *writer;
	int err = writer_open(&pack_lane_ops, &params, &writer);

	if (err)
		return err;
	lane_of(writer)->stage = stage_of(stage);
	lane_of(writer)->next = stage_of(stage)->lane.next;
	stage_of(stage)->lane.next = lane_of(writer);
	writer->lanes = &stage_of(stage)->lanes;
	writer->behind = &stage_of(stage)->behind;
	*ret = writer;
	return 0;
}
