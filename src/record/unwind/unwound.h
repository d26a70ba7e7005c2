/* SPDX-License-Identifier: MIT */
/* unwound: of which events samples are unwound, and what became of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/unwind.h"

/* What is to be known of an event beside its attr. */
struct unwinding_event {
	bool unwinds;
	bool carries_task_events; /* its rings do, so that what is lost there may be such records */
	unsigned max_stack;       /* frames of a chain, the kernel's among them; 0: as perf reads them */
};

/* Of a recording, or of a part of it. */
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
