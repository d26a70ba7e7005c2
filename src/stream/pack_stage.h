/* SPDX-License-Identifier: MIT */
/*
 * pack_stage: a writer that compresses, in front of another writer, whose owner it is. What comes from rings is copied
 * into extents and retired at once; what is put (marks, what stands before and after) stays plain and keeps its place.
 *
 * `queued` and `retired` count what came, `stored` what went out.
 */
#pragma once

#include "stream/writer.h"

struct pack_pool;
struct pack_stage;

/* Owns `inner` from here on, also when it fails: -ENOMEM. */
int pack_stage_open(struct pack_pool *pool, struct writer *inner, struct writer **ret);

/* For workers: a job of the stage is done; writes what is due. The pool's lock is held, and let go meanwhile. */
void pack_stage_deliver(struct pack_stage *stage);
