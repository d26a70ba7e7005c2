/* SPDX-License-Identifier: MIT */
/*
 * ledger: what a recording loses while it runs, from the kernel's counters of lost records, read periodically; how much
 * of its time it has seen; and what recording itself costs. Owned by the recording; one thread at a time (housekeeping
 * while events flow, the main thread before and after).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/ledger.h"

struct eventset;
struct loss_times;
struct batch_pool;
struct readers;
struct stack_cutter;

/* Two clocks at the same moment; perf_ns 0: not known. */
struct ledger_moment {
	uint64_t ns, perf_ns; /* CLOCK_MONOTONIC; the clock of the samples */
};

struct ledger_book {
	const struct eventset *set; /* borrowed */
	uint64_t *lost;             /* heap; by slot: the counter as it was read last */
	size_t *open;               /* heap; by slot: index + 1 of the entry that ends at the last reading; 0: none */
	const struct stack_cutter *cutter; /* borrowed; NULL: stacks are not cut */
	uint64_t *cut;                     /* heap; by index of stack_cut_count(): as it was read last */
	size_t *cut_open;                  /* heap; by the same: as `open` */
	const _Atomic uint64_t
		*full_ns; /* borrowed; as batch_pool.full_until_ns; NULL: the memory before the output is never full */
	const _Atomic uint64_t
		*interval_until_ns; /* borrowed; as reader_control.interval_until_ns; NULL: there never is a pace */
	_Atomic uint64_t nr_lost;   /* the sum of `lost`; any thread may read it */
	uint64_t read_ns;           /* when that was, by CLOCK_MONOTONIC */
	uint64_t reading_ns;        /* how long that took */
	struct ledger_moment start, span_start;
	struct ledger ledger; /* times are of CLOCK_MONOTONIC until ledger_book_close() */
	size_t span_entry;    /* of the ledger: the first since span_start */
	struct ledger span;   /* valid when closed: since the last ledger_book_cut() */
};

/* Before events are enabled; cutter NULL: none. 0 or -ENOMEM. */
int ledger_book_open(struct ledger_book *book, const struct eventset *set, const struct stack_cutter *cutter);

/*
 * Now, by the clock of the samples; 0: not known. A recording of this thread has a COMM record of it. Where the clock
 * cannot be read, it is taken to go as CLOCK_MONOTONIC since the opening.
 */
uint64_t ledger_book_now(const struct ledger_book *book);

/*
 * One reading of the counters: what they grew by was lost since the reading before. 0 or -ENOMEM. Overwritten rings
 * lose nothing but while they are paused: see ledger_book_note_pause().
 */
int ledger_book_read(struct ledger_book *book);

/*
 * The ring of the slot was paused in that time (CLOCK_MONOTONIC): what its counter grew by was lost then. 0 or -ENOMEM.
 */
int ledger_book_note_pause(struct ledger_book *book, size_t slot, uint64_t from_ns, uint64_t to_ns);

/*
 * Reads all counters: *ret is the ledger of what came since the last such call, the caller's, with the times of the
 * samples, and the costs left out, which are those of the whole recording. 0 or -ENOMEM.
 */
int ledger_book_cut(struct ledger_book *book, struct ledger *ret);

/* The last reading, after the events were disabled; then the times become those of the samples. */
int ledger_book_close(struct ledger_book *book);
void ledger_book_fini(struct ledger_book *book); /* zeroed is fine */

/* How much of its time a recording saw, the longest time in which it saw nothing, and what would have helped. */
struct coverage {
	bool exact;          /* by the records around the gaps; else gaps are told too long, never too short */
	uint64_t elapsed_ns; /* 0: not known, and nothing else is */
	size_t nr_places;    /* CPUs, or tasks with a ring each */
	struct ledger_sum sum;
	size_t enough_bytes; /* the ring that would have held what was lost in any gap; 0: not known, or none that fits
				here */
	uint64_t blind_ns;   /* the longest gap of those that no ring would have held; 0: none */
};

struct coverage_params {
	struct ledger *ledger;     /* its entries get sorted */
	struct loss_times *losses; /* gets ended, and gaps sorted; NULL, or one that was fed with no record: the
				      readings must do */
	bool mixed;                /* records of several rings in each batch: not the last before each gap is known */
	size_t nr_places;          /* without `losses` */
	size_t ring_bytes, most_ring_bytes; /* most: that is advised */
	uint64_t drained_bytes, nr_samples; /* for the size of a record */
};
int coverage_make(const struct coverage_params *params, struct coverage *ret);

/* In percent of the time of all CPUs. */
double coverage_percent(const struct coverage *coverage);

/*
 * What recording itself uses, stage by stage: of the whole recording, and of each of its files. Nothing is measured on
 * a record's way: threads report what they used at their end and when they change outputs. Used by the main thread.
 */
struct recorder_cost {
	const struct readers *readers;       /* borrowed, as all of these */
	struct batch_pool *pool;             /* NULL: there is none */
	const uint64_t *housekeeping_cpu_ns; /* valid while that thread is stopped, as it is at each call */
	uint64_t start_cpu_ns;               /* of the main thread, until events could flow */
	struct ledger reported;              /* the costs up to the last recorder_cost_cut() */
};

/*
 * While readers run: only when all have switched their writers (readers_switched()), as of then. What was used since
 * the last call. 0 or -ENOMEM.
 */
int recorder_cost_cut(struct recorder_cost *cost, struct ledger *ledger);

/* Of the whole recording, after the readers were joined. 0 or -ENOMEM. */
int recorder_cost_add(const struct recorder_cost *cost, struct ledger *ledger);

void recorder_cost_fini(struct recorder_cost *cost); /* zeroed is fine */
