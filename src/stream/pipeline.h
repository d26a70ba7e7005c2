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

enum { PIPELINE_WRITE_BYTES = EXTENT_BYTES_SMALL }; /* the most that the writer behind the stage is given at once */

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
 * Several threads fill the stage: one through itself, the others through a producer each, which copies as it does into
 * extents of its own, whose places are those in which they are full. Before the first byte comes from a ring. Producers
 * are writers, and closed before the pipeline, when no thread uses it: it then counts what they have queued.
 */
void pipeline_share(struct writer *stage, const struct producers_params *params);
int producer_open(struct writer *stage, struct writer **ret); /* after that. 0 or -ENOMEM */

/*
 * One without an output: of what comes, the last is held in memory. Later it gets its output: pipeline_end_input(),
 * when no reader uses it any more, then pipeline_attach(), and when what stands in front has been put,
 * pipeline_write_retained(). Closing it without an output forgets what it held. 0 or -ENOMEM.
 */
int pipeline_open_retained(struct batch_pool *pool, const struct retained_limits *limits, struct writer **ret);

/* From any thread: what is held now is wanted, and does not become too old any more. */
void pipeline_request_snapshot(struct writer *writer);

struct retained_range {
	uint64_t first_ns, last_ns; /* of its records; UINT64_MAX, 0: there are none */
	uint64_t whole_ns;          /* since then none is missing */
	uint64_t dropped_bytes;     /* of records that came before those, out of all that ever came */
};
struct retained_range pipeline_retained(struct writer *writer); /* from any thread */

void pipeline_end_input(struct writer *writer);
void pipeline_attach(struct writer *writer, struct writer *inner); /* owns it */
int pipeline_write_retained(struct writer *writer);                /* 0, or the error of the output, which sticks */
