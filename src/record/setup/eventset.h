/* SPDX-License-Identifier: MIT */
/*
 * eventset: the open event fds of a recording and their rings: enables and disables events, sets their filters, reads
 * their counts of lost records; and the events as the file describes them. Owned by the recording, used by the main
 * thread; the rings are lent to the streams that drain them. Functions return 0 or -errno, with the cause and what to
 * try in the diag.
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
struct perf_clock;
struct perf_event_attr;

enum eventset_moment {
	EVENTSET_ENABLED,
	EVENTSET_TO_BE_DISABLED,
	EVENTSET_DISABLED,
};

struct eventset {
	const struct plan *plan;       /* borrowed */
	struct event_list *events;     /* borrowed; opening may adapt their attrs */
	int *fds;                      /* by slot; -1: the task had ended */
	bool *stands_in;               /* by slot; what is open there counts nothing: its CPU is offline */
	uint64_t *ids;                 /* by slot; 0 where there is no fd; as the file knows them */
	uint64_t *fd_ids;              /* by slot; of what is open there: others where it was opened again */
	_Atomic uint64_t *lost_before; /* by slot; what those had lost that were open there before */
	char **filters;                /* by event; that are set in its fds; NULL: none */
	bool *enabled;                 /* by event; as eventset_enable() and eventset_switch() left it */
	struct ring_renames **renames; /* by ring of the plan; NULL: none; owned */
	/* by drained ring of the plan; a ring none of whose slots could be opened stays empty */
	struct ring *rings;
	/* by ring of the plan: the fd that was mapped; -1: none, or a ring of the overwrite channel */
	int *ring_fds;
	/*
	 * true: the ring_fds of the data channel are carriers, which ring_carrier_open() opened; false: they are also
	 * in fds
	 */
	bool carried;
	size_t ring_pages;         /* of each data ring */
	size_t wakeup_bytes;       /* poll(2) wakes up after so many bytes in one ring */
	size_t largest_ring_bytes; /* of the drained rings */
	/* NULL: not wanted; called by eventset_switch() for the events of --off-cpu */
	void (*switched)(void *ctx, enum eventset_moment moment);
	void *switched_ctx;
	struct perf_clock *clock; /* owned; of the records' times, where the caller made it before; NULL: none */
	bool leaves_fds;          /* eventset_close() leaves event fds open, for fd_closer.h; set before the opening */
	size_t later_fds;         /* how many fds the caller will open later; set before the opening, too */
	size_t needed_fds;        /* how many fds the whole recording needs, with those that the program inherited */
};

/*
 * Opens all events, and maps the rings that are drained (overwrite_open() maps the others). Sets all fields but
 * clock, leaves_fds and later_fds, which the caller sets before. A CPU that goes offline at that time is no error,
 * unless the user named it: set->stands_in, until eventset_reopen(). After an error nothing stays open, except the
 * event fds when set->leaves_fds.
 */
int eventset_open(struct eventset *set, const struct plan *plan, struct event_list *events, struct ring_sizes sizes,
		  struct diag *reterr);
void eventset_close(struct eventset *set);

/*
 * Enables the events that are not enabled by an exec. To be called by the thread that opened them. 0, or -errno of the
 * first that failed.
 */
int eventset_enable(struct eventset *set);
void eventset_disable(struct eventset *set);

enum { EVENTSET_ALL = -1, EVENTSET_SIDE_BAND = -2 };

/*
 * Enables or disables the event with that index, or EVENTSET_ALL or EVENTSET_SIDE_BAND, while recording. To be called
 * by the thread that opened them. Events that carry task events are never disabled, because later samples depend on
 * those records: -EPERM when `event` is the index of such an event. 0, or -errno of the first that failed.
 */
int eventset_switch(struct eventset *set, int event, bool on);

/*
 * Opens the events of a CPU again: the kernel ended them when it went offline. Their records come into the rings of
 * before, with the ids of before. To be called by the thread that opened them; threads may drain the rings. 0; 1: all
 * but those of overwrite rings, or with values in samples (:S); or -errno: not all are open.
 */
int eventset_reopen(struct eventset *set, int cpu, struct diag *reterr);

/* The index of the event of that name; -ENOENT. */
int eventset_find(const struct eventset *set, const char *name);

/*
 * Sets the filters of --filter; those of events that leave out the recorder (next function) are only tried. 0 or
 * -errno; the diag names event, filter and the fields that it may use.
 */
int eventset_set_filters(const struct eventset *set, struct diag *reterr);

/*
 * For events that leave out the recorder: sets the filter of --filter, extended so that no thread of this process
 * matches. To be called when all threads of the recorder run, before the events are enabled.
 */
int eventset_leave_out_recorder(const struct eventset *set, struct diag *reterr);

/* Whether the kernel counts the lost records of every event. */
bool eventset_counts_lost(const struct eventset *set);

/* Records that the kernel dropped for this slot so far (PERF_FORMAT_LOST); 0 where the kernel does not count them. */
uint64_t eventset_lost(const struct eventset *set, size_t slot);

/*
 * Opens a carrier: an event that counts nothing and owns a ring, to which the output of other events is redirected
 * (PERF_EVENT_IOC_SET_OUTPUT). Carrier and events (`like` is one of them) must have the same CPU (for the ring of a
 * thread: the same thread), clock and direction: kernel/events/core.c, perf_event_set_output(). The carrier of a CPU is
 * an event of our first thread on that CPU, which needs no privilege. wakeup_bytes: the ring wakes its reader when it
 * holds so many bytes; 0: when it is half full. Returns the fd, or -errno (-ESRCH: the thread has ended).
 */
int ring_carrier_open(const struct perf_event_attr *like, const struct plan_ring *ring, uint32_t wakeup_bytes);

/* The events as the file describes them, valid after eventset_open(), which may change their attrs. */
struct described_events {
	struct event_desc *descs;      /* heap; in the order of the events, without EVENT_WAKE_UPS */
	struct event_desc *ring_descs; /* heap; all events, with the attrs of the records in the rings; owns the
					  names and ids of events that are not in descs */
	size_t nr_descs, nr_ring_descs;
	char **tracepoints; /* heap; "sys:event" of those that are one */
	size_t nr_tracepoints;
	struct feature_group *groups; /* heap; their names belong to the events */
	uint32_t nr_groups;
};

/* 0 or -ENOMEM. */
int described_events_make(const struct eventset *set, struct described_events *ret);
void described_events_fini(struct described_events *events); /* zeroed is fine */
