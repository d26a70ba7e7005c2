/* SPDX-License-Identifier: MIT */
#include "cmd/top_decay.h"

enum { DECAY_OF = 8 /* as perf top: 7 of 8 stay at each update */ };

struct number {
	uint64_t whole;
	uint32_t parts; /* less than one */
};

/* Without an overflow of the parts of a large one. */
static struct number decayed(uint64_t rounded, int more)
{
	const uint64_t whole = more < 0 ? rounded - 1 : rounded;
	const uint64_t left = whole % DECAY_OF * DECAY_PARTS + (uint64_t)(more < 0 ? more + DECAY_PARTS : more);
	const uint64_t parts = left * (DECAY_OF - 1) / DECAY_OF;

	return (struct number){whole / DECAY_OF * (DECAY_OF - 1) + parts / DECAY_PARTS,
			       (uint32_t)(parts % DECAY_PARTS)};
}

static void round_off(struct number number, uint32_t *carried, uint64_t *ret, int16_t *ret_more)
{
	*carried += number.parts;
	const bool up = *carried >= DECAY_PARTS;
	*carried -= up ? DECAY_PARTS : 0;
	*ret = number.whole + up;
	*ret_more = (int16_t)((int)number.parts - (up ? DECAY_PARTS : 0));
}

bool decay_amount(struct hist_amount *amount, struct decay_rest *rest, struct decay_pass *pass)
{
	const struct number samples = decayed(amount->nr_samples, rest->samples_more);

	if (samples.whole * DECAY_PARTS + samples.parts < pass->least_parts) {
		*amount = (struct hist_amount){0};
		rest->period_more = rest->samples_more = 0;
		return false;
	}
	round_off(samples, &pass->samples_carried, &amount->nr_samples, &rest->samples_more);
	round_off(decayed(amount->period, rest->period_more), &pass->period_carried, &amount->period,
		  &rest->period_more);
	return true;
}
