/* SPDX-License-Identifier: MIT */
/*
 * ledger: the book of what a recording loses while it runs: the kernel's counters of lost records, read again and again.
 * Owned by the recording; one thread at a time (the keeper while events flow, the main thread before and after).
 */
#pragma once

#include <stdint.h>

#include "format/feature_ledger.h"

struct eventset;

/* Two clocks at the same moment; perf_ns 0: not known. */
struct ledger_moment {
	uint64_t ns, perf_ns; /* CLOCK_MONOTONIC; the clock of the samples */
};

struct ledger_book {
	const struct eventset *set; /* borrowed */
	uint64_t *lost;             /* heap; by slot: the counter as it was read last */
	size_t *open;               /* heap; by slot: index + 1 of the entry that ends at the last reading; 0: none */
	uint64_t read_ns;           /* when that was, by CLOCK_MONOTONIC */
	uint64_t reading_ns;        /* how long that took */
	struct ledger_moment start;
	struct ledger ledger; /* times are of CLOCK_MONOTONIC until ledger_book_close() */
};

/* Before events are enabled. 0 or -ENOMEM. */
int ledger_book_open(struct ledger_book *book, const struct eventset *set);

/* One reading of all counters: what they grew by was lost since the reading before. 0 or -ENOMEM. */
int ledger_book_read(struct ledger_book *book);

/* Time without a count, or records that no counter knows. */
int ledger_book_note(struct ledger_book *book, const struct ledger_entry *entry);

/* The last reading, after the events were disabled; then the times become those of the samples. */
int ledger_book_close(struct ledger_book *book);
void ledger_book_fini(struct ledger_book *book); /* zeroed is fine */
