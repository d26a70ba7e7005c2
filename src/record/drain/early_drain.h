/* SPDX-License-Identifier: MIT */
/*
 * early_drain: a thread that reads the side rings into memory from the time when their events are enabled until the
 * reader threads run. Files and /proc are read in between, and on a loaded machine such a ring is full in a few
 * milliseconds. The rings belong to this thread until early_drain_stop().
 */
#pragma once

#include <stddef.h>

struct buf;
struct eventset;
struct plan;

struct early_drain;

/*
 * Makes the thread and waits until it has its priority, which may take long on a loaded machine: to be called before
 * the events are opened. realtime: as in priority_raise(), but it is no error if that is not allowed. *ret is NULL when
 * the plan has no side rings. 0 or -errno.
 */
int early_drain_new(const struct plan *plan, int realtime, struct early_drain **ret);

/* The rings are there: from now on it drains them. NULL is fine. 0 or -errno. */
int early_drain_start(struct early_drain *drain, struct eventset *set);

/* Ends the thread: when this returns it no longer reads rings. Idempotent; NULL is fine. */
void early_drain_stop(struct early_drain *drain);

/*
 * Returns the records that were read from the ring since the last call: whole records; the caller calls buf_fini().
 * Empty when `drain` is NULL, and for data rings.
 */
struct buf early_drain_take(struct early_drain *drain, size_t ring);

void early_drain_free(struct early_drain *drain); /* stops it; NULL is fine */
