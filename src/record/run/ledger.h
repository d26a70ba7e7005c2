/* SPDX-License-Identifier: MIT */
/*
 * ledger: while recording: the losses, from the kernel's counters of lost records, which are read periodically; at the
 * end: for how much of the time nothing was lost, and the costs of recording. Owned by the recording; one thread at a
 * time (housekeeping while events are enabled, the main thread before and after).
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
	/* heap; by slot: index + 1 of the ledger entry that ends at the last reading, and may be extended; 0: none */
	size_t *open;
	const struct stack_cutter *cutter; /* borrowed; NULL: stack dumps are not cut */
	uint64_t *cut;                     /* heap; by index of stack_cut_count(): the count at the last reading */
	size_t *cut_open;                  /* heap; by the same: as `open` */
	const _Atomic uint64_t
		*full_ns; /* borrowed; as batch_pool.full_until_ns; NULL: the memory before the output is never full */
	/* borrowed; as reader_control.interval_until_ns; NULL: there is never an interval */
	const _Atomic uint64_t *interval_until_ns;
	_Atomic uint64_t nr_lost; /* the sum of `lost`; any thread may read it */
	uint64_t read_ns;         /* CLOCK_MONOTONIC: when the counters were last read */
	uint64_t reading_ns;      /* how long the last reading took */
	struct ledger_moment start, span_start;
	struct ledger_moment end; /* ledger_book_end(); 0: not yet */
	struct ledger ledger;     /* times are of CLOCK_MONOTONIC until ledger_book_close() */
	size_t span_entry;        /* index of the first entry of `ledger` since span_start */
	struct ledger span;       /* valid when closed: the part of the ledger since the last ledger_book_cut() */
};

/* Before events are enabled; cutter NULL: none. 0 or -ENOMEM. */
int ledger_book_open(struct ledger_book *book, const struct eventset *set, const struct stack_cutter *cutter);

/*
 * The present time on the clock of the samples; 0: not known. It is read by means of an event of this thread, which
 * gets a COMM record. If that fails, the clock is assumed to have advanced as CLOCK_MONOTONIC has since
 * ledger_book_open().
 */
uint64_t ledger_book_now(const struct ledger_book *book);

/*
 * Reads the counters: each increase was lost since the previous reading. Those of the overwrite channel, whose rings
 * are never full, are read at the end of a file only. 0 or -ENOMEM.
 */
int ledger_book_read(struct ledger_book *book);

/*
 * Reads all counters. *ret is the ledger of the time since the last such call, with times on the clock of the samples,
 * and without costs, which are known for the whole recording only. The caller calls ledger_fini(). 0 or -ENOMEM.
 */
int ledger_book_cut(struct ledger_book *book, struct ledger *ret);

/*
 * The events are disabled now: the recording ends here, also if what came before still waits for the storage. No later
 * time is in the ledger.
 */
void ledger_book_end(struct ledger_book *book);

/*
 * Reads the counters for the last time, after the events were disabled, and converts all times to the clock of the
 * samples. 0 or -ENOMEM.
 */
int ledger_book_close(struct ledger_book *book);
void ledger_book_fini(struct ledger_book *book); /* zeroed is fine */

/* For how much of its time a recording lost nothing, the longest gap, and the ring size that would have avoided it. */
struct coverage {
	/* gaps are known from the records around them; false: they may be stated too long, but never too short */
	bool exact;
	uint64_t elapsed_ns; /* 0: not known; then the other fields are not valid */
	size_t nr_places;    /* CPUs, or tasks with a ring each */
	struct ledger_sum sum;
	/*
	 * size of a ring that would have held the records of each gap; 0: not known, or larger than this machine allows
	 */
	size_t enough_bytes;
	uint64_t blind_ns; /* the longest of the gaps that no ring could have avoided; 0: there are none */
};

struct coverage_params {
	struct ledger *ledger; /* its entries are sorted here */
	/*
	 * is ended here, and its gaps are sorted; NULL, or without records: only the readings of the counters are used
	 */
	struct loss_times *losses;
	/* batches hold records of several rings, so the last record before a gap is not known */
	bool mixed;
	size_t nr_places;                   /* used when there is no `losses` */
	size_t ring_bytes, most_ring_bytes; /* most: the largest ring that is recommended */
	uint64_t drained_bytes, nr_samples; /* to compute the average size of a record */
	size_t least_ring_bytes;            /* no smaller ring is recommended */
};
int coverage_make(const struct coverage_params *params, struct coverage *ret);

/* The time without losses, in percent of the time of all CPUs. */
double coverage_percent(const struct coverage *coverage);

/*
 * The CPU time that recording itself uses, by kind of thread: for the whole recording and for each of its files.
 * Nothing is measured per record: threads report what they have used when they end, and when they switch outputs. Used
 * by the main thread.
 */
struct recorder_cost {
	const struct readers *readers;       /* borrowed, as all of these */
	struct batch_pool *pool;             /* NULL: there is none */
	const uint64_t *housekeeping_cpu_ns; /* valid while that thread is stopped, as it is at each call */
	uint64_t start_cpu_ns;               /* of the main thread, until events could flow */
	struct ledger reported;              /* the costs up to the last recorder_cost_cut() */
};

/*
 * Adds what was used since the last call. While readers run it may only be called when readers_switched(), and counts
 * up to that switch. 0 or -ENOMEM.
 */
int recorder_cost_cut(struct recorder_cost *cost, struct ledger *ledger);

/* Adds what the whole recording has used, after the readers were joined. 0 or -ENOMEM. */
int recorder_cost_add(const struct recorder_cost *cost, struct ledger *ledger);

void recorder_cost_fini(struct recorder_cost *cost); /* zeroed is fine */
