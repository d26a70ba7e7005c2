/* SPDX-License-Identifier: MIT */
/*
 * top_decay: how the amounts of cells decay, by an eighth at each update. Most cells have a sample or two, and many of
 * them make a row: each keeps its parts, and what they are rounded to adds up, so that a row decays as one number
 * would.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/report/hist.h"

enum {
	DECAY_PARTS = 256,                   /* of a sample, and of a unit of the period */
	DECAY_LEAST_PARTS = DECAY_PARTS / 16 /* with fewer parts of a sample a cell is empty */
};

/* What an amount has more than its whole numbers say, in parts, below 0: less; zeroed is none. */
struct decay_rest {
	int16_t period_more, samples_more;
	bool stays; /* for the caller */
};

/* One update of many cells. What one is rounded by goes into the next one. */
struct decay_pass {
	uint64_t least_parts;
	uint32_t period_carried,
		samples_carried; /* parts; DECAY_PARTS / 2 at first: the first one is rounded to nearest */
};

/* false: less than `least_parts` of a sample are left: amount and rest are zero. */
bool decay_amount(struct hist_amount *amount, struct decay_rest *rest, struct decay_pass *pass);
