/* SPDX-License-Identifier: MIT */
/*
 * pack_stage: a writer that compresses, in front of another writer, whose owner it is. What comes from rings is copied
 * into extents and retired at once; what is put (marks, what stands before and after) stays plain and keeps its place.
 *
 * `queued` and `retired` count what came, `stored` what went out.
 */
#pragma once

#include "stream/writer.h"

struct lanes_params;
struct pack_pool;
struct pack_stage;

/* Owns `inner` from here on, also when it fails: -ENOMEM. */
int pack_stage_open(struct pack_pool *pool, struct writer *inner, struct writer **ret);

/*
 * Several threads fill the stage: one through itself, the others through a lane each, which copies as it does into
 * extents of its own, whose places are those in which they are full. Before the first byte comes from a ring. Lanes are
 * writers, and closed before the stage, when nobody uses it: it then counts what they have queued.
 */
void pack_stage_share(struct writer *stage, const struct lanes_params *params);
int pack_lane_open(struct writer *stage, struct writer **ret); /* after that. 0 or -ENOMEM */

/* For workers: a job of the stage is done; writes what is due. The pool's lock is held, and let go meanwhile. */
void pack_stage_deliver(struct pack_stage *stage);
