/* SPDX-License-Identifier: MIT */
/*
 * governor: decides from statistics of a running recording what to change so that less is lost, or less CPU time is
 * used. It carries out nothing: it gets statistics, and returns actions. One thread.
 *
 * It reacts to three conditions. When rings are found nearly full, they are visited periodically, before they wake the
 * recorder. When the memory before the writer fills because records wait for compression, the level is lowered, if
 * necessary to none. Both end when their reason is gone. When more CPU time was used than --max-cpu allows, it is saved
 * again: first by a lower compression level, which loses nothing, then by draining less often, if necessary so seldom
 * that rings overflow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/ledger.h"

enum {
	GOVERNOR_MOST_ACTIONS = 3,
	GOVERNOR_FAST_POLL_MS = 1,
	GOVERNOR_LONGEST_INTERVAL_MS = 4096,
};

struct governor_bounds {
	double cpus; /* limit of CPU time per elapsed time, such as 0.2; 0: none */
	int level;   /* of compression, as it was asked for; 0: nothing is compressed */
};

/* Statistics of the recording at one time. */
struct governor_stats {
	uint64_t now_ns;            /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;            /* CPU time of all threads of the recorder so far; only needed with bounds.cpus */
	size_t nr_extents, nr_free; /* batches of the memory before the writer, and free ones; 0: there is none */
	size_t nr_to_pack;          /* batches that wait to be compressed */
	size_t nr_packing;          /* that are being compressed */
	size_t nr_blocked;          /* that are compressed, but wait for one before them that is not yet */
	size_t nr_unwritten;        /* that wait for the output */
	uint64_t nr_near_full;      /* visits so far that found a ring nearly full */
	uint64_t nr_packed;         /* batches compressed so far */
};

/*
 * from and to are, for LEDGER_LEVEL_CHANGED: compression levels, 0: none; for LEDGER_POLL_INTERVAL: ns between two
 * visits of the rings; for LEDGER_FAST_POLL: ns after which rings are visited although they did not wake the recorder.
 * For the last two 0 means that rings are visited when they wake it.
 */
struct governor_action {
	enum ledger_action_kind kind;
	uint64_t from, to;
};

/*
 * The compression level that one condition asks for, and when it may be raised again. For rings the levels are 1: they
 * wake the recorder, and 0: it polls.
 */
struct governor_condition {
	int level;
	uint64_t no_reason_ns; /* since when there is no reason for a low level; 0: there is one now */
	uint64_t raised_ns;    /* when the level was last raised; 0: not since it was lowered */
	/* how long there must be no reason before it is raised; grows each time that it was raised too early */
	uint64_t delay_ns;
};

struct governor {
	struct governor_bounds bounds;
	struct governor_condition for_rings, for_memory, for_cpu;
	int reported_level; /* the level in the last action */
	unsigned interval_ms;
	uint64_t nr_packed;                            /* stats.nr_packed when the CPU limit last changed the level */
	uint64_t seen_ns, seen_cpu_ns, seen_near_full; /* values of the last stats; 0: there were none */
	/*
	 * CPU time in ns that was not used earlier, and may be used beyond the limit; below 0: too much was used, and
	 * must be saved
	 */
	double saved_ns;
	uint64_t nr_packed_before; /* stats.nr_packed when the memory condition last changed the level */
	bool is_memory_short;      /* memory fills because compression is too slow */
	bool quiet;                /* hardly any CPU time is used */
	/* CLOCK_MONOTONIC: when it needs the next stats; UINT64_MAX: not before the notifier is notified */
	uint64_t next_ns;
};

void governor_init(struct governor *governor, const struct governor_bounds *bounds);

/* Fills `ret` with the actions to carry out now; returns their number. */
size_t governor_decide(struct governor *governor, const struct governor_stats *stats,
		       struct governor_action ret[GOVERNOR_MOST_ACTIONS]);

/* The compression level that should be in use now. */
int governor_level(const struct governor *governor);
