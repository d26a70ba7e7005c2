/* SPDX-License-Identifier: MIT */
/*
 * early_drain: reads the side rings into memory from when their events are enabled until the readers run. Files and
 * /proc are read in that time, and a loaded machine fills such a ring in a few milliseconds. A thread does it; the
 * rings are its own until early_drain_stop().
 */
#pragma once

#include <stddef.h>

struct buf;
struct eventset;

struct early_drain;

/*
 * realtime: as in priority_raise(), but that it is not allowed is no error. *ret is NULL where there are no side rings.
 * 0 or -errno.
 */
int early_drain_start(struct eventset *set, int realtime, struct early_drain **ret);

/* No ring is read any more when it returns. Idempotent; NULL is fine. */
void early_drain_stop(struct early_drain *drain);

/*
 * What was read from the ring and was not given yet: whole records, the caller's. Empty for NULL and for rings of data.
 */
struct buf early_drain_take(struct early_drain *drain, size_t ring);

void early_drain_free(struct early_drain *drain); /* stops it; NULL is fine */
