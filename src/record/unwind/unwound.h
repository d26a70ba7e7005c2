/* SPDX-License-Identifier: MIT */
/* unwound: which events are unwound, and how many of their stacks could be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/sample.h"
#include "unwind/unwind.h"

struct perf_event_attr;
struct ring;
struct ring_events;

/* What unwinding needs to know of an event, in addition to its attr. */
struct unwinding_event {
	bool unwinds;
	bool carries_task_events; /* its rings also carry task events, so a lost record may be one */
	unsigned max_stack;       /* frames of a chain, the kernel's among them; 0: as perf reads them */
	/* Set by unwinding_new(): */
	struct dump_shape shape;            /* of its samples */
	const struct perf_event_attr *attr; /* borrowed */
};

/* Whether what a LOST record tells of may have been records about tasks. Private to record/unwind. */
bool unwinding_lacks_task_events(const struct ring_events *events, const struct unwinding_event *by_event,
				 const uint8_t *lost);

/* The rings that are drained, and who drains them. */
struct unwinding_rings {
	/* all that may have records about tasks; borrowed as long as the unwinding, also what it points to */
	const struct ring *const *rings;
	size_t nr;
	size_t nr_threads; /* that drain */
};

/* Of a recording, or of a part of it. */
struct unwinding_counts {
	uint64_t nr_stacks;              /* samples with user registers */
	uint64_t by_end[UNWIND_NR_ENDS]; /* of those, by why the chain ends where it does */
	uint64_t nr_continued;           /* of those: by frame pointers, where the copy ends */
	uint64_t nr_in_rings;            /* of those: unwound while they were copied out of their rings */
	uint64_t nr_unmapped;            /* of those that are in no by_end[]: no record describes their process */
	/* likewise: memory was full, or unwinding had failed, before all records about their maps had come */
	uint64_t nr_too_soon;
	uint64_t nr_after_loss; /* likewise: task events were lost, so their maps are not known */
	uint64_t nr_too_late;   /* likewise: they are older than the known maps of their process */
	uint64_t cpu_ns;        /* CPU time of building tables, and of unwinding but in rings: that is draining */
	uint64_t nr_tables, table_bytes, nr_given_up, build_ns; /* as struct unwind_stats has them */
	/* the size of stack copies that was asked for; the largest of all events */
	uint32_t stack_bytes;
	unsigned most_frames; /* likewise: of a chain */
};

/* Adds the numbers of stacks, and the CPU time, and sets them to 0. Private to record/unwind. */
void unwinding_counts_add(struct unwinding_counts *sum, struct unwinding_counts *counts);
