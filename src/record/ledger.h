/* SPDX-License-Identifier: MIT */
/*
 * ledger: the book of what a recording loses while it runs: the kernel's counters of lost records, read again and again.
 * Owned by the recording; one thread at a time (the keeper while events flow, the main thread before and after).
 */
#pragma once

#include <stdint.h>

#include "format/feature_ledger.h"

struct eventset;
struct stack_cutter;

/* Two clocks at the same moment; perf_ns 0: not known. */
struct ledger_moment {
	uint64_t ns, perf_ns; /* CLOCK_MONOTONIC; the clock of the samples */
};

struct ledger_book {
	const struct eventset *set; /* borrowed */
	uint64_t *lost;             /* heap; by slot: the counter as it was read last */
	size_t *open;               /* heap; by slot: index + 1 of the entry that ends at the last reading; 0: none */
	const struct stack_cutter *cutter; /* borrowed; NULL: nobody cuts stacks */
	uint64_t *cut;              /* heap; by index of stack_cut_count(): as it was read last */
	size_t *cut_open;           /* heap; by the same: as `open` */
	const _Atomic uint64_t *paced_ns; /* borrowed; as reader_control.paced_ns; NULL: there never is a pace */
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
 * One reading of the counters: what they grew by was lost since the reading before. 0 or -ENOMEM. Overwritten rings
 * lose nothing but while they are paused: theirs are read by those who know when that was.
 */
int ledger_book_read(struct ledger_book *book);

/* The ring of the slot was paused in that time (CLOCK_MONOTONIC): what its counter grew by was lost then. 0 or -ENOMEM. */
int ledger_book_note_pause(struct ledger_book *book, size_t slot, uint64_t from_ns, uint64_t to_ns);

/*
 * Reads all counters: *ret is the ledger of what came since the last such call, the caller's, with the times of the
 * samples, and the costs left out, which are those of the whole recording. 0 or -ENOMEM.
 */
int ledger_book_cut(struct ledger_book *book, struct ledger *ret);

/* The last reading, after the events were disabled; then the times become those of the samples. */
int ledger_book_close(struct ledger_book *book);
void ledger_book_fini(struct ledger_book *book); /* zeroed is fine */
