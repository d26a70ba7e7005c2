/* SPDX-License-Identifier: MIT */
/*
 * report_crew: samples that look like ones that were taken before, counted by several threads at once. Those that do not
 * are taken one by one, in their order, by the caller: so what comes out is the same with any number of threads. One owner
 * (report_crew_free), one thread calls.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ahead;
struct ahead_piece;
struct report_crew;
struct samples;

/* `samples` is borrowed. 0, and *ret is NULL when there is but one CPU to be had; or -ENOMEM. */
int report_crew_new(struct samples *samples, struct report_crew **ret);
void report_crew_free(struct report_crew *crew); /* NULL is fine */

/* For ahead_start(). NULL is fine. */
unsigned report_crew_hands(const struct report_crew *crew);

/* Of ahead_run_begin(). */
struct report_run {
	const struct ahead_piece *pieces;
	size_t nr;
};

/* samples_take() for all samples of a run: how many there were. As samples_take() when it fails. */
int64_t report_crew_take(struct report_crew *crew, struct ahead *ahead, struct report_run run);

/* Adds what was counted to the tallies: before anything is read of those, and samples_settle(). NULL is fine. */
void report_crew_join(struct report_crew *crew);
