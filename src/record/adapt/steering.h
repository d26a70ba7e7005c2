/* SPDX-License-Identifier: MIT */
/*
 * steering: collects statistics for the governor, and carries out its decisions: the level of compression, and how
 * often rings are visited. Owned by the recording; used by the main thread, which sleeps while there is nothing to
 * decide.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fd.h"
#include "perfdata/ledger.h"
#include "record/adapt/governor.h"

struct batch_pool;
struct reader_control;

struct steering {
	struct notifier notifier; /* notified when there is something to decide */
	struct governor governor;
	struct batch_pool *pool;        /* borrowed; NULL: none */
	struct reader_control *readers; /* borrowed */
	uint64_t start_ns, start_cpu_ns, end_ns, end_cpu_ns;
	struct ledger done; /* its actions alone, with times of CLOCK_MONOTONIC */
};

/* How a recording kept to its bound, and what was lost by that. */
struct steering_result {
	double bound, used;  /* CPUs while events flowed; bound 0: there was none */
	int lowest_level;    /* of compression */
	bool was_low;        /* it was lower than asked for, for one reason or the other */
	uint64_t slowest_ns; /* between visits; 0: rings were visited when they woke the recorder */
	uint64_t nr_dropped; /* records dropped by the CPU limit */
};

/* To be called before the parts are opened that notify it. 0 or -errno. */
int steering_open(struct steering *steering, const struct governor_bounds *bounds);
void steering_close(struct steering *steering); /* after them */

/* When events begin to flow, and when they no longer do. */
void steering_start(struct steering *steering, struct batch_pool *pool, struct reader_control *readers);
void steering_stop(struct steering *steering);

/* CLOCK_MONOTONIC: when something is due; UINT64_MAX: not before the notifier is notified. */
uint64_t steering_next_ns(const struct steering *steering);
/* Does what is due. `notified`: the notifier was. */
void steering_step(struct steering *steering, bool notified);

/*
 * Adds to the ledger what was done, and its effect; after steering_stop() and when no reader runs any more. 0 or
 * -ENOMEM.
 */
int steering_account(struct steering *steering, struct ledger *ledger);
int steering_cost(const struct steering *steering, struct ledger *ledger);
/* `ledger`: with all that was lost. */
struct steering_result steering_result(const struct steering *steering, const struct ledger *ledger);
