/* SPDX-License-Identifier: MIT */
/*
 * governor: what to do about what is seen of a recording while it runs. It does nothing by itself: it gets statistics,
 * and returns what is to be done. One thread.
 *
 * It reacts to three conditions. Rings that are found nearly full: they are visited by the clock, before they wake the
 * recorder. Memory before the writer that fills because records wait to be compressed: they are compressed faster, or
 * not at all. Both end when their reason is gone. And a bound of the CPU time: when more was used it is saved again,
 * first by a lower compression level, which loses nothing, then by draining less often, if necessary so seldom that
 * rings overflow.
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
	double cpus; /* CPU time that may be used in each unit of time: 0.2; 0: any */
	int level;   /* of compression, as it was asked for; 0: nothing is compressed */
};

/* What was seen. */
struct governor_stats {
	uint64_t now_ns;            /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;            /* that the recorder has used so far, all its threads; where it is bounded */
	size_t nr_extents, nr_free; /* of the memory before the writer; 0: there is none */
	size_t nr_to_pack;          /* that wait to be compressed */
	size_t nr_packing;          /* that are being compressed */
	size_t nr_blocked;          /* that are compressed, but wait for one before them that is not */
	size_t nr_unwritten;        /* that wait for the output */
	uint64_t nr_packed;         /* so far */
	uint64_t nr_near_full;      /* visits so far that found a ring nearly full */
};

/*
 * LEDGER_LEVEL_CHANGED: levels, 0: stored as it is. LEDGER_POLL_INTERVAL: ns between visits, LEDGER_FAST_POLL: ns after
 * which rings are visited that did not wake the recorder; of both 0: when they wake it.
 */
struct governor_action {
	enum ledger_action_kind kind;
	uint64_t from, to;
};

/* The level that one condition asks for, and how it recovers. For rings: 1: they wake the recorder, 0: it polls. */
struct governor_lever {
	int level;
	uint64_t calm_ns;     /* since when there is no reason to be low; 0: there is one */
	uint64_t raised_ns;   /* when it was raised last; 0: not since it was lowered */
	uint64_t patience_ns; /* it must be calm so long; longer each time that it was too early */
};

struct governor {
	struct governor_bounds bounds;
	struct governor_lever for_rings, for_memory, for_cpu;
	int reported_level; /* the last that was said */
	unsigned interval_ms;
	uint64_t nr_packed;                            /* of the stats at which the bound changed the level last */
	uint64_t seen_ns, seen_cpu_ns, seen_near_full; /* of the last stats; 0: there was none */
	double saved_ns; /* CPU time that may be used beyond the bound, for it was not used before; below 0: is to be
			    taken back */
	uint64_t nr_packed_before; /* of the stats at which memory changed the level last */
	bool is_memory_short;      /* memory fills for want of compressors */
	bool quiet;                /* next to no CPU time is used */
	uint64_t next_ns;          /* when it wants to see again; UINT64_MAX: not before something happens */
};

void governor_init(struct governor *governor, const struct governor_bounds *bounds);

/* Fills `ret` with what is to be done now; how many. */
size_t governor_decide(struct governor *governor, const struct governor_stats *stats,
		       struct governor_action ret[GOVERNOR_MOST_ACTIONS]);

/* As it is to be at present. */
int governor_level(const struct governor *governor);
