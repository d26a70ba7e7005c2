/* SPDX-License-Identifier: MIT */
/* latency: how long something took, many times: quantiles within 3 %, in fixed room. One owner, one thread. */
#pragma once

#include <stdint.h>

enum { LATENCY_STEPS = 32, LATENCY_OCTAVES = 60 };

struct latency {
	uint64_t counts[LATENCY_OCTAVES]
		       [LATENCY_STEPS]; /* octave 0: 0 to 31 ns; then steps of 1/32 of a power of two */
	uint64_t nr, max_ns;
};

void latency_add(struct latency *latency, uint64_t ns);

/* The time that a part of 0 to 1 did not exceed; 0 when nothing was added. */
uint64_t latency_quantile(const struct latency *latency, double part);
