/* SPDX-License-Identifier: MIT */
/*
 * stream: the pump. Rings -> writer, and nothing else: it knows no option, no mode and no engine.
 *
 * A stream belongs to one thread at a time, and so do its rings and its writer. It owns neither: the recording does.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct ring;
struct writer;

/* Written by the stream's thread; read by others only when that thread is done. */
struct stream_counters {
	uint64_t bytes;  /* ring bytes handed to the writer */
	uint64_t chunks; /* visits that found something */
	uint64_t passes;
	uint64_t rounds;    /* round marks written */
	uint64_t near_full; /* visits that found a ring nearly full */
};

/*
 * Looks at what comes out of some of the rings, on the stream's thread. Positions count the ring bytes of the stream.
 */
struct stream_tap {
	void (*see)(struct stream_tap *tap, const struct span spans[2], uint64_t position);
	void (*cut)(struct stream_tap *tap, uint64_t position); /* what comes from here on goes to another writer */
};

/* Stores what waits in the writer, on the stream's thread, between two batches: relief.h. */
struct stream_storage {
	void (*store)(struct stream_storage *storage, struct writer *writer);
};

struct stream {
	struct ring *rings;    /* borrowed array */
	size_t *which;         /* borrowed; of `rings`, in order of visit; NULL: all, as they stand */
	size_t nr_rings;       /* to visit */
	struct writer *writer; /* borrowed */
	size_t flush_bytes;    /* leave less than this in a ring for a later pass; a draining pass takes all */
	/*
	 * A round is marked behind a pass that read every ring to its head, when this many bytes have come since the
	 * last mark or the pass drains. 0: never. With other streams of the same output (writer->producers) they decide
	 * together.
	 */
	uint64_t round_bytes;
	uint64_t unmarked_bytes;
	struct stream_counters counters;
	/* writer->stored after the last pass, while there was no error: whole pieces. Any thread may read it. */
	_Atomic uint64_t stored;
	struct stream_tap *tap;         /* borrowed; NULL: none */
	size_t nr_tapped;               /* of the rings, the first: what samples need in order to be understood */
	struct stream_storage *storage; /* borrowed; NULL: workers store */
};

enum stream_pass {
	STREAM_FLOW,   /* take what is worth taking: rings with at least flush_bytes */
	STREAM_ALL,    /* take whatever is there */
	STREAM_COMMIT, /* the same, and the writer holds back nothing that came before the last such pass:
			  writer_commit() */
	STREAM_DRAIN,  /* take whatever is there, mark the round, and wait until the writer needs none of it */
};

/* The n-th that is visited. */
struct ring *stream_ring(const struct stream *stream, size_t n);

/*
 * Whole records that were read out of a ring before the first pass: as if that pass had found them there. 0 or the
 * writer's -errno.
 */
int stream_put_early(struct stream *stream, size_t ring, struct span records);

/*
 * One pass over all rings, each visited once with its head read once. Returns the bytes moved, or -errno (the
 * writer's error: nothing was released that it did not get). A FLOW pass that returns 0 found nothing worth taking.
 */
int64_t stream_pump(struct stream *stream, enum stream_pass pass);

/*
 * For the relief: takes whatever is there; marks and commits wait for the stream's thread. An error sticks to the
 * writer.
 */
void stream_relieve(struct stream *stream);

/*
 * Takes whatever is there, of the tapped rings also what came in that time, marks the round, and waits until the writer
 * needs none of it: then it can be exchanged. What the writer still has to store is its own business. 0 or -errno.
 */
int stream_drain(struct stream *stream);

/* What comes from here on goes to `next`. Returns the writer that was. Only after stream_drain(), or at the end. */
struct writer *stream_exchange(struct stream *stream, struct writer *next);
