/* SPDX-License-Identifier: MIT */
/*
 * pipeline: a writer that compresses, in front of another writer, whose owner it is. What comes from rings is copied
 * into extents at once; what is put (marks, what stands before and after) stays plain and keeps its place.
 *
 * `queued` counts what came, `stored` what went out.
 */
#pragma once

#include "compress/extent.h"
#include "stream/retained.h"
#include "stream/writer.h"

enum { PIPELINE_WRITE_BYTES = EXTENT_BYTES_SMALL }; /* the most that the writer behind it is given at once */

struct producers_params;
struct batch_pool;
struct pipeline;
struct stage;

/* Owns `inner` from here on, also when it fails: -ENOMEM. */
int pipeline_open(struct batch_pool *pool, struct writer *inner, struct writer **ret);

/* Behind those that were added before; borrowed. Before the first byte comes. */
void pipeline_add_stage(struct writer *pipeline, struct stage *stage);
/*
 * All that was queued has come to the stages, and is written but for what they keep. Closing a writer ends its stages:
 * with several outputs this is called for each of them before the first is closed.
 */
void pipeline_run_stages(struct writer *writer);

/*
 * From now on several threads fill the pipeline: one calls the pipeline itself, each other one a producer, which copies
 * into extents of its own; these are stored in the order in which they become full. Called before the first byte comes
 * from a ring. Producers are writers. They are closed before the pipeline, when no thread uses it any more; it then
 * counts what they have queued.
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

/* From any thread: a snapshot of what is kept now will be written, so nothing of it is dropped for its age any more. */
void pipeline_request_snapshot(struct writer *writer);

struct retained_range {
	uint64_t first_ns, last_ns; /* of its records; UINT64_MAX, 0: there are none */
	uint64_t whole_ns;          /* no record since this time is missing */
	uint64_t dropped_bytes;     /* size of the earlier records, which were dropped */
};
struct retained_range pipeline_retained(struct writer *writer); /* from any thread */

void pipeline_end_input(struct writer *writer);
void pipeline_attach(struct writer *writer, struct writer *inner); /* owns it */
int pipeline_write_retained(struct writer *writer);                /* 0, or the error of the output, which sticks */
