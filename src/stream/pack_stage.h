/* SPDX-License-Identifier: MIT */
/*
 * pack_stage: a writer that compresses, in front of another writer, whose owner it is. What comes from rings is copied
 * into extents at once; what is put (marks, what stands before and after) stays plain and keeps its place.
 *
 * `queued` counts what came, `stored` what went out.
 */
#pragma once

#include "compress/extent.h"
#include "stream/pack_hold.h"
#include "stream/writer.h"

enum { PACK_PIECE_BYTES = EXTENT_BYTES_SMALL }; /* the most that the writer behind the stage is given at once */

struct lanes_params;
struct pack_pool;
struct pack_stage;
struct stage;

/* Owns `inner` from here on, also when it fails: -ENOMEM. */
int pack_stage_open(struct pack_pool *pool, struct writer *inner, struct writer **ret);

/* Behind those that were added before; borrowed. Before the first byte comes. */
void pack_stage_add(struct writer *pack_stage, struct stage *stage);
/*
 * All that was queued has come to the stages, and is written but for what they keep. Closing a writer ends its stages:
 * with several outputs this is called for each of them before the first is closed.
 */
void pack_stage_run_stages(struct writer *writer);

/*
 * Several threads fill the stage: one through itself, the others through a lane each, which copies as it does into
 * extents of its own, whose places are those in which they are full. Before the first byte comes from a ring. Lanes are
 * writers, and closed before the stage, when nobody uses it: it then counts what they have queued.
 */
void pack_stage_share(struct writer *stage, const struct lanes_params *params);
int pack_lane_open(struct writer *stage, struct writer **ret); /* after that. 0 or -ENOMEM */

/*
 * One without an output: of what comes, the last is held in memory. Later it gets its output: pack_stage_settle(), when
 * no reader uses it any more, then pack_stage_attach(), and when what stands in front has been put, pack_stage_pour().
 * Closing it without an output forgets what it held. 0 or -ENOMEM.
 */
int pack_stage_open_held(struct pack_pool *pool, const struct pack_hold_limits *limits, struct writer **ret);

/* From any thread: what is held now is wanted, and does not become too old any more. */
void pack_stage_ask(struct writer *writer);

struct pack_held {
	uint64_t first_ns, last_ns; /* of its records; UINT64_MAX, 0: there are none */
	uint64_t whole_ns;          /* since then none is missing */
	uint64_t dropped_bytes;     /* of records that came before those, out of all that ever came */
};
struct pack_held pack_stage_held(struct writer *writer); /* from any thread */

void pack_stage_settle(struct writer *writer);
void pack_stage_attach(struct writer *writer, struct writer *inner); /* owns it */
int pack_stage_pour(struct writer *writer);                          /* 0, or the error of the output, which sticks */

/* For workers: a job of the stage is done; writes what is due. The pool's lock is held, and let go meanwhile. */
void pack_stage_deliver(struct pack_stage *stage);
/* For workers: the stages of the batches that wait for them. The same. */
void pack_stage_order(struct pack_stage *stage, size_t most); /* so many, then it has another turn */
