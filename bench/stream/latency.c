/* SPDX-License-Identifier: MIT */
#include "latency.h"

enum { STEP_BITS = 5 }; /* LATENCY_STEPS */

void latency_add(struct latency *latency, uint64_t ns)
{
	unsigned octave = ns < LATENCY_STEPS ? 0 : 63 - (unsigned)__builtin_clzll(ns) - STEP_BITS + 1;
	uint64_t step = octave ? ns >> (octave - 1) & (LATENCY_STEPS - 1) : ns;

	latency->counts[octave][step]++;
	latency->nr++;
	if (ns > latency->max_ns)
		latency->max_ns = ns;
}

/* The largest time that counts there. */
static uint64_t upper_end(unsigned octave, unsigned step)
{
	return octave ? ((uint64_t)(LATENCY_STEPS + step + 1) << (octave - 1)) - 1 : step;
}

uint64_t latency_quantile(const struct latency *latency, double part)
{
	uint64_t wanted = (uint64_t)(part * (double)latency->nr), seen = 0;

	for (unsigned octave = 0; octave < LATENCY_OCTAVES; octave++) {
		for (unsigned step = 0; step < LATENCY_STEPS; step++) {
			seen += latency->counts[octave][step];
			if (seen > wanted || (seen && seen == latency->nr)) {
				uint64_t ns = upper_end(octave, step);
				return ns < latency->max_ns ? ns : latency->max_ns;
			}
		}
	}
	return 0;
}
