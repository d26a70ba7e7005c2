/* SPDX-License-Identifier: MIT */
/*
 * producers: state shared by the streams of several threads that drain into one output: when a round is due, and when
 * it is complete. Owned by that output. All functions may be called by any of the threads.
 *
 * A FINISHED_ROUND mark promises that no record behind it is older than any record before the previous mark. So a round
 * is complete when each producer has visited all its rings in a pass that began after the last mark, and the position
 * of the bytes in the output is fixed. No thread waits for another: the last one writes the mark.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct producers_params {
	size_t nr;            /* producers that have rings */
	uint64_t round_bytes; /* a round is due after so many bytes since the last mark; 0: never */
	uint64_t wake_bytes;  /* after so many, producers that sleep are woken to complete the round */
};

struct producers {
	struct producers_params params;
	_Atomic uint64_t epoch;          /* counts marks; the first is 1 */
	_Atomic uint64_t unmarked_bytes; /* bytes since the last mark, approximately */
	atomic_size_t nr_missing;        /* number of producers that have not reported a pass in the present epoch */
	atomic_bool woken;               /* in the present epoch */
	_Atomic uint64_t reported_bytes; /* producers_report_stored() */
};

void producers_init(struct producers *producers, const struct producers_params *params);

/* The present epoch, to be read before the first ring of a pass. */
uint64_t producers_epoch(struct producers *producers);

/* Whether a round is due after a pass that moved `bytes`. With `end` one unmarked byte suffices. */
bool producers_due(struct producers *producers, uint64_t bytes, bool end);
/* Adds to unmarked_bytes, once the position of the bytes in the output is fixed. */
void producers_count(struct producers *producers, uint64_t bytes);

/*
 * Reports a producer's pass of this epoch; at most once for each epoch. true: it was the last one; the caller writes
 * the mark and then calls producers_marked().
 */
bool producers_report(struct producers *producers);
void producers_marked(struct producers *producers, uint64_t bytes_before);

/* Whether the others should be woken; true at most once for each round. */
bool producers_wake_due(struct producers *producers);

/* `stored`: bytes of the output. Returns by how much that exceeds what any producer has reported so far. */
uint64_t producers_report_stored(struct producers *producers, uint64_t stored);
