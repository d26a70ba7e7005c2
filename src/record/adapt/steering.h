/* SPDX-License-Identifier: MIT */
/*
 * steering: collects statistics for the governor, and carries out its actions: changes the compression level, and how
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
	struct ledger done; /* holds only actions: those that were carried out, with times of CLOCK_MONOTONIC */
};

/* Whether a recording kept its limits, and what was lost by that. */
struct steering_result {
	double bound, used; /* CPU time per elapsed time while events were enabled; bound 0: there was none */
	int lowest_level;   /* of compression */
	bool was_low;       /* the compression level was lower than asked for at some time */
	/* longest interval between two visits; 0: rings were visited when they woke the recorder */
	uint64_t slowest_ns;
	uint64_t nr_dropped; /* records dropped by the CPU limit */
};

/* To be called before pool and readers, which get its notifier, are made. 0 or -errno. */
int steering_open(struct steering *steering, const struct governor_bounds *bounds);
void steering_close(struct steering *steering); /* after pool and readers were freed */

/* To be called when the events have been enabled, and when they have been disabled. */
void steering_start(struct steering *steering, struct batch_pool *pool, struct reader_control *readers);
void steering_stop(struct steering *steering);

/* CLOCK_MONOTONIC: when steering_step() must be called next; UINT64_MAX: not before the notifier is notified. */
uint64_t steering_next_ns(const struct steering *steering);
/* Gets the statistics and carries out the governor's actions, if that is due. `notified`: the notifier was notified. */
void steering_step(struct steering *steering, bool notified);

/*
 * steering_account() adds the actions to the ledger, steering_cost() adds the CPU limit and what was used of it. To be
 * called after steering_stop(), when no reader runs any more. 0 or -ENOMEM.
 */
int steering_account(struct steering *steering, struct ledger *ledger);
int steering_cost(const struct steering *steering, struct ledger *ledger);
/* `ledger`: complete, with all losses. */
struct steering_result steering_result(const struct steering *steering, const struct ledger *ledger);
