/* SPDX-License-Identifier: MIT */
/*
 * report_workers: samples equal to earlier ones, counted by several threads at once with samples_find_cached(). All
 * others go one by one, in their order, through samples_take(), the slow and complete way: so the result is the same
 * with any number of threads (tests/integration/test_read_cpus.py). One owner (report_workers_free), one thread calls.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct prefetcher;
struct prefetcher_chunk;
struct report_workers;
struct samples;

/* `samples` is borrowed. 0 (*ret is NULL where this process has one CPU) or -ENOMEM. */
int report_workers_new(struct samples *samples, struct report_workers **ret);
void report_workers_free(struct report_workers *workers); /* NULL is fine */

/* For prefetcher_start(). NULL is fine. */
unsigned report_workers_nr(const struct report_workers *workers);

/* Of prefetcher_span_begin(). */
struct report_run {
	const struct prefetcher_chunk *chunks;
	size_t nr;
};

/* samples_take() for all samples of a run. Returns their number, or the error of samples_take(). */
int64_t report_workers_take(struct report_workers *workers, struct prefetcher *prefetcher, struct report_run run);

/* Adds the counts to the tallies: to be called before these are read, and before samples_count(). NULL is fine. */
void report_workers_join(struct report_workers *workers);
