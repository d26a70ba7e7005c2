/* SPDX-License-Identifier: MIT */
/*
 * top_decay: how the amounts of cells decay, by an eighth at each update. Most cells have a sample or two, and many of
 * them make a row: each keeps its parts, so that the row decays as one number would.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/report/hist.h"

enum {
	DECAY_PARTS = 256,                   /* of a sample, and of a unit of the period */
	DECAY_LEAST_PARTS = DECAY_PARTS / 16 /* with fewer parts of a sample a cell is empty */
};

/* What is left of an amount beside its whole numbers; zeroed is none. nr_samples of the amount is rounded up. */
struct decay_rest {
	uint8_t period_more, samples_less; /* parts */
	bool stays;                        /* for the caller */
};

/* With less than `least_parts` of a sample left, amount and rest are zero. */
void decay_amount(struct hist_amount *amount, struct decay_rest *rest, uint64_t least_parts);
