/* SPDX-License-Identifier: MIT */
/* hit_build_ids: the records that tell the build-ids of the objects that were hit. Private to hits. */
#pragma once

struct buf;
struct hit_world;

/* Reads the ids (and keeps them in the objects), appends a record each. Objects without one are left out. */
int hit_build_ids_put(struct hit_world *world, struct buf *out);
