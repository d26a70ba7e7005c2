/* SPDX-License-Identifier: MIT */
/*
 * steering: looks for the governor, and does what it says: the level of compression, how often rings are
 * visited, and by which thread.
 * Owned by the recording; used by the main thread, which sleeps while there is nothing to decide.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bell.h"
#include "format/feature_ledger.h"
#include "record/governor.h"

struct drain_watch;
struct pack_pool;
struct reader_control;

struct steering {
	struct bell bell; /* for those who find that there is something to decide */
	struct governor governor;
	struct pack_pool *pool; /* borrowed; NULL: none */
	struct reader_control *readers; /* borrowed */
	struct drain_watch *drain;      /* borrowed; NULL: rings stay with their threads */
	uint64_t restless_ns;           /* when some ring is to go somewhere; UINT64_MAX: when that helps */
	uint64_t start_ns, start_cpu_ns, end_ns, end_cpu_ns;
	struct ledger done; /* its actions alone, with times of CLOCK_MONOTONIC */
};

/* How a recording kept to its bound, and what that cost it. */
struct steering_result {
	double bound, used; /* CPUs while events flowed; bound 0: there was none */
	int lowest_level;   /* of compression */
	bool was_low;       /* it was lower than asked for, for one reason or the other */
	uint64_t slowest_ns; /* between visits; 0: rings were visited when they woke us */
	uint64_t shed;      /* records that rings lost meanwhile */
};

/* Before the parts that ring its bell. 0 or -errno. */
int steering_open(struct steering *steering, const struct governor_bounds *bounds);
void steering_close(struct steering *steering); /* after them */

/* When events begin to flow, and when they no longer do. */
void steering_start(struct steering *steering, struct pack_pool *pool, struct reader_control *readers, struct drain_watch *drain);
void steering_stop(struct steering *steering);

/* CLOCK_MONOTONIC: when something is due; UINT64_MAX: not before the bell is rung. */
uint64_t steering_next_ns(const struct steering *steering);
/* Does what is due. `rung`: the bell was. */
void steering_step(struct steering *steering, bool rung);

/* Tells the ledger what was done, and what came of it; after steering_stop() and when no reader runs any more. 0 or -ENOMEM. */
int steering_account(struct steering *steering, struct ledger *ledger);
int steering_cost(const struct steering *steering, struct ledger *ledger);
/* `ledger`: with all that was lost. */
struct steering_result steering_result(const struct steering *steering, const struct ledger *ledger);
