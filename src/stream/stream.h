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
	uint64_t rounds; /* round marks written */
	uint64_t tight;  /* visits that found a ring nearly full: ring->tight is part of it */
};

/* Looks at what comes out of some of the rings, on the stream's thread. Positions count the ring bytes of the stream. */
struct stream_tap {
	void (*see)(struct stream_tap *tap, const struct span spans[2], uint64_t position);
	void (*cut)(struct stream_tap *tap, uint64_t position); /* what comes from here on goes to another writer */
};

/*
 * Where rings go from one stream to another of the same output (writer->lanes). Both are called on the thread of the stream.
 * A ring that departs in one round is visited by the other stream in the next: marks promise what they always did.
 */
struct stream_gate {
	/* A pass has begun, of whose round it is known: rings that are added now are visited in it. */
	void (*arrive)(struct stream_gate *gate);
	/*
	 * A pass has visited all rings in its round, and what it found has its place in the output; the other streams are told
	 * so when this returns. A ring that is dropped now may be added to another stream at once.
	 */
	void (*depart)(struct stream_gate *gate);
};

struct stream {
	struct ring *rings; /* borrowed array */
	size_t *which; /* borrowed; of `rings`, in order of visit; NULL: all, as they stand */
	size_t nr_rings;     /* to visit */
	struct writer *writer; /* borrowed */
	size_t flush_bytes;    /* leave less than this in a ring for a later pass; a draining pass takes all */
	/*
	 * A round is marked behind a pass that read every ring to its head, when this many bytes have come since the
	 * last mark or the pass drains. 0: never. With other streams of the same output (writer->lanes) they decide together.
	 */
	uint64_t round_bytes;
	uint64_t unmarked_bytes;
	struct stream_counters counters;
	/* writer->stored after the last pass, while there was no error: whole pieces. Any thread may read it. */
	_Atomic uint64_t stored;
	struct stream_tap *tap; /* borrowed; NULL: nobody looks */
	size_t nr_tapped;       /* of the rings, the first: what samples need in order to be understood */
	struct stream_gate *gate; /* borrowed; NULL: rings stay. With lanes only */
	struct stream_pending *pending; /* stream_init() to stream_fini(): bytes taken, not yet retired, in order */
};

/* For a gate. `which` has room; the ring is visited last. */
void stream_add_ring(struct stream *stream, size_t ring);
/* false: it stays, for the writer still needs something out of the rings. */
bool stream_drop_ring(struct stream *stream, size_t ring);

enum stream_pass {
	STREAM_FLOW,  /* take what is worth taking: rings with at least flush_bytes */
	STREAM_ALL,   /* take whatever is there */
	STREAM_DRAIN, /* the same, mark the round, and wait until the writer needs none of it */
};

/* The n-th that is visited; it may have ended: ring_oldest(). */
struct ring *stream_ring(const struct stream *stream, size_t n);

/* After the fields above are set. 0 or -ENOMEM. */
int stream_init(struct stream *stream);
void stream_fini(struct stream *stream);

/*
 * One pass over all rings, each visited once with its head read once. Returns the bytes moved, or -errno (the
 * writer's error: nothing was released that it did not get). A FLOW pass that returns 0 found nothing worth taking.
 */
int64_t stream_pump(struct stream *stream, enum stream_pass pass);

/*
 * Takes whatever is there, of the tapped rings also what came meanwhile, marks the round, and waits until the writer needs none of it: then it can be exchanged.
 * What the writer still has to store is its own business. 0 or -errno.
 */
int stream_settle(struct stream *stream);

/* What comes from here on goes to `next`. Returns the writer that was. Only after stream_settle(), or at the end. */
struct writer *stream_exchange(struct stream *stream, struct writer *next);
