/* SPDX-License-Identifier: MIT */
/* coverage: how much of its time a recording saw, where it was blind longest, and what would have helped. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/feature_ledger.h"

struct loss_times;

struct coverage {
	bool exact;          /* by the records around the gaps; else by the readings of the counters, which lie apart */
	uint64_t elapsed_ns; /* 0: not known, and nothing else is */
	size_t nr_places;    /* CPUs, or tasks with a ring each */
	struct ledger_sum sum;
	size_t enough_bytes; /* the ring that would have held the worst gap; 0: not known */
};

struct coverage_params {
	struct ledger *ledger;     /* its entries get sorted */
	struct loss_times *losses; /* gaps get sorted; NULL, or one that was fed with no record: the readings must do */
	size_t nr_places;          /* without `losses` */
	size_t ring_bytes;
	uint64_t drained_bytes, nr_samples; /* for the size of a record */
};
int coverage_make(const struct coverage_params *params, struct coverage *ret);

/* In percent of the time of all CPUs. */
double coverage_percent(const struct coverage *coverage);
