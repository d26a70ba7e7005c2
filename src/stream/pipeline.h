/* SPDX-License-Identifier: MIT */
/*
 * pipeline: a writer in front of another writer, which it owns. Bytes from rings are copied into batches, which go
 * through the stages, are compressed if the recording asks for it, and are written in order. Bytes of writer_put()
 * (round marks, what stands before and behind the ring records) are never compressed, and keep their position.
 *
 * In the struct writer of a pipeline, `queued` counts bytes before compression, `stored` counts bytes in the output.
 */
#pragma once

#include "compress/extent.h"
#include "stream/retained.h"
#include "stream/writer.h"

enum { PIPELINE_WRITE_BYTES = EXTENT_BYTES_SMALL }; /* the most bytes in one call of an inner writer with blocks */

struct producers_params;
struct batch_pool;
struct pipeline;
struct stage;

/* Takes ownership of `inner`, also when it fails. 0 or -ENOMEM. */
int pipeline_open(struct batch_pool *pool, struct writer *inner, struct writer **ret);

/* Adds a stage behind those that were added before; it is borrowed. To be called before the first byte is queued. */
void pipeline_add_stage(struct writer *pipeline, struct stage *stage);
/*
 * Waits until all that was queued has been given to the stages and is written, apart from batches that the stages keep.
 * Closing a pipeline ends its stages, and stages may need records of other outputs; so with several outputs this is
 * called for each of them before the first is closed.
 */
void pipeline_run_stages(struct writer *writer);

/*
 * From now on several threads fill the pipeline: one thread queues into the pipeline itself, each other one into a
 * producer, a writer that copies into batches of its own. Batches are stored in the order in which they become full. To
 * be called before the first byte from a ring is queued. Producers are closed before the pipeline, when no thread uses
 * it any more; the pipeline then adds what they have queued to its own `queued`.
 */
void pipeline_share(struct writer *pipeline, const struct producers_params *params);
int producer_open(struct writer *pipeline, struct writer **ret); /* after pipeline_share(). 0 or -ENOMEM */

/*
 * A pipeline without an output, which keeps the newest records in memory (--flight). To store them:
 * pipeline_end_input() when no reader thread uses it any more, then pipeline_attach(), and after the bytes in front of
 * the records have been put, pipeline_write_retained(). Closed without an output it drops what it has kept.
 * 0 or -ENOMEM.
 */
int pipeline_open_retained(struct batch_pool *pool, const struct retained_limits *limits, struct writer **ret);

/*
 * From any thread: a snapshot of the kept records will be written, so from now on none of them is dropped for its age.
 */
void pipeline_request_snapshot(struct writer *writer);

struct retained_range {
	uint64_t first_ns, last_ns; /* of its records; UINT64_MAX, 0: there are none */
	uint64_t whole_ns;          /* no record since this time is missing */
};
struct retained_range pipeline_retained(struct writer *writer); /* from any thread */

/*
 * After pipeline_end_input(): of the pipeline itself, then of each producer in the order in which they were opened, how
 * many of its ring bytes came before those that are kept. Valid until the pipeline is closed.
 */
const uint64_t *pipeline_dropped(const struct writer *writer);

void pipeline_end_input(struct writer *writer);
void pipeline_attach(struct writer *writer, struct writer *inner); /* takes ownership of `inner` */
int pipeline_write_retained(struct writer *writer);                /* 0, or the error of the output, which sticks */
