/* SPDX-License-Identifier: MIT */
#include "cmd/top_decay.h"

enum { DECAY_OF = 8 /* as perf top: 7 of 8 stay at each update */ };

/* Without an overflow of the parts of a large one. */
static void decay_number(uint64_t *number, uint8_t *more)
{
	uint64_t eighth = *number / DECAY_OF, left = *number % DECAY_OF;
	uint64_t parts = (left * DECAY_PARTS + *more) * (DECAY_OF - 1) / DECAY_OF;

	*number = eighth * (DECAY_OF - 1) + parts / DECAY_PARTS;
	*more = (uint8_t)(parts % DECAY_PARTS);
}

void decay_amount(struct hist_amount *amount, struct decay_rest *rest, uint64_t least_parts)
{
	uint64_t parts = amount->nr_samples * DECAY_PARTS - rest->samples_less;

	parts = parts * (DECAY_OF - 1) / DECAY_OF;
	if (parts < least_parts) {
		*amount = (struct hist_amount){0};
		rest->period_more = rest->samples_less = 0;
		return;
	}
	amount->nr_samples = (parts + DECAY_PARTS - 1) / DECAY_PARTS;
	rest->samples_less = (uint8_t)(amount->nr_samples * DECAY_PARTS - parts);
	decay_number(&amount->period, &rest->period_more);
}
