/* SPDX-License-Identifier: MIT */
#include "stream/producer.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "compress/extent.h"
#include "compress/extent_stats.h"
#include "compress/stack_cut.h"
#include "perfdata/record.h"
#include "stream/batch_pool.h"
#include "stream/ring.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "sysinfo/thread.h"

enum {
	PIECE_BYTES = 16 << 10,                           /* half of a first-level cache */
	MOST_SEEN_BYTES = PIECE_BYTES + RECORD_MAX_BYTES, /* by a stage at once, of records that begin in a piece */
};

static struct producer *producer_of(struct writer *writer)
{
	return (struct producer *)writer;
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
void producer_seal(struct producer *producer)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_job *job = producer->filling;

	if (!job)
		return;
	if (producer->builds)
		end_built(producer);
	else
		batch_pool_shrink(pipeline->pool, job, job->batch.len);
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
	pipeline_schedule(pipeline);
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

static void wait_begins(struct batch_pool *pool)
{
	if (!pool->nr_waiting++)
		pool->full_from_ns = clock_ns(CLOCK_MONOTONIC);
	atomic_store_explicit(&pool->full_until_ns, UINT64_MAX, memory_order_relaxed);
}

/* Of several that wait at a time the last one counts: a time is counted once, and is not over before. */
static void wait_ends(struct batch_pool *pool)
{
	if (--pool->nr_waiting)
		return;
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	pool->totals.full_ns += now_ns - pool->full_from_ns;
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

	if (batch_pool_has_free(pool))
		return;
	wait_begins(pool);
	request_memory(pool);
	batch_pool_wake(pool);
	while (!pipeline->err && !batch_pool_has_free(pool))
		wait_for_signal(pool);
	if (pipeline->err)
		pthread_cond_signal(&pool->room);
	wait_ends(pool);
}

/* Returns the error of the inner writer. */
int producer_wait(struct producer *producer, enum writer_wait wait)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_pool *pool = pipeline->pool;

	if (wait != WRITER_NOW) {
		pthread_mutex_lock(&pool->lock);
		if (wait == WRITER_ROOM)
			wait_for_room(pipeline);
		else
			pipeline_wait_until_idle(pipeline);
		pthread_mutex_unlock(&pool->lock);
	}
	producer->writer.stored = pipeline->stored;
	return pipeline->err;
}

/*
 * Bytes of the first whole records of a ring that fit into `room`; 0: the first one does not, or is no record. They do
 * not wrap within their headers: rings are pages, records multiples of 8.
 */
static size_t whole_records(const struct span spans[2], size_t room)
{
	size_t at = 0, before = 0; /* before: bytes in front of the span */

	for (unsigned i = 0; i < 2; i++) {
		const char *bytes = spans[i].ptr;
		const size_t end = before + spans[i].len;
		while (at + sizeof(struct perf_event_header) <= end) {
			struct perf_event_header header;
			memcpy(&header, bytes + (at - before), sizeof(header));
			if (header.size < sizeof(header) || header.size % 8 || header.size > room - at)
				return at;
			at += header.size;
		}
		if (at < end)
			break;
		before = end;
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
		if (header.type != PERF_RECORD_SAMPLE && pool->observer && cuts && is_task_event(header.type))
			pool->observer->see(pool->observer, to);
		if (bytes < from->len) {
			from->ptr = (const char *)from->ptr + bytes;
			from->len -= bytes;
		} else {
			skip_spans(spans, bytes);
		}
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

/* Of the spans what a stage may look at next, so that it has room in the batch. 0: nothing has. */
static unsigned cut_to_room(const struct producer *producer, struct span spans[2])
{
	const size_t room = producer->pipeline->pool->extent_bytes - producer->filling->batch.len;

	if (room < MOST_SEEN_BYTES && room < span_total(spans, 2))
		spans_cut(spans, whole_records(spans, room));
	return !!spans[0].len + !!spans[1].len;
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

	while (left[0].len) {
		struct span piece[2] = {left[0], left[1]};
		const unsigned nr = cut_to_room(producer, piece);
		const struct stage_look how = {.offset = offset_of_filled(producer), .most = PIECE_BYTES};
		if (!nr)
			break;
		const size_t seen = stage->ops->look(stage, piece, nr, &how);
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

/* What was copied into the present batch so far, by the stage. false: it cannot look any more. */
static bool see_copied(struct producer *producer)
{
	struct stage *stage = producer->pipeline->stages;
	const struct batch_job *job = producer->filling;
	const struct span records = {job->batch.records, job->batch.len};
	const struct stage_look how = {.offset = offset_of_filled(producer) - records.len, .most = records.len};

	if (records.len)
		producer->stage_looks = stage->ops->look(stage, &records, 1, &how);
	return producer->stage_looks;
}

/*
 * Whether the stage looks at what is copied into the present batch: at all of it or nothing. It can do so when it has
 * seen all others. false: it does so no more, and the batch is handed over.
 */
static bool choose_look(struct producer *producer)
{
	struct pipeline *pipeline = producer->pipeline;
	struct batch_job *job = producer->filling;
	bool looks = may_look(producer) && !producer->builder && waits_for_device(pipeline);

	if (!job->came_len)
		job->seen = false;
	if (job->seen)
		return looks;
	if (looks && !atomic_load_explicit(&pipeline->nr_unseen, memory_order_acquire))
		job->seen = see_copied(producer);
	return true;
}

static int wait_and_fill(struct producer *producer)
{
	int err;

	while ((err = fill_next(producer)) == -EAGAIN)
		producer_wait(producer, WRITER_ROOM); /* its error is returned by the next call */
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

	return producer->builder && may_look(producer) && producer->writer.has_time_to_compress &&
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
	producer_seal(producer);
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
	err = add_and_look(producer, spans);
	if (!err)
		return 0;
	if (begun)
		producer_seal(producer);
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
		producer_seal(producer);
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
		producer_seal(producer);
	return len;
}

/* What has room in the present batch, or in the next one. */
static int64_t copy(struct producer *producer, struct span left[2])
{
	if (producer->builds)
		producer_seal(producer);
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
			producer_seal(producer);
		else
			producer->filling->seen = producer->stage_looks = false; /* there is room: it cannot look */
	}
}

int64_t producer_take(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct producer *producer = producer_of(writer);
	struct span left[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	int64_t bytes = may_build(producer, span_total(left, 2)) ? build(producer, left) : 0;

	return bytes ? bytes : copy(producer, left);
}

int producer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct span left[2] = {spans[0], nr_spans > 1 ? spans[1] : (struct span){0}};
	bool begun = false;

	while (span_total(left, 2)) {
		int64_t len = producer_take(writer, left, 2);
		if (len < 0 && (len != -EAGAIN || !begun))
			return (int)len;
		int err = len < 0 ? producer_wait(producer_of(writer), WRITER_ROOM) : 0;
		if (err)
			return err;
		begun = true;
		skip_spans(left, len < 0 ? 0 : (size_t)len);
	}
	return 0;
}

uint64_t producer_store(struct writer *writer)
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
	producer_seal(producer);
	int err = pipeline_take_inner(producer->pipeline);
	if (!err)
		err = writer_put(producer->pipeline->inner, bytes, len);
	pipeline_leave_inner(producer, err, err ? 0 : len);
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
	producer_seal(producer);
	return wait_and_fill(producer);
}

int producer_put(struct writer *writer, const void *bytes, size_t len)
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
			producer_seal(producer);
		}
	}
	if (!err)
		writer->queued += len;
	return err;
}

int producer_fix_position(struct writer *writer)
{
	producer_seal(producer_of(writer));
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
	producer_seal(producer);
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
		pipeline_schedule(pipeline);
}

int producer_commit(struct writer *writer, bool all)
{
	struct producer *producer = producer_of(writer);

	if (producer->pipeline->flushes)
		flush_by_clock(producer);
	/* Only what is compressed is worth another period. */
	bool seals = producer->filling && (all || producer->aged || producer->pipeline->pool->no_index);
	if (seals)
		producer_seal(producer);
	else
		producer->aged = producer->filling != NULL;
	request_commit(producer, seals);
	return 0;
}

int producer_complete(struct writer *writer, enum writer_wait wait)
{
	struct producer *producer = producer_of(writer);

	if (wait == WRITER_ALL)
		producer_seal(producer);
	if (wait != WRITER_ALL || !producer->pipeline->inner)
		return producer_wait(producer, wait);
	int err = pipeline_take_inner(producer->pipeline);
	if (!err)
		err = writer_complete(producer->pipeline->inner, WRITER_ALL);
	pipeline_leave_inner(producer, err, 0);
	return err;
}

/*
 * Where one stage looks at records that nothing changes: in their ring, if they are not compressed, or at level 1,
 * whose search for repeats needs no memory of them.
 */
void producer_prepare(struct producer *producer)
{
	const struct pipeline *pipeline = producer->pipeline;
	const struct batch_pool *pool = pipeline->pool;
	bool wanted = !pool->cutter && pipeline->inner && pipeline->stages && !pipeline->stages->next &&
		      pipeline->stages->ops->look;

	extent_builder_free(take_ptr(producer->builder));
	if (wanted && pool->level == 1 && !pool->thorough)
		(void)!extent_builder_new(pool->stats, &producer->builder); /* else they are copied */
	producer->stage_looks = wanted && (producer->builder || pool->no_index);
}

/* What it holds is in the line; the pipeline counts it as its own from here on. */
static int producer_close(struct writer *writer)
{
	struct producer *producer = producer_of(writer);
	struct pipeline *pipeline = producer->pipeline;
	struct producer **each = &pipeline->producer.next;

	producer_seal(producer);
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

const struct writer_ops producer_ops = {
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
