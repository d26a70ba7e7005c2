/* SPDX-License-Identifier: MIT */
/*
 * ring_unwinders: unwind samples while these are copied out of their rings, which saves the copy of the stack, and the
 * way through the memory before the output. One for each thread that drains.
 *
 * What a process has mapped is known at once where no record that changes it is on its way: none of those that were
 * taken out of rings is yet to be applied to the state of what was drained, and none is left in the rings. The heads of
 * these are read after that of the sample's ring, so what happened before the sample is in them. In all other cases the
 * sample is copied as it is, and waits in its batch. Private to record/unwind.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct drained_state;
struct record_observer;
struct ring_converter;
struct ring_events;
struct ring_unwinders;
struct row_makers;
struct unwind_tables;
struct unwinding_counts;
struct unwinding_event;
struct unwinding_rings;

struct ring_unwinders_params {
	/* Borrowed: */
	const struct unwinding_rings *rings; /* for the call; what it points to: as long as the unwinders */
	const struct ring_events *events;
	const struct unwinding_event *by_event;
	struct unwind_tables *tables;
	struct drained_state *state;
	struct row_makers *makers;
};

/* 0 or -ENOMEM. */
int ring_unwinders_new(const struct ring_unwinders_params *params, struct ring_unwinders **ret);
void ring_unwinders_free(struct ring_unwinders *unwinders); /* NULL is fine */
struct ring_converter *ring_unwinders_get(struct ring_unwinders *unwinders, size_t thread);
struct record_observer *ring_unwinders_observer(struct ring_unwinders *unwinders); /* of all that is drained */

/*
 * nr: how many records about losses of task events the owner of the state knows of. Until it knows of all that were
 * drained nothing is unwound. NULL is fine.
 */
void ring_unwinders_note_losses(struct ring_unwinders *unwinders, uint64_t nr);
/* Adds what was counted since the last call; threads that drain may go on. NULL is fine. */
void ring_unwinders_count(struct ring_unwinders *unwinders, struct unwinding_counts *sum);
