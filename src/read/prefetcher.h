/* SPDX-License-Identifier: MIT */
/*
 * prefetcher: a thread that finds the records of a session and brings them into order, some batches ahead of the thread
 * that decodes and uses them; further threads may decode samples. Memory: a fixed number of batches, whatever the size
 * of the file.
 *
 * From prefetcher_start() to prefetcher_close() the session belongs to that thread; others may look at its events,
 * features and info (position and nr_late aside). Before a record changes those, the thread waits until all batches are
 * back.
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
 * The session is borrowed. `nr_workers`: threads for prefetcher_share(), with that of the caller and the prefetcher's;
 * 1: it is not called. 0, -ENOMEM, or -errno of pthread_create(3).
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
 * A span: the samples that come next, as far as they were found already, for any number of threads to decode. They are
 * in *ret[0..result), which is valid until prefetcher_span_end(); until then only prefetcher_share() and the two
 * prefetcher_decode...() may be called. May wait, as prefetcher_next(). 0: what comes next is no sample, or the end:
 * prefetcher_next() has it.
 */
size_t prefetcher_span_begin(struct prefetcher *prefetcher, const struct prefetcher_chunk **ret);

/*
 * All tasks of a job, as thread_pool_begin() and thread_pool_finish(): by the caller (worker 0), by the prefetch thread
 * when its output queue is full (worker 1), and by others.
 */
void prefetcher_share(struct prefetcher *prefetcher, thread_pool_task *task, void *ctx, unsigned nr_tasks);

/*
 * The sample at index `at` of a chunk. By any thread, several at once, in any order, though ascending is fastest. 1; 0:
 * it is left out; -EBADMSG: give it to prefetcher_decode_again(). *ret points into the record, which stays until
 * prefetcher_span_end().
 */
int prefetcher_decode(const struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk, size_t at,
		      struct session_record *ret);

/*
 * The same by the thread that began the span, in the order of the records: a failure is kept, and reported at the end
 * as prefetcher_next() does. false: failed, or left out. *ret is valid until the next call of it or of
 * prefetcher_next().
 */
bool prefetcher_decode_again(struct prefetcher *prefetcher, const struct prefetcher_chunk *chunk, size_t at,
			     const struct session_record **ret);

/* The first `nr_chunks` of the span are used: prefetcher_next() goes on behind them. */
void prefetcher_span_end(struct prefetcher *prefetcher, size_t nr_chunks);
