/* SPDX-License-Identifier: MIT */
/*
 * unwinding: call chains in place of the registers and stacks that the kernel gives with samples, before anything of
 * them is stored. A stage (stream/stage.h) of each output.
 *
 * A sample needs the maps of its process at its time, which records of other rings describe: it waits in its batch
 * until all that is older has come. Then task events are taken in the order of their times, of all outputs together;
 * the samples between two of them depend on nothing else, and several threads unwind them, each those of a batch. Owned
 * by the recording; its stages are called by workers, and take a lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/unwind/unwound.h"
#include "stream/stage.h"

struct buf;
struct event_desc;
struct unwinding;

struct unwinding_params {
	const struct event_desc *events; /* as their records are in the rings: callchain_is_dump() of some; borrowed */
	const struct unwinding_event *by_event; /* borrowed for the call */
	size_t nr_events;
	bool realtime; /* threads that help have the priority of those that drain, where that is allowed */
};

/* 0 or -ENOMEM; -EINVAL: task events have no time. */
int unwinding_new(const struct unwinding_params *params, struct unwinding **ret);
void unwinding_free(struct unwinding *unwinding); /* after its stages. NULL is fine */

struct stage_maker *unwinding_maker(struct unwinding *unwinding); /* valid as long as it */

/*
 * Records of rings that the kernel overwrites, whole ones, when they are taken for a file: after the stages have seen
 * all that was recorded before. Changes them in place. Any thread. 0 or -ENOMEM: then there are none left. NULL is
 * fine.
 */
int unwinding_snapshot(struct unwinding *unwinding, struct buf *records);

/* So far, from any thread; all 0 for NULL. */
struct unwinding_counts unwinding_counts(struct unwinding *unwinding);
