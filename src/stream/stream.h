/* SPDX-License-Identifier: MIT */
/*
 * stream: moves bytes from rings to a writer: it pumps. It does not depend on options, or on the kind of writer.
 *
 * A stream, its rings and its writer are used by one thread at a time. The recording owns the rings and the writer.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/object_id.h"

struct ring;
struct writer;

/* Written by the stream's thread; read by others only when that thread is done. */
struct stream_counters {
	uint64_t bytes;  /* ring bytes handed to the writer */
	uint64_t chunks; /* visits that found something */
	uint64_t passes;
	uint64_t rounds;    /* round marks written */
	uint64_t near_full; /* visits that found a ring nearly full */
	uint64_t late;      /* visits that found more in a ring than wakes its reader */
};

/* Observes records of some rings, on the stream's thread. `position`: ring bytes that the stream had moved before. */
struct stream_tap {
	void (*see)(struct stream_tap *tap, const struct span spans[2], uint64_t position);
	void (*drain)(struct stream_tap *tap); /* the other rings are emptied after this, for the next writer */
	void (*cut)(struct stream_tap *tap, uint64_t position); /* from this position on, bytes go to another writer */
};

/* Called on the stream's thread between two batches, to store what waits in the writer: relief.h. */
struct stream_storage {
	void (*store)(struct stream_storage *storage, struct writer *writer);
};

/*
 * Makes samples smaller while they are copied out of a ring, which saves most of the copy. Each thread that drains has
 * one, as no other thread uses it at the same time. None of these waits for anything.
 */
struct ring_converter {
	/*
	 * After the head of a ring was read: whether its samples may be converted now, until end(). It may depend on
	 * what is in other rings, of which the heads are read later than this one.
	 */
	bool (*begin)(struct ring_converter *converter);
	/*
	 * Copies the sample to `to`, where it has room, and 8-aligned. Returns the bytes of the copy; 0: nothing was
	 * copied, the sample is to be copied as it is.
	 */
	size_t (*convert)(struct ring_converter *converter, const uint8_t *record, uint8_t *to);
	void (*end)(struct ring_converter *converter); /* after begin() was true */
	bool takes_no_longer;                          /* than to copy as it is: also for who comes late */
};

/* Is told of records about tasks, and losses, by each thread that drains, before their room is the kernel's again. */
struct record_observer {
	void (*see)(struct record_observer *observer, const uint8_t *record);
};

struct stream {
	struct ring *rings;    /* borrowed array */
	size_t *which;         /* borrowed; indices of `rings` in the order of visits; NULL: all rings in their order */
	size_t nr_rings;       /* to visit */
	struct writer *writer; /* borrowed */
	/* a STREAM_FLOW pass leaves a ring alone that holds less than this; the other passes take all */
	size_t flush_bytes;
	/*
	 * A FINISHED_ROUND mark is written after a pass that read every ring to its head, if this many bytes have come
	 * since the last mark, without those that the writer leaves out, or if it was a STREAM_DRAIN pass. 0: never.
	 * Streams that share an output decide together: writer->producers.
	 */
	uint64_t round_bytes;
	uint64_t unmarked_bytes;
	struct stream_counters counters;
	/*
	 * writer->stored after the last pass, not updated after an error, so it ends where a queued chunk ends. Any
	 * thread may read it.
	 */
	_Atomic uint64_t stored;
	/* so many of the first rings have the records that samples depend on, and no samples */
	size_t nr_side_rings;
	struct stream_tap *tap;           /* borrowed; it observes these; NULL: none */
	struct stream_storage *storage;   /* borrowed; NULL: workers store */
	struct ring_converter *converter; /* borrowed; NULL: none */
	bool compresses_later; /* its thread has so many rings that it has no time to compress what is in them */
	/* visits to rings: to come that only copy; that did since the last time that one was late; others since then */
	unsigned visits_to_copy, visits_copied, visits_converted;
	/*
	 * Borrowed; NULL: not wanted. Not 0: visits found rings so full that the kernel may have dropped records. What
	 * the first of them found the stages have as soon as their complete_ns is not less than this.
	 */
	_Atomic uint64_t *full_ns;
	_Alignas(8) uint8_t map_copy[MAP_RECORD_BYTES]; /* for object_id_unmark() */
};

enum stream_pass {
	STREAM_FLOW, /* take from rings that hold at least flush_bytes */
	STREAM_ALL,  /* take whatever is there */
	/* the same, then writer_fix_position(): stages get it, and learn that all before this pass has come */
	STREAM_FIX,
	/* STREAM_ALL, then writer_commit(): the writer holds back no bytes that came before the previous such pass */
	STREAM_COMMIT,
	/* take whatever is there, mark the round, and wait until the writer has stored all of it (WRITER_ALL) */
	STREAM_DRAIN,
};

/* The ring that is visited as number n, from 0 on. */
struct ring *stream_ring(const struct stream *stream, size_t n);

/*
 * Before the first pass: queues whole records that were read out of a ring earlier, as if that pass had found them in
 * the ring. 0 or the writer's -errno.
 */
int stream_put_early(struct stream *stream, size_t ring, struct span records);

/*
 * One pass over all rings; the head of each ring is read once. Returns the number of bytes moved, or the writer's
 * -errno; then no bytes were released that the writer did not take. A STREAM_FLOW pass that returns 0 found no ring
 * with enough bytes.
 */
int64_t stream_pump(struct stream *stream, enum stream_pass pass);

/*
 * Such a pass of each of the streams that a thread has; STREAM_COMMIT: behind as many STREAM_FIX passes as stages wait
 * for other records, so that these pass on what the first one found. 0, or -errno and the stream that failed.
 */
int streams_pump(struct stream *const streams[], size_t nr, enum stream_pass pass, struct stream **ret_failed);

/*
 * Called by the relief thread (relief.h): takes whatever is there; marks and commits are left to the stream's thread.
 * An error is kept in writer->err.
 */
void stream_relieve(struct stream *stream);

/*
 * Prepares stream_exchange(): takes whatever is in the rings, then again what came into the observed rings in that
 * time, marks the round, and waits until the writer needs no further call of this stream. The writer may still have
 * bytes to store. 0 or -errno.
 */
int stream_drain(struct stream *stream);

/* From now on bytes go to `next`. Returns the former writer. Only after stream_drain(), or at the end. */
struct writer *stream_exchange(struct stream *stream, struct writer *next);
