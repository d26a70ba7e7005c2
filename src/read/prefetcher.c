/* SPDX-License-Identifier: MIT */
#include "read/prefetcher.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "read/session_state.h"
#include "read/unpack_pool.h"

/*
 * Each side wakes the other when NR_WORTH_WAKING batches wait for it, or when it has nothing to do itself: few
 * switches, and spans long enough to be shared among threads.
 *
 * A round of the recording (90 batches of raw_syscalls on two CPUs) becomes ready all at once, and nothing does while
 * the next one is read: several workers need more than one round, or they wait. With one worker few batches stay in the
 * cache.
 */
enum { NR_BATCHES = PREFETCHER_SPAN_MAX, NR_FEW = 64, NR_WORTH_WAKING = NR_FEW / 2 };

/* Of records with stacks few are on their way: what was decompressed stays in memory as long as they are. */
enum { BATCH_RECORDS = PREFETCHER_CHUNK_MAX, BATCH_STACKS = 8, WORD_BITS = 64 };

enum {
	PREFETCHED = 6 /* record refs ahead of the one that is used, and the bytes of each */,
	PREFETCHED_BYTES = 128,
	LINE_BYTES = 64,
	SORTED_RECORDS = 64
};

/* A record that was found. This passes from core to core; the record itself is decoded where it is used. */
struct record_ref {
	struct record_view view;
	struct source *by; /* holds it; NULL: it stays by itself */
};

/* A batch of records in the order of session_next(), which their sources keep until it comes back. */
struct batch {
	size_t nr;
	uint64_t others[BATCH_RECORDS / WORD_BITS]; /* a bit for each ref: no SAMPLE */
	struct record_ref refs[BATCH_RECORDS];
};

/* A circle with room for all batches. */
struct queue {
	struct batch *batches[NR_BATCHES];
	size_t first, nr;
};

struct prefetcher {
	struct session *session;
	struct thread_pool *pool; /* its helper is the prefetch thread */
	pthread_t thread;
	pthread_mutex_t lock; /* of all that follows, but for what is in a batch: that is whose turn it is */
	pthread_cond_t filled_or_ended, came_back;
	struct queue filled, empty;
	_Atomic bool stop;    /* read without the lock, too */
	bool shared;          /* a job was shared since the prefetch thread looked for one */
	bool has_unpack_task; /* an extent was queued for decompression since the consumer looked */
	bool ended;
	int result; /* valid when ended: of session_next() */
	struct diag why;
	size_t batch_records, nr_batches; /* that are in use at all */
	struct batch *filling;            /* the thread's own */
	/* Of prefetcher_next(): */
	struct batch *using[NR_BATCHES]; /* the batches that it gives from, */
	size_t nr_using, first_using;    /* [first_using..nr_using), */
	size_t used;                     /* and how many of the first it gave */
	int failed;                      /* 0 or -EBADMSG: a record could not be decoded, */
	struct diag failure;             /* and why */
	struct session_record record;
	struct prefetcher_chunk chunks[NR_BATCHES]; /* of the run */
	struct batch batches[NR_BATCHES];
};

static void queue_put(struct queue *queue, struct batch *batch)
{
	queue->batches[(queue->first + queue->nr++) % NR_BATCHES] = batch;
}

static struct batch *queue_take(struct queue *queue)
{
	struct batch *batch = queue->batches[queue->first];

	queue->first = (queue->first + 1) % NR_BATCHES;
	queue->nr--;
	return batch;
}

static void release(struct batch *batch)
{
	for (size_t i = 0; i < batch->nr; i++)
		if (batch->refs[i].by)
			source_release(batch->refs[i].by, batch->refs[i].view.header);
	batch->nr = 0;
	memset(batch->others, 0, sizeof(batch->others));
}

/* Under the lock. So many batches are empty: true; false: we are to stop. Until then what is there is decoded. */
static bool wait_for_empty(struct prefetcher *prefetcher, size_t nr)
{
	while (prefetcher->empty.nr < nr && !prefetcher->stop) {
		pthread_cond_signal(&prefetcher->filled_or_ended);
		if (prefetcher->shared) {
			prefetcher->shared = false;
			pthread_mutex_unlock(&prefetcher->lock);
			thread_pool_help(prefetcher->pool);
			pthread_mutex_lock(&prefetcher->lock);
		} else {
			pthread_cond_wait(&prefetcher->came_back, &prefetcher->lock);
		}
	}
	return !prefetcher->stop;
}

/* An empty batch of our own. NULL: we are to stop. */
static struct batch *batch_wait(struct prefetcher *prefetcher)
{
	struct batch *batch = NULL;

	pthread_mutex_lock(&prefetcher->lock);
	if (wait_for_empty(prefetcher, 1))
		batch = queue_take(&prefetcher->empty);
	pthread_mutex_unlock(&prefetcher->lock);
	if (batch)
		release(batch);
	return batch;
}

static void hand_over(struct prefetcher *prefetcher)
{
	pthread_mutex_lock(&prefetcher->lock);
	queue_put(&prefetcher->filled, prefetcher->filling);
	if (prefetcher->filled.nr >= NR_WORTH_WAKING)
		pthread_cond_signal(&prefetcher->filled_or_ended);
	pthread_mutex_unlock(&prefetcher->lock);
	prefetcher->filling = NULL;
}

/* The session is about to change: no other thread may look at it then. */
static void wait_for_all(void *ctx)
{
	struct prefetcher *prefetcher = ctx;

	if (prefetcher->filling && prefetcher->filling->nr)
		hand_over(prefetcher);
	size_t ours = prefetcher->filling != NULL;
	pthread_mutex_lock(&prefetcher->lock);
	wait_for_empty(prefetcher, prefetcher->nr_batches - ours);
	pthread_mutex_unlock(&prefetcher->lock);
}

static void put(struct batch *batch, struct record_ref ref, bool is_sample)
{
	batch->others[batch->nr / WORD_BITS] |= (uint64_t)!is_sample << batch->nr % WORD_BITS;
	batch->refs[batch->nr++] = ref;
}

/* Those that are sorted already: how many. */
static size_t put_sorted(struct prefetcher *prefetcher, struct batch *batch)
{
	struct session *session = prefetcher->session;
	struct order_entry entries[SORTED_RECORDS];
	size_t room = prefetcher->batch_records - batch->nr;
	size_t nr = session_find_sorted(session, entries, room < SORTED_RECORDS ? room : SORTED_RECORDS);

	for (size_t i = 0; i < nr; i++) {
		const struct order_entry *entry = &entries[i];
		struct source *by = source_keeps(session->source, entry->record) ? NULL : session->source;
		put(batch, (struct record_ref){{entry->record, entry->offset, session->file_name}, by},
		    entry->is_sample);
	}
	return nr;
}

/* At least one, as session_next(); 0 as well when we are to stop. */
static int next(struct prefetcher *prefetcher, struct diag *reterr)
{
	struct record_view view;
	struct delivered_record delivered;

	if (!prefetcher->filling)
		prefetcher->filling = batch_wait(prefetcher);
	struct batch *batch = prefetcher->filling;
	if (!batch)
		return 0;
	if (!put_sorted(prefetcher, batch)) {
		int got = session_find(prefetcher->session, &view, &delivered, reterr);
		if (got <= 0)
			return got;
		batch = prefetcher->filling; /* it may have been handed over before a change */
		if (!batch)
			batch = prefetcher->filling = batch_wait(prefetcher);
		if (!batch) {
			source_release(delivered.by, delivered.record);
			return 0;
		}
		if (source_keeps(delivered.by, delivered.record))
			delivered.by = NULL;
		put(batch, (struct record_ref){view, delivered.by}, delivered.record->type == PERF_RECORD_SAMPLE);
	}
	if (batch->nr == prefetcher->batch_records)
		hand_over(prefetcher);
	return 1;
}

static void *prefetch(void *ctx)
{
	struct prefetcher *prefetcher = ctx;
	struct diag why = {0};
	int got;

	while ((got = next(prefetcher, &why)) > 0)
		;
	if (prefetcher->filling && prefetcher->filling->nr)
		hand_over(prefetcher);
	pthread_mutex_lock(&prefetcher->lock);
	prefetcher->ended = true;
	prefetcher->result = got;
	prefetcher->why = why;
	pthread_cond_signal(&prefetcher->filled_or_ended);
	pthread_mutex_unlock(&prefetcher->lock);
	return NULL;
}

static size_t batch_records(const struct session *session)
{
	for (size_t i = 0; i < session->nr_events; i++)
		if (session->events[i].attr.sample_type & PERF_SAMPLE_STACK_USER)
			return BATCH_STACKS;
	return BATCH_RECORDS;
}

/* By the thread that finds records. */
static void want_help(void *ctx)
{
	struct prefetcher *prefetcher = ctx;

	pthread_mutex_lock(&prefetcher->lock);
	prefetcher->has_unpack_task = true;
	pthread_cond_signal(&prefetcher->filled_or_ended);
	pthread_mutex_unlock(&prefetcher->lock);
}

/* Those of a directory have threads only. */
static void invite(struct prefetcher *prefetcher, struct unpack_helper helper)
{
	if (prefetcher->session->source)
		source_set_helper(prefetcher->session->source, &helper);
}

static void prefetcher_free(struct prefetcher *prefetcher)
{
	invite(prefetcher, (struct unpack_helper){0});
	prefetcher->session->before_change = NULL;
	thread_pool_free(prefetcher->pool);
	pthread_cond_destroy(&prefetcher->came_back);
	pthread_cond_destroy(&prefetcher->filled_or_ended);
	pthread_mutex_destroy(&prefetcher->lock);
	free(prefetcher);
}

int prefetcher_start(struct session *session, unsigned nr_workers, struct prefetcher **ret)
{
	struct prefetcher *prefetcher = calloc(1, sizeof(*prefetcher));

	if (!prefetcher || thread_pool_new(nr_workers, &prefetcher->pool)) {
		free(prefetcher);
		return -ENOMEM;
	}
	prefetcher->session = session;
	prefetcher->batch_records = batch_records(session);
	prefetcher->nr_batches = nr_workers > 1 && prefetcher->batch_records == BATCH_RECORDS ? NR_BATCHES : NR_FEW;
	pthread_mutex_init(&prefetcher->lock, NULL);
	pthread_cond_init(&prefetcher->filled_or_ended, NULL);
	pthread_cond_init(&prefetcher->came_back, NULL);
	for (size_t i = 0; i < prefetcher->nr_batches; i++)
		queue_put(&prefetcher->empty, &prefetcher->batches[i]);
	session->before_change = wait_for_all;
	session->before_change_ctx = prefetcher;
	invite(prefetcher, (struct unpack_helper){.wanted = want_help, .ctx = prefetcher});
	int err = thread_start(&prefetcher->thread, prefetch, prefetcher);
	if (err) {
		prefetcher_free(prefetcher);
		return -err;
	}
	*ret = prefetcher;
	return 0;
}

/* The first `nr` of those in use go back. */
static void give_back(struct prefetcher *prefetcher, size_t nr)
{
	pthread_mutex_lock(&prefetcher->lock);
	for (size_t i = 0; i < nr; i++)
		queue_put(&prefetcher->empty, prefetcher->using[prefetcher->first_using++]);
	if (prefetcher->empty.nr >= NR_WORTH_WAKING)
		pthread_cond_signal(&prefetcher->came_back);
	pthread_mutex_unlock(&prefetcher->lock);
	prefetcher->used = 0;
}

/*
 * Under the lock. What the next records need is decompressed, if no thread has begun. true: the lock was released, all
 * may have changed.
 */
static bool help(struct prefetcher *prefetcher)
{
	if (!prefetcher->has_unpack_task)
		return false;
	prefetcher->has_unpack_task = false;
	pthread_mutex_unlock(&prefetcher->lock);
	bool helped = source_help(prefetcher->session->source);
	pthread_mutex_lock(&prefetcher->lock);
	prefetcher->has_unpack_task |= helped; /* there may be more */
	return true;
}

/*
 * All batches that are filled, at least one, when none is in use: 1. Else what session_next() ended with, at every
 * later call.
 */
static int take_batches(struct prefetcher *prefetcher, struct diag *reterr)
{
	int result = 1;

	prefetcher->first_using = prefetcher->nr_using = 0;
	pthread_mutex_lock(&prefetcher->lock);
	while (!prefetcher->filled.nr && !prefetcher->ended) {
		pthread_cond_signal(&prefetcher->came_back);
		if (!help(prefetcher))
			pthread_cond_wait(&prefetcher->filled_or_ended, &prefetcher->lock);
	}
	while (prefetcher->filled.nr)
		prefetcher->using[prefetcher->nr_using++] = queue_take(&prefetcher->filled);
	if (!prefetcher->nr_using) {
		result = prefetcher->result;
		if (result < 0 && reterr)
			*reterr = prefetcher->why;
	}
	pthread_mutex_unlock(&prefetcher->lock);
	return result;
}

/* The first batch in use has records that were not given: 1; else as session_next(). */
static int have_batch(struct prefetcher *prefetcher, struct diag *reterr)
{
	if (prefetcher->first_using < prefetcher->nr_using &&
		    prefetcher->used == prefetcher->using[prefetcher->first_using] -> nr)
		give_back(prefetcher, 1);
	return prefetcher->first_using < prefetcher->nr_using ? 1 : take_batches(prefetcher, reterr);
}

void prefetcher_close(struct prefetcher *prefetcher)
{
	if (!prefetcher)
		return;
	give_back(prefetcher, prefetcher->nr_using - prefetcher->first_using);
	pthread_mutex_lock(&prefetcher->lock);
	prefetcher->stop = true;
	pthread_cond_signal(&prefetcher->came_back);
	pthread_mutex_unlock(&prefetcher->lock);
	pthread_join(prefetcher->thread, NULL);
	for (size_t i = 0; i < prefetcher->nr_batches; i++)
		release(&prefetcher->batches[i]);
	prefetcher_free(prefetcher);
}

/* Records lie in the order of the rings, not in that in which they are used: without this each is waited for. */
static void fetch(const struct record_ref *ref)
{
	const char *bytes = (const char *)ref->view.header;

	for (size_t i = 0; i < PREFETCHED_BYTES; i += LINE_BYTES)
		__builtin_prefetch(bytes + i);
}

/* The next ref: 1; else as session_next(). */
static int next_ref(struct prefetcher *prefetcher, const struct record_ref **ret, struct diag *reterr)
{
	int got = have_batch(prefetcher, reterr);

	if (got <= 0)
		return got;
	const struct batch *batch = prefetcher->using[prefetcher->first_using];
	if (prefetcher->used + PREFETCHED < batch->nr)
		fetch(&batch->refs[prefetcher->used + PREFETCHED]);
	*ret = &batch->refs[prefetcher->used++];
	return 1;
}

static int decode(const struct prefetcher *prefetcher, const struct record_ref *ref, struct session_record *ret,
		  struct diag *reterr)
{
	return session_decode(prefetcher->session, &ref->view, ret, reterr);
}

/* 1, or 0: there is nothing to give, and if that is a failure it is kept. */
static int decode_or_fail(struct prefetcher *prefetcher, const struct record_ref *ref)
{
	struct diag why; /* not cleared: this runs for each record */
	int decoded = decode(prefetcher, ref, &prefetcher->record, &why);

	if (decoded < 0 && !prefetcher->failed) {
		prefetcher->failed = decoded;
		prefetcher->failure = why;
		session_name_file(prefetcher->session, ref->view.file, &prefetcher->failure);
	}
	return decoded > 0;
}

int prefetcher_next(struct prefetcher *prefetcher, const struct session_record **ret, struct diag *reterr)
{
	const struct record_ref *ref;
	int got;

	*ret = &prefetcher->record;
	while ((got = next_ref(prefetcher, &ref, reterr)) > 0)
		if (decode_or_fail(prefetcher, ref))
			return 1;
	if (!got && prefetcher->failed) {
		got = prefetcher->failed;
		if (reterr)
			*reterr = prefetcher->failure;
	}
	return got;
}

/* The first from `at` on that is no sample; batch->nr: none. */
static size_t next_other(const struct batch *batch, size_t at)
{
	size_t word = at / WORD_BITS;
	uint64_t bits = batch->others[word] & ~0ull << at % WORD_BITS;

	while (!bits) {
		if (++word >= BATCH_RECORDS / WORD_BITS)
			return batch->nr;
		bits = batch->others[word];
	}
	return word * WORD_BITS + (size_t)__builtin_ctzll(bits);
}

uint64_t prefetcher_chunk_offset(const struct prefetcher_chunk *chunk)
{
	return chunk->refs[chunk->nr - 1].view.offset;
}

size_t prefetcher_span_begin(struct prefetcher *prefetcher, const struct prefetcher_chunk **ret)
{
	size_t nr = 0;

	if (have_batch(prefetcher, NULL) <= 0)
		return 0;
	for (size_t i = prefetcher->first_using, at = prefetcher->used; i < prefetcher->nr_using; i++, at = 0) {
		const struct batch *batch = prefetcher->using[i];
		size_t end = next_other(batch, at);
		if (end > at)
			prefetcher->chunks[nr++] = (struct prefetcher_chunk){batch->refs + at, end - at};
		if (end < batch->nr)
			break;
	}
	*ret = prefetcher->chunks;
	return nr;
}

void prefetcher_share(struct prefetcher *prefetcher, thread_pool_task *task, void *ctx, unsigned nr_tasks)
{
	thread_pool_begin(prefetcher->pool, task, ctx, nr_tasks);
	pthread_mutex_lock(&prefetcher->lock);
	prefetcher->shared = true;
	pthread_cond_signal(&prefetcher->came_back);
	pthread_mutex_unlock(&prefetcher->lock);
	thread_pool_finish(prefetcher->pool);
}

int prefetcher_decode(const struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk, size_t at,
		      struct session_record *ret)
{
	struct diag why; /* not cleared: this runs for each record */

	if (at + PREFETCHED < chunk->nr)
		fetch(&chunk->refs[at + PREFETCHED]);
	return decode(prefetcher, &chunk->refs[at], ret, &why);
}

bool prefetcher_decode_again(struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk, size_t at,
			     const struct session_record **ret)
{
	*ret = &prefetcher->record;
	return decode_or_fail(prefetcher, &chunk->refs[at]);
}

void prefetcher_span_end(struct prefetcher *prefetcher, size_t nr_chunks)
{
	if (!nr_chunks)
		return;
	const struct prefetcher_chunk *last = &prefetcher->chunks[nr_chunks - 1];
	give_back(prefetcher, nr_chunks - 1);
	prefetcher->used = (size_t)(last->refs + last->nr - prefetcher->using[prefetcher->first_using] -> refs);
}
