/* SPDX-License-Identifier: MIT */
/*
 * prefetcher: a thread that finds the records of a session and brings them into order, some batches ahead of the thread
 * that decodes and uses them; further threads may decode samples. Memory: a fixed number of batches, whatever the size
 * of the file.
 *
 * From prefetcher_start() to prefetcher_close() the session belongs to that thread; others may only read its events,
 * features and info (except position and nr_late). Before a record changes these, the thread waits until no other
 * thread uses records that it has found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/thread_pool.h"
#include "read/session.h"

struct diag;
struct prefetcher;
struct record_ref;

/*
 * The session is borrowed. `nr_workers`: how many threads do the tasks of prefetcher_share(), the caller's and the
 * prefetch thread included; 1: prefetcher_share() is never called. 0, -ENOMEM, or -errno of pthread_create(3).
 */
int prefetcher_start(struct session *session, unsigned nr_workers, struct prefetcher **ret);

/* Stops the thread and joins it. NULL is fine. */
void prefetcher_close(struct prefetcher *prefetcher);

/* As session_next(): the record is valid until the next call. */
int prefetcher_next(struct prefetcher *prefetcher, const struct session_record **ret, struct diag *reterr);

enum { PREFETCHER_SPAN_MAX = 256, PREFETCHER_CHUNK_MAX = 512 };

/* Samples that follow each other. The chunks of a span follow each other, too: no other record is between them. */
struct prefetcher_chunk {
	const struct record_ref *refs;
	size_t nr; /* 1 to PREFETCHER_CHUNK_MAX */
};

/* The offset of a chunk's last record in its file: how far has been read, for a progress display. */
uint64_t prefetcher_chunk_offset(const struct prefetcher_chunk *chunk);

/*
 * Begins a span: the next samples, as far as they were found already, which any number of threads may decode. Returns
 * the number of chunks in *ret, which are valid until prefetcher_span_end(); until then only prefetcher_share() and the
 * two prefetcher_decode...() may be called. May wait, as prefetcher_next(). 0: the next record is no sample, or there
 * is none; then call prefetcher_next().
 */
size_t prefetcher_span_begin(struct prefetcher *prefetcher, const struct prefetcher_chunk **ret);

/*
 * Does all tasks of a job, as thread_pool_begin() and thread_pool_finish(): in the caller (worker 0), in the prefetch
 * thread when its output queue is full (worker 1), and in the threads of the pool.
 */
void prefetcher_share(struct prefetcher *prefetcher, thread_pool_task *task, void *ctx, unsigned nr_tasks);

/*
 * Decodes the sample at index `at` of a chunk. May be called by several threads at once, in any order; ascending is
 * fastest. 1; 0: the sample is not wanted; -EBADMSG: call prefetcher_decode_again() for it. *ret points into the
 * record, which is valid until prefetcher_span_end().
 */
int prefetcher_decode(const struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk, size_t at,
		      struct session_record *ret);

/*
 * The same, for the thread that began the span, in the order of the records: an error is stored, and returned at the
 * end by prefetcher_next(). false: it failed, or the sample is not wanted. *ret is valid until the next call of this
 * function or of prefetcher_next().
 */
bool prefetcher_decode_again(struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk, size_t at,
			     const struct session_record **ret);

/* Ends the span: the first `nr_chunks` chunks were used, and prefetcher_next() continues behind them. */
void prefetcher_span_end(struct prefetcher *prefetcher, size_t nr_chunks);
