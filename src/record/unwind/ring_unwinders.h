/* SPDX-License-Identifier: MIT */
/*
 * ring_unwinders: unwind samples while these are copied out of their rings, which saves the copy of the stack, and the
 * way through the memory before the output. One for each thread that drains.
 *
 * What a process has mapped is known at once where no record that changes it is on its way: none of those that were
 * taken out of rings is yet to be applied to the state, and none is left in the rings. The heads of these are read
 * after that of the sample's ring, so what happened before the sample is in them. In all other cases the sample is
 * copied as it is, and waits in its batch. Private to record/unwind.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct perf_event_header;
struct record_observer;
struct ring_converter;
struct ring_events;
struct ring_unwinders;
struct task_state;
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
	const struct task_state *state;
};

/* They are closed. 0 or -ENOMEM. */
int ring_unwinders_new(const struct ring_unwinders_params *params, struct ring_unwinders **ret);
void ring_unwinders_free(struct ring_unwinders *unwinders); /* NULL is fine */
struct ring_converter *ring_unwinders_get(struct ring_unwinders *unwinders, size_t thread);
struct record_observer *ring_unwinders_observer(struct ring_unwinders *unwinders); /* of all that is drained */

/* A table was built: what was in vain before may not be now. Any thread. NULL is fine. */
void ring_unwinders_retry(struct ring_unwinders *unwinders);

/* Called by the owner of the state, one call at a time. NULL is fine: */

/* None of them uses the state when this returns, and until they are opened. */
void ring_unwinders_close(struct ring_unwinders *unwinders);
/*
 * nr_losses: how many records about losses of task events were looked at so far. The state does not know what is older
 * than known_from_ns. Also to be called where they are open.
 */
void ring_unwinders_open(struct ring_unwinders *unwinders, uint64_t nr_losses, uint64_t known_from_ns);
/* That record, which the observer has seen, is in the state, or will not be. While they are closed. */
void ring_unwinders_applied(struct ring_unwinders *unwinders, const struct perf_event_header *record);
/* Adds what was counted since the last call. */
void ring_unwinders_count(struct ring_unwinders *unwinders, struct unwinding_counts *sum);
