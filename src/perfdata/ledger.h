/* SPDX-License-Identifier: MIT */
/*
 * ledger: what a recording could not keep, and what it cost, as the payload of a private section (FEATURE_LEDGER),
 * and the times of losses as the records around them tell. The caller that fills or decodes a ledger owns it:
 * ledger_fini().
 *
 * Times are of the clock of the samples.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/attr.h"

struct buf;
struct perf_event_header;

enum ledger_cause {
	LEDGER_RING_FULL,
	LEDGER_PAUSED,    /* the ring was paused while it was read */
	LEDGER_THROTTLED, /* the kernel stopped an event that came too often; how many it left out it does not count */
	LEDGER_TRIMMED,   /* stacks were cut short by us: so many samples, none of which is lost */
	LEDGER_CPU_LIMIT, /* the ring was full because we drained it less often, to use no more CPU time than we may */
	LEDGER_FROZEN,    /* the targets were stopped: time, but no events */
	LEDGER_DISK_FULL, /* could not be written */
	LEDGER_CPU_BACK,  /* the CPU came online while we recorded, and has no events: time, but no counts */
	LEDGER_STORAGE,   /* the ring was full because the memory before the output was: storage did not keep up */
	LEDGER_DROPPED,   /* the recorder dropped samples that it had: not counted by the kernel */
	LEDGER_CAUSES,
};

/* "ring full" … ; "unknown" for a number that is none. */
const char *ledger_cause_name(uint32_t cause);
/* Was there no room in a ring? LOST records report that, too, but not why. */
bool ledger_cause_is_full(uint32_t cause);
/* false: entries of that cause stand for time or samples of which nothing is missing. */
bool ledger_cause_loses(uint32_t cause);

/* At some time from from_ns to to_ns `count` records were lost, or what the cause says happened. */
struct ledger_entry {
	uint32_t event; /* index; LEDGER_NO_EVENT: of none alone */
	uint32_t cause;
	int32_t cpu, tid; /* -1: any */
	uint64_t from_ns, to_ns;
	uint64_t count;
};
enum { LEDGER_NO_EVENT = -1 };

/* What the recorder itself used: a name that ends in its unit, such as "drain cpu ns". */
struct ledger_cost {
	char name[32];
	uint64_t value;
};

enum ledger_action_kind {
	LEDGER_RING_GREW,     /* bytes of a ring; this and the next two: in files of earlier versions */
	LEDGER_RING_STAYS,    /* the kernel gave it no more than it had, or no more was asked for: from = to */
	LEDGER_RING_SPLIT,    /* the kernel sent only some of its events to the larger one: both go on */
	LEDGER_LEVEL_CHANGED, /* levels of compression; 0: stored as it is */
	LEDGER_POLL_INTERVAL, /* nanoseconds between two visits; 0: when rings wake the recorder */
	LEDGER_FAST_POLL, /* nanoseconds after which rings are visited before they wake the recorder; 0: when they do */
	LEDGER_THREAD_CHANGED, /* numbers of threads that drained a ring: in files of earlier versions */
	LEDGER_ACTION_KINDS,
};

/* "ring grew" … ; "unknown" for a number that is none. */
const char *ledger_action_kind_name(uint32_t kind);

/* What the recorder did about it while it recorded. */
struct ledger_action {
	uint64_t ns;
	uint32_t kind;
	int32_t cpu, tid; /* -1: any */
	uint32_t reserved;
	uint64_t from, to;
};

struct ledger {
	uint64_t started_ns, ended_ns; /* of the recording; 0: not known */
	bool counted;                  /* the kernel counted what it dropped: the entries hold all of it */
	bool task_rings;               /* task events had rings of their own: what is lost there is no sample */
	struct ledger_entry *entries;  /* heap */
	size_t nr_entries, entries_room;
	struct ledger_cost *costs; /* heap */
	size_t nr_costs;
	struct ledger_action *actions; /* heap; none in what earlier versions wrote */
	size_t nr_actions, actions_room;
};

void ledger_fini(struct ledger *ledger); /* zeroed is fine */
int ledger_add(struct ledger *ledger, const struct ledger_entry *entry);
int ledger_add_action(struct ledger *ledger, const struct ledger_action *action);
int ledger_add_actions(struct ledger *ledger, const struct ledger *other); /* all of the other's; sorts by time */
int ledger_add_cost(struct ledger *ledger, const char *name, uint64_t value);
/* The same, once for a name: it may be there already. */
int ledger_set_cost(struct ledger *ledger, const char *name, uint64_t value);

void ledger_encode(const struct ledger *ledger, struct buf *out);

/* -EBADMSG: not of this kind; -ENOMEM. */
int ledger_decode(struct span payload, struct ledger *ret);

struct ledger_sum {
	uint64_t gap_ns; /* over all CPUs: a time counts once for each CPU (or task with a ring) that lost something in
			    it */
	uint64_t any_ns; /* in which at least one lost something */
	struct ledger_entry worst; /* the longest; all 0 when there is none */
};
/*
 * A gap that records tell ends with the first record after it, however long nothing came: the readings of the counters
 * in the ledger tell when the loss was over. Cuts the gaps to the readings that found something, whose cause, ring full
 * or CPU limit, becomes theirs. Sorts both.
 */
void ledger_clip(struct ledger *ledger, struct ledger_entry *gaps, size_t nr_gaps);

/*
 * All gaps there were (*ret: heap): those that records tell, clipped, and those of which the ledger alone knows (no
 * frozen time or cut stacks, by which nothing was lost). Paused time is taken from the ledger, where there is one: a
 * LOST record comes with the next event. 0 or -ENOMEM.
 */
int ledger_join(struct ledger *ledger, struct ledger_entry *reported, size_t nr_reported, struct ledger_entry **ret,
		size_t *ret_nr);

/* Sorts the entries by CPU, task and time. While targets were stopped nothing was lost. 0 or -ENOMEM. */
int ledger_sum(struct ledger_entry *entries, size_t nr, struct ledger_sum *ret);

/*
 * loss_times: when records of a ring went missing, as the records around the gap tell. Fed with the records of each
 * ring in the order in which the ring gave them; rings may alternate. One owner (loss_times_fini), one thread.
 *
 * A LOST record is written when there is room again: the gap began at some time after the last record before it.
 * A throttled event is told by two records. How many were lost is counted elsewhere (PERF_FORMAT_LOST), where that is
 * there: the counts of LOST records are those of a ring, whatever the event.
 */

struct loss_id {
	uint64_t id;
	uint32_t event;
	int32_t cpu, tid;           /* -1: any */
	uint64_t captured;          /* samples */
	uint64_t lost_samples;      /* by LOST_SAMPLES records */
	uint64_t lost_records;      /* by LOST records that carry this id: of the whole ring */
	uint64_t last_ns;           /* of the last record of the same kind of ring; see ledger.c */
	uint64_t throttled_from_ns; /* 0: it runs */
	size_t ring;                /* index of the id that keeps `last_ns` for its ring */
};

struct loss_times {
	const struct event_desc *events; /* borrowed */
	size_t nr_events;
	struct loss_id *ids; /* heap; ascending by id, and behind them one for records that tell no id */
	size_t nr_ids;
	size_t nr_places; /* CPUs, or tasks with a ring each */
	size_t last;      /* index of the last look-up */
	int id_offset, id_distance;
	int cpu_offset, cpu_distance; /* in a file without ids; -1: not there */
	uint64_t first_ns, last_ns;   /* of all samples; 0: none has a time */
	struct ledger_entry *gaps;    /* heap; count: of a LOST record, 0 for throttled time */
	size_t nr_gaps, gaps_room;
};

int loss_times_init(struct loss_times *times, const struct event_desc *events, size_t nr_events);
void loss_times_fini(struct loss_times *times); /* zeroed is fine */

/* false: the event is a dummy, which tells of tasks and has no samples. */
bool loss_times_samples(const struct loss_times *times, uint32_t event);

/* One whole record (header->size readable bytes, any alignment). What it cannot use it skips. 0 or -ENOMEM. */
int loss_times_take(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header);

/* Samples that were not taken lie between these times. 0, 0: there are none. */
void loss_times_reach(struct loss_times *times, uint64_t first_ns, uint64_t last_ns);

/*
 * At the end, once: events that are still throttled then are so until `end_ns`, and gaps that no record of their ring
 * ended are those that the ledger counts. NULL: there is no ledger. Then the counts of the gaps are those of the
 * ledger. 0 or -ENOMEM.
 */
int loss_times_end(struct loss_times *times, uint64_t end_ns, const struct ledger *ledger);
