/* SPDX-License-Identifier: MIT */
/*
 * eventset: the open event fds of a recording and their rings. Owned by the recording, used by the main thread; the
 * rings are lent to the stream that drains them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/plan.h"
#include "record/ring_sizes.h"
#include "ring/ring.h"

struct diag;
struct event_list;

struct eventset {
	const struct plan *plan;   /* borrowed */
	struct event_list *events; /* borrowed; opening may adapt their attrs */
	int *fds;                  /* by slot; -1: the task was gone */
	uint64_t *ids;             /* by slot; 0 where there is no fd */
	struct ring *rings;        /* by plan ring that is drained; always empty where no slot could be opened */
	int *ring_fds;             /* by plan ring: the fd that was mapped; -1: none, and in the flight channel */
	bool carried;              /* those of the data channel are carriers of ours (ring_carrier.h); else they are of fds */
	size_t ring_pages;         /* what each data ring has */
	size_t wakeup_bytes;       /* so many that came into one wake up who polls it */
	size_t largest_ring_bytes; /* of those that are drained */
};

/* Opens everything, and maps what is drained (flight_open() does the rest). -errno with cause and remedy in the diag; nothing stays open then. */
int eventset_open(struct eventset *set, const struct plan *plan, struct event_list *events,
		  struct eventset_sizes sizes, struct diag *reterr);
void eventset_close(struct eventset *set);

/* The ring that records of a plan ring come from, or came from last. */
size_t eventset_ring_bytes(const struct eventset *set, size_t ring);

/* All events that wait to be enabled by us (not by exec). By the thread that opened them. -errno of the first. */
int eventset_enable(struct eventset *set);
void eventset_disable(struct eventset *set);

/* Does the kernel count what it drops, of every event? */
bool eventset_counts_lost(const struct eventset *set);

/* Records that the kernel dropped for this slot so far (PERF_FORMAT_LOST); 0 where the kernel does not tell. */
uint64_t eventset_lost(const struct eventset *set, size_t slot);
