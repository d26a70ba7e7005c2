/* SPDX-License-Identifier: MIT */
/*
 * unwinding: replaces the user registers and stack copy of each sample by its call chain, before the sample is stored.
 * A stage (stream/stage.h) of each output.
 *
 * To unwind a sample the maps of its process at its time must be known, and the records about them may come from other
 * rings. So the sample waits in its batch until all older records have come. Then the task events of all outputs are
 * applied in the order of their times. The samples between two task events are independent, and several threads unwind
 * them, each thread those of one batch. Most samples need not wait: ring_unwinders.h. Owned by the recording; its
 * stages are called by workers, and take a lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/unwind/unwound.h"
#include "stream/stage.h"

struct batch_pool;
struct buf;
struct event_desc;
struct object_watch;
struct ring_converter;
struct unwinding;

struct unwinding_params {
	/* with the attrs of the records in the rings; callchain_is_dump() is true for some of them; borrowed */
	const struct event_desc *events;
	const struct unwinding_event *by_event; /* borrowed for the call */
	size_t nr_events;
	struct object_watch *watch; /* borrowed; of files whose processes have ended. NULL: none */
	bool realtime;              /* helper threads run with real-time priority where that is allowed */
};

/* 0 or -ENOMEM; -EINVAL: task events have no time. */
int unwinding_new(const struct unwinding_params *params, struct unwinding **ret);
void unwinding_free(struct unwinding *unwinding); /* after its stages. NULL is fine */

/*
 * Before they are drained; the pool's observer is set. From then on unwinding_converter() is what the streams of each
 * thread take, from 0 on: it unwinds samples while they are copied, wherever what their process has mapped is known by
 * then. NULL: never. 0 or -ENOMEM.
 */
int unwinding_open_rings(struct unwinding *unwinding, const struct unwinding_rings *rings, struct batch_pool *pool);
struct ring_converter *unwinding_converter(struct unwinding *unwinding, size_t thread);

struct stage_maker *unwinding_maker(struct unwinding *unwinding); /* valid as long as it */

/*
 * For the records of a snapshot of overwrite rings, before they are written into a file: unwinds the samples among
 * these whole records in place. To be called after the stages have got all records that came before the snapshot.
 * Samples that cannot be read are left out, and counted in `pool`. Any thread. 0, or -ENOMEM: then `records` is empty.
 * `unwinding` may be NULL.
 */
int unwinding_snapshot(struct unwinding *unwinding, struct batch_pool *pool, struct buf *records);

/* The counts so far; all 0 when `unwinding` is NULL. From any thread. */
struct unwinding_counts unwinding_counts(struct unwinding *unwinding);
