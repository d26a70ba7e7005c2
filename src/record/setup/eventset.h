/* SPDX-License-Identifier: MIT */
/*
 * eventset: the open event fds of a recording and their rings; what is switched, filtered and counted through them; and
 * the events as the file describes them. Owned by the recording, used by the main thread; the rings are lent to the
 * streams that drain them. Functions return 0 or -errno, with the cause and what to try in the diag.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/attr.h"
#include "perfdata/feature.h"
#include "record/setup/plan.h"
#include "stream/ring.h"

struct diag;
struct event_list;
struct perf_event_attr;

struct eventset {
	const struct plan *plan;   /* borrowed */
	struct event_list *events; /* borrowed; opening may adapt their attrs */
	int *fds;                  /* by slot; -1: the task was gone */
	uint64_t *ids;             /* by slot; 0 where there is no fd */
	struct ring *rings;        /* by plan ring that is drained; always empty where no slot could be opened */
	int *ring_fds;             /* by plan ring: the fd that was mapped; -1: none, and in the overwrite channel */
	bool carried;        /* ring_fds of the data channel are carriers (ring_carrier_open()); else they are of fds */
	size_t ring_pages;   /* what each data ring has */
	size_t wakeup_bytes; /* poll(2) wakes up after so many bytes in one ring */
	size_t largest_ring_bytes; /* of those that are drained */
	void (*switched)(void *ctx,
			 bool on); /* NULL: not wanted; by eventset_switch() of the events for --off-cpu: after
						 they were enabled, or before they are disabled */
	void *switched_ctx;
	bool leaves_fds;   /* eventset_close() leaves event fds open, for fd_closer.h; set before the opening */
	size_t later_fds;  /* that the caller opens beside what each recording does; set before the opening, too */
	size_t needed_fds; /* so many descriptors all of the recording takes, with those that the program was given */
};

/*
 * Opens everything, and maps what is drained (overwrite_open() does the rest). After an error nothing stays open, but
 * as set->leaves_fds says; all fields but that and later_fds are set here.
 */
int eventset_open(struct eventset *set, const struct plan *plan, struct event_list *events, struct ring_sizes sizes,
		  struct diag *reterr);
void eventset_close(struct eventset *set);

/* All events that wait to be enabled by us (not by exec). By the thread that opened them. -errno of the first. */
int eventset_enable(struct eventset *set);
void eventset_disable(struct eventset *set);

enum { EVENTSET_ALL = -1, EVENTSET_SIDE_BAND = -2 };

/*
 * Enables or disables the event of that index, or these, while they are recorded; by the thread that opened them.
 * Side-band events (maps, names, tasks) are never disabled, as later samples need them: -EPERM when one is named.
 * -errno of the first that failed.
 */
int eventset_switch(struct eventset *set, int event, bool on);

/* The index of the event of that name; -ENOENT. */
int eventset_find(const struct eventset *set, const char *name);

/*
 * Sets the filters of --filter, but of events that leave out the recorder. The diag names event, filter and known
 * fields.
 */
int eventset_set_filters(const struct eventset *set, struct diag *reterr);

/*
 * Of events that leave out the recorder: sets the same filter, and none of the threads that this process has now. When
 * all of its threads run, before the events are enabled.
 */
int eventset_leave_out_recorder(const struct eventset *set, struct diag *reterr);

/* Whether the kernel counts the lost records of every event. */
bool eventset_counts_lost(const struct eventset *set);

/* Records that the kernel dropped for this slot so far (PERF_FORMAT_LOST); 0 where the kernel does not count them. */
uint64_t eventset_lost(const struct eventset *set, size_t slot);

/*
 * A carrier: an event that counts nothing and owns a ring, to which the output of other events is sent (SET_OUTPUT).
 * Carrier and events (`like`: one of them) must have the same CPU (for the ring of a thread: the same thread), clock
 * and direction: kernel/events/core.c, perf_event_set_output(). The carrier of a CPU watches our first thread there,
 * which needs no privilege. wakeup_bytes: so many in the ring wake up its reader; 0: half of it. The fd, or -errno
 * (-ESRCH: the thread is gone).
 */
int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes);

/* The events as the file describes them, once opening has adapted their attrs. */
struct described_events {
	struct event_desc *descs;      /* heap; in the order of the events, without EVENT_WAKE_UPS */
	struct event_desc *ring_descs; /* heap; all events, with the attrs of the records in the rings; owns names and
					  ids of that which descs has not */
	size_t nr_descs, nr_ring_descs;
	char **tracepoints; /* heap; "sys:event" of those that are one */
	size_t nr_tracepoints;
	struct feature_group *groups; /* heap; their names belong to the events */
	uint32_t nr_groups;
};

/* 0 or -ENOMEM. */
int described_events_make(const struct eventset *set, struct described_events *ret);
void described_events_fini(struct described_events *events); /* zeroed is fine */
