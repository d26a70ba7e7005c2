/* SPDX-License-Identifier: MIT */
/*
 * stack_unwinder: a sample's registers and stack, replaced in its record by their call chain. What one thread needs for
 * that; several work side by side while nothing changes what they share. Private to record/unwind.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/unwind/task_state.h"
#include "record/unwind/unwound.h"

struct mapped_object;
struct ring_events;
struct unwind_cache;

enum {
	UNWINDER_MOST_FRAMES = 1024,
	/* Types that no record of the kernel has: */
	RECORD_GAP = 0,              /* what is left behind a record that became shorter */
	RECORD_UNWOUND = 0x40000009, /* a sample whose chain was made when it was copied out of its ring */
};

struct stack_unwinder {
	const struct ring_events *events;
	const struct unwinding_event *by_event; /* max_stack is set */
	struct unwind_cache *cache;             /* owned */
	const struct task_state *state;         /* as of its samples; NULL: they could not wait until that was known */
	uint64_t known_from_ns;                 /* the state is not known for older samples */
	struct known_task task;         /* of the last sample in a ring; zeroed where `state` may have changed */
	struct unwinding_counts counts; /* since they were added to those of others */

	bool never_waits; /* unwind_chain.never_waits */

	/* Of the sample that is unwound: */
	struct mapped_object *found; /* looked up last */
	bool lacks_rows;             /* a table, or a row of one, is yet to be made */
	uint64_t ips[UNWINDER_MOST_FRAMES];
};

enum unwind_outcome {
	UNWIND_DONE,
	UNWIND_BROKEN, /* cannot be read: a gap */
	UNWIND_WAITS,  /* for the table of `found`: the record is as it was */
};

/* The record becomes its chain, and a gap behind it. event: its index. */
enum unwind_outcome stack_unwinder_convert(struct stack_unwinder *unwinder, uint8_t *record, size_t event);

/*
 * The record, as it is in a ring, becomes its chain in `to`, of type RECORD_UNWOUND. Never waits. Returns its bytes; 0:
 * its chain is not known without waiting, or it needs to be counted why there is none. unwinder->state is not NULL, and
 * the event one of unwinder->by_event[].
 */
size_t stack_unwinder_convert_copy(struct stack_unwinder *unwinder, const uint8_t *record,
				   const struct unwinding_event *event, uint8_t *to);

/* Closes the gaps. Returns the bytes that are left. */
size_t record_gaps_close(uint8_t *records, size_t len);
