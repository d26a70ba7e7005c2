/* SPDX-License-Identifier: MIT */
/*
 * ledger: what a recording lost and what the recorder itself used, as the payload of a private section
 * (FEATURE_LEDGER); and when records were lost, derived from the records around the gap. The caller that fills or
 * decodes a ledger owns it: ledger_fini().
 *
 * All times are in ns, on the clock of the samples.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/span.h"
#include "perfdata/attr.h"

struct buf;
struct perf_event_header;

enum ledger_cause {
	LEDGER_RING_FULL,
	LEDGER_PAUSED,    /* the ring was paused while it was read */
	LEDGER_THROTTLED, /* the kernel stopped an event that came too often, and does not count the samples it left out
			   */
	LEDGER_TRIMMED,   /* samples whose stack dump we cut short; none of them is lost */
	LEDGER_CPU_LIMIT, /* the ring was full because we drained it less often to respect --max-cpu */
	LEDGER_FROZEN,    /* we had stopped the targets (SIGSTOP): a time in which nothing was lost */
	LEDGER_DISK_FULL, /* could not be written */
	/* the CPU came back online while we recorded, and its events are gone: a time, without a count */
	LEDGER_CPU_BACK,
	LEDGER_STORAGE,  /* the ring was full because the memory before the output was: storage did not keep up */
	LEDGER_DROPPED,  /* a stage dropped samples that it had received: not counted by the kernel */
	LEDGER_DISABLED, /* the events of --off-cpu were disabled: a time in which nothing was lost */
	/* overwrite rings did not hold all records of --off-cpu of that time any more: none counts as lost */
	LEDGER_OVERWRITTEN,
	LEDGER_CAUSES,
};

/* "ring full" …; "unknown" for a number that no cause has. Static text. */
const char *ledger_cause_name(uint32_t cause);
/* Whether the cause is one of those of a full ring. LOST records report full rings, too, but not their cause. */
bool ledger_cause_is_full(uint32_t cause);
/* false: entries of that cause stand for a time or for samples, but no record is missing. */
bool ledger_cause_loses(uint32_t cause);

/*
 * Between from_ns and to_ns `count` records were lost; or, for a cause that loses none, what the cause names happened.
 */
struct ledger_entry {
	uint32_t event; /* index of the event; LEDGER_NO_EVENT: not of a single one */
	uint32_t cause;
	int32_t cpu, tid; /* -1: any */
	uint64_t from_ns, to_ns;
	uint64_t count;
};
enum { LEDGER_NO_EVENT = -1 };

/* The cost that tells how many bytes of records could not be written, because of an error that ended the recording. */
#define LEDGER_UNWRITTEN "unwritten bytes"
/* And how many bytes of the file recover has left out, because they were damaged. */
#define LEDGER_DAMAGED "damaged bytes"

/* What the recorder itself used: a name that ends in its unit, such as "drain cpu ns". */
struct ledger_cost {
	char name[32];
	uint64_t value;
};

enum ledger_action_kind {
	LEDGER_RING_GREW,     /* from, to: bytes of a ring. This and the next two: only in files of earlier versions */
	LEDGER_RING_STAYS,    /* the kernel gave the ring no more memory, or none was asked for: from = to */
	LEDGER_RING_SPLIT,    /* the kernel redirected only some of its events to the larger ring: both are in use */
	LEDGER_LEVEL_CHANGED, /* from, to: compression levels; 0: not compressed */
	LEDGER_POLL_INTERVAL, /* nanoseconds between two visits; 0: when rings wake the recorder */
	LEDGER_FAST_POLL, /* nanoseconds after which rings are visited before they wake the recorder; 0: when they do */
	LEDGER_THREAD_CHANGED, /* numbers of threads that drained a ring: in files of earlier versions */
	LEDGER_ACTION_KINDS,
};

/* "ring grew" …; "unknown" for a number that no kind has. Static text. */
const char *ledger_action_kind_name(uint32_t kind);

/* What the recorder changed while it recorded, to lose less or to use less CPU time. */
struct ledger_action {
	uint64_t ns;
	uint32_t kind;
	int32_t cpu, tid; /* -1: any */
	uint32_t reserved;
	uint64_t from, to;
};

struct ledger {
	uint64_t started_ns, ended_ns; /* of the recording; 0: not known */
	/* the kernel counted what it dropped (PERF_FORMAT_LOST), so the entries are complete */
	bool counted;
	bool task_rings;              /* task events had rings of their own, where a lost record is no sample */
	struct ledger_entry *entries; /* heap */
	size_t nr_entries, entries_room;
	struct ledger_cost *costs; /* heap */
	size_t nr_costs;
	struct ledger_action *actions; /* heap; none in files of earlier versions */
	size_t nr_actions, actions_room;
};

void ledger_fini(struct ledger *ledger); /* zeroed is fine */
/* The functions that add something return 0 or -ENOMEM. */
int ledger_add(struct ledger *ledger, const struct ledger_entry *entry);
int ledger_add_action(struct ledger *ledger, const struct ledger_action *action);
int ledger_add_actions(struct ledger *ledger,
		       const struct ledger *other); /* adds all actions of `other`; sorts by time */
int ledger_add_cost(struct ledger *ledger, const char *name, uint64_t value);
/* Sets the cost of that name; adds it if it is not there yet. 0 or -ENOMEM. */
int ledger_set_cost(struct ledger *ledger, const char *name, uint64_t value);

void ledger_encode(const struct ledger *ledger, struct buf *out);

/* -EBADMSG: not of this kind; -ENOMEM. */
int ledger_decode(struct span payload, struct ledger *ret);

struct ledger_sum {
	/* summed over all CPUs (or tasks with a ring): a time in which two of them lost records counts twice */
	uint64_t gap_ns;
	uint64_t any_ns;           /* the time in which at least one of them lost records */
	struct ledger_entry worst; /* the longest; all 0 when there is none */
};
/*
 * A gap derived from records (loss_times) lasts until the next record, even when the loss was over long before.
 * Shortens each gap to the intervals in which the counters of the ledger grew, and gives it their cause (ring full or
 * CPU limit). Sorts the ledger's entries and the gaps. 0 or -ENOMEM.
 */
int ledger_clip(struct ledger *ledger, struct ledger_entry *gaps, size_t nr_gaps);

/*
 * Returns all gaps (*ret: heap): those of loss_times, shortened by ledger_clip(), and those that only the ledger has,
 * without causes by which no record is lost (ledger_cause_loses()). The times of paused rings come from the ledger, if
 * it has them, as the LOST record is written only with the next event. 0 or -ENOMEM.
 */
int ledger_join(struct ledger *ledger, struct ledger_entry *reported, size_t nr_reported, struct ledger_entry **ret,
		size_t *ret_nr);

/* Adds up the gaps. Sorts the entries by CPU, task and time; does not count LEDGER_FROZEN. 0 or -ENOMEM. */
int ledger_sum(struct ledger_entry *entries, size_t nr, struct ledger_sum *ret);

/*
 * loss_times: when records of a ring were lost, derived from the records around the gap. The caller passes the records
 * of each ring in the order of that ring; records of different rings may be mixed. One owner (loss_times_fini), one
 * thread.
 *
 * The kernel writes a LOST record when the ring has room again, so the gap began after the last record before it. A
 * THROTTLE record and an UNTHROTTLE record enclose the time in which an event was throttled. The count in a LOST record
 * is that of the ring, for all its events; the count of one event comes from PERF_FORMAT_LOST, if the kernel has it.
 */

struct loss_id {
	uint64_t id;
	uint32_t event;
	int time_offset, time_distance; /* of its records: sample_time_offset(), sample_time_distance() */
	int wait_offset;                /* of the period in samples of times off the CPU; -1: it has other samples */
	int32_t cpu, tid;               /* -1: any */
	uint64_t captured;              /* samples */
	uint64_t lost_samples;          /* by LOST_SAMPLES records */
	uint64_t lost_records;          /* by LOST records that carry this id: of the whole ring */
	uint64_t last_ns;               /* of the last record of the same kind of ring; see ledger.c */
	uint64_t throttled_from_ns;     /* 0: it runs */
	size_t ring;                    /* index of the id that keeps `last_ns` for its ring */
};

struct loss_times {
	const struct event_desc *events; /* borrowed */
	size_t nr_events;
	struct loss_id *ids; /* heap; in the order of events; behind them one for records without an id */
	size_t nr_ids, ids_room;
	struct hash_table numbers;    /* by id: the index + 1 */
	size_t nr_places;             /* CPUs, or tasks with a ring each; right after loss_times_end() */
	bool rings_changed;           /* which ids share a ring, since that was found out */
	uint64_t nr_sorted;           /* ids, each time that it was found out */
	size_t last;                  /* index of the last look-up */
	int id_offset, id_distance;   /* sample_id_offset() and sample_id_distance() of all events */
	int cpu_offset, cpu_distance; /* of the CPU, in a file without ids; -1: not there */
	uint64_t first_ns, last_ns;   /* of all samples; 0: none has a time */
	struct ledger_entry *gaps;    /* heap; count: of a LOST record, 0 for throttled time */
	size_t nr_gaps, gaps_room;
};

/* 0 or -ENOMEM. */
int loss_times_init(struct loss_times *times, const struct event_desc *events, size_t nr_events);
/* There are more events than before, the first of which are the same; their array may be another. 0 or -ENOMEM. */
int loss_times_add_events(struct loss_times *times, const struct event_desc *events, size_t nr_events);
void loss_times_fini(struct loss_times *times); /* zeroed is fine */

/* false: the event is a dummy event: it carries task events and has no samples. */
bool loss_times_samples(const struct loss_times *times, uint32_t event);

/* One whole record (header->size readable bytes, any alignment); records of other types are ignored. 0 or -ENOMEM. */
int loss_times_take(struct loss_times *times, const uint8_t *record, const struct perf_event_header *header);

/* Extends first_ns and last_ns to cover samples that are not passed to loss_times_take(); 0, 0: there are none. */
void loss_times_reach(struct loss_times *times, uint64_t first_ns, uint64_t last_ns);

/*
 * To be called once, after the last record: events that are still throttled are throttled until `end_ns`, and losses
 * after the last record of a ring are taken from the ledger (NULL: there is none), as are the counts of the gaps. 0 or
 * -ENOMEM.
 */
int loss_times_end(struct loss_times *times, uint64_t end_ns, const struct ledger *ledger);
