/* SPDX-License-Identifier: MIT */
/*
 * unwinding: call chains in place of the registers and stacks that the kernel gives with samples, before anything of
 * them is stored. A stage (stream/stage.h) of each output.
 *
 * A sample needs the maps of its process at its time, which records of other rings describe: it waits in its batch
 * until all that is older has come; then task events and samples are taken in the order of their times, of all outputs
 * together. Owned by the recording; its stages are called by workers, and take a lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/stage.h"
#include "unwind/unwind.h"

struct buf;
struct event_desc;
struct unwinding;

/* What is to be known of an event beside its attr. */
struct unwinding_event {
	bool unwinds;
	bool carries_task_events; /* its rings do, so that what is lost there may be such records */
	unsigned max_stack;       /* frames of a chain, the kernel's among them; 0: as perf reads them */
};

struct unwinding_params {
	const struct event_desc *events; /* as their records are in the rings: callchain_is_dump() of some; borrowed */
	const struct unwinding_event *by_event; /* borrowed for the call */
	size_t nr_events;
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
struct unwinding_counts {
	uint64_t nr_stacks;              /* samples with user registers */
	uint64_t by_end[UNWIND_NR_ENDS]; /* of those, by why the chain ends where it does */
	uint64_t nr_unmapped;            /* of those without an end: no record tells of their process */
	uint64_t nr_too_soon;            /* likewise: memory was full before it was known what was mapped */
	uint64_t nr_after_loss; /* likewise: records about tasks were lost, and it is not known what was mapped */
	uint64_t nr_too_late;   /* likewise: older than what is known of their process */
	uint64_t cpu_ns;        /* that unwinding took, with the tables */
	uint64_t nr_tables, table_bytes, build_ns; /* as struct unwind_stats has them */
	uint32_t stack_bytes;                      /* the most that the kernel was to copy */
};
struct unwinding_counts unwinding_counts(struct unwinding *unwinding);
