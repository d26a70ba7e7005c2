/* SPDX-License-Identifier: MIT */
/*
 * time_bins: how many samples there were over time, in a fixed number of bins. The length of the bins doubles when the
 * recording gets longer. One owner; each thread that counts has its own, and they are joined.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { TIME_BINS = 512, TIME_BINS_FIRST_NS = 1 << 14 };

/* Zeroed: empty. */
struct time_bins {
	uint64_t start_ns, end_ns; /* of the samples, both inclusive */
	uint64_t bin_ns;           /* a power of two; 0: there was no sample */
	uint64_t counts[TIME_BINS];
};

static inline void time_bins_halve(struct time_bins *bins)
{
	for (unsigned i = 0; i < TIME_BINS / 2; i++)
		bins->counts[i] = bins->counts[2 * i] + bins->counts[2 * i + 1];
	memset(bins->counts + TIME_BINS / 2, 0, sizeof(bins->counts) / 2);
	bins->bin_ns *= 2;
}

/* Counts a sample at time_ns. A time before the first one counts in the first bin. */
static inline void time_bins_add(struct time_bins *bins, uint64_t time_ns)
{
	if (!bins->bin_ns) {
		bins->start_ns = bins->end_ns = time_ns;
		bins->bin_ns = TIME_BINS_FIRST_NS;
	}
	uint64_t since = time_ns < bins->start_ns ? 0 : time_ns - bins->start_ns;
	if (bins->end_ns < time_ns)
		bins->end_ns = time_ns;
	while (since / bins->bin_ns >= TIME_BINS)
		time_bins_halve(bins);
	bins->counts[since / bins->bin_ns]++;
}

/* For the bins of another thread, which begin at the same time: empty, with the times of `like`. */
static inline void time_bins_begin(struct time_bins *bins, const struct time_bins *like)
{
	*bins = (struct time_bins){.start_ns = like->start_ns, .end_ns = like->start_ns, .bin_ns = like->bin_ns};
}

/* Adds bins that begin at the same time, which are empty afterwards. */
static inline void time_bins_join(struct time_bins *to, struct time_bins *from)
{
	if (!from->bin_ns)
		return;
	while (to->bin_ns < from->bin_ns)
		time_bins_halve(to);
	while (from->bin_ns < to->bin_ns)
		time_bins_halve(from);
	for (unsigned i = 0; i < TIME_BINS; i++)
		to->counts[i] += from->counts[i];
	if (to->end_ns < from->end_ns)
		to->end_ns = from->end_ns;
	*from = (struct time_bins){0};
}
