/* SPDX-License-Identifier: MIT */
#include "visit_writer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "latency.h"
#include "stream/writer.h"
#include "synthetic_ring.h"

struct visit_writer {
	struct writer writer;
	struct writer *inner;
	const struct synthetic_rings *rings;
	struct latency *waits;
};

static int mirror(struct visit_writer *visit, int err)
{
	visit->writer.queued = visit->inner->queued;
	visit->writer.stored = visit->inner->stored;
	return err;
}

static void note_visit(struct visit_writer *visit, const struct span spans[], unsigned nr_spans)
{
	struct synthetic_ring *ring = synthetic_rings_find(visit->rings, spans[0].ptr);
	size_t bytes = spans[0].len + (nr_spans > 1 ? spans[1].len : 0);
	uint64_t marked_ns = ring ? atomic_exchange_explicit(&ring->marked_ns, 0, memory_order_relaxed) : 0;

	if (!marked_ns || bytes <= ring->bytes / 2)
		return;
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	latency_add(visit->waits, now_ns > marked_ns ? now_ns - marked_ns : 0);
}

static int visit_queue(struct writer *writer, const struct span spans[], unsigned nr_spans)
{
	struct visit_writer *visit = (struct visit_writer *)writer;

	note_visit(visit, spans, nr_spans);
	return mirror(visit, writer_queue(visit->inner, spans, nr_spans));
}

static int visit_complete(struct writer *writer, enum writer_wait wait)
{
	struct visit_writer *visit = (struct visit_writer *)writer;

	return mirror(visit, writer_complete(visit->inner, wait));
}

static int visit_close(struct writer *writer)
{
	return writer_close(((struct visit_writer *)writer)->inner, &writer->stored);
}

static const struct writer_ops visit_ops = {
	.name = "visit",
	.state_bytes = sizeof(struct visit_writer),
	.queue = visit_queue,
	.complete = visit_complete,
	.close = visit_close,
};

int visit_writer_open(struct writer *inner, const struct synthetic_rings *rings, struct latency *waits,
		      struct writer **ret)
{
	struct visit_writer *visit = calloc(1, sizeof(*visit));

	if (!visit)
		return -ENOMEM;
	*visit = (struct visit_writer){
		.writer = {.ops = &visit_ops, .offset = inner->offset, .path = inner->path},
		.inner = inner,
		.rings = rings,
		.waits = waits,
	};
	*ret = &visit->writer;
	return 0;
}
