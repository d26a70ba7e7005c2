/* SPDX-License-Identifier: MIT */
/*
 * synthetic_load: threads that fill synthetic rings at a rate, for a time. They make samples as they fall due, in
 * ticks; a thread that comes late by more than a few ticks leaves out what it missed instead of making a burst of it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "synthetic_ring.h"

struct synthetic_load_options {
	size_t nr_busy; /* the first rings of all: the others stay empty */
	unsigned nr_threads;
	double rate; /* samples per second of each busy ring, while they come */
	size_t sample_bytes;
	uint64_t on_ns, off_ns; /* samples come and stay away in turn; off 0: they always come */
	uint64_t duration_ns;
};

/* From the last sample that fitted to the one after the loss: what a reader of the data can say of it. */
struct synthetic_gap {
	uint64_t from_ns, to_ns;
};

struct synthetic_producer {
	struct synthetic_load *load;
	pthread_t thread;
	size_t first, nr; /* rings */
	struct synthetic_sample *sample;
	struct synthetic_gap *gaps; /* heap */
	size_t nr_gaps, gaps_room;
	uint64_t cpu_ns;
	bool failed; /* out of memory for gaps */
};

/* Owned by the thread that starts and joins it. */
struct synthetic_load {
	struct synthetic_load_options options;
	struct synthetic_rings *rings; /* borrowed */
	int wake_fd;                   /* eventfd: written when a ring is due for a visit, and at the end */
	uint64_t start_ns, end_ns;
	struct synthetic_producer *producers;
	size_t nr_started;
	atomic_bool stop;
	atomic_uint nr_running;
};

/* What became of the samples. */
struct synthetic_totals {
	uint64_t made, dropped;
	double elapsed_s; /* run time of the load */
	double lost_any;  /* part of it in which at least one ring had lost samples: lost_time / elapsed_time */
	double lost_mean; /* the same of one ring, mean of the busy ones */
	uint64_t cpu_ns;  /* of all producers */
};

/* Takes copies of the options; borrows the rings until synthetic_load_join(). 0 or -errno. */
int synthetic_load_start(struct synthetic_load *load, const struct synthetic_load_options *options,
			 struct synthetic_rings *rings);

/* Do samples still come? The last bytes are in the rings when it says no. */
bool synthetic_load_running(struct synthetic_load *load);

/* Ends it, at once if need be; then the totals. 0 or -ENOMEM. */
int synthetic_load_join(struct synthetic_load *load, struct synthetic_totals *ret);
