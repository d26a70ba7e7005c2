/* SPDX-License-Identifier: MIT */
/*
 * row_makers: threads that make what a sample in a ring could not be unwound without: the table of an object, for which
 * a large file may have to be read, or rows of it. So the next samples can be. Private to record/unwind.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct drained_state;
struct mapped_objects;
struct ring_events;
struct row_makers;
struct unwind_tables;
struct unwinding_event;

struct row_makers_params {
	/* Borrowed: */
	const struct ring_events *events;
	const struct unwinding_event *by_event;
	struct mapped_objects *objects;
	struct unwind_tables *tables;
	struct drained_state *state; /* is told when something was made */
	bool realtime;               /* the threads run with real-time priority where that is allowed */
};

/* It has no threads. 0 or -ENOMEM. */
int row_makers_new(const struct row_makers_params *params, struct row_makers **ret);
int row_makers_start(struct row_makers *makers); /* 0 or -errno */
void row_makers_free(struct row_makers *makers); /* stops them. NULL is fine */

/* A thread takes a copy of the sample, if one has nothing to do. Never waits. Any thread. */
void row_makers_offer(struct row_makers *makers, const uint8_t *sample);
bool row_makers_work(struct row_makers *makers); /* what a thread does; for tests. false: there is no sample */

/* Keeps them from using objects until row_makers_unlock(). false: one uses some now. */
bool row_makers_trylock(struct row_makers *makers);
void row_makers_unlock(struct row_makers *makers);

uint64_t row_makers_cpu_ns(struct row_makers *makers); /* of their threads, since the last call */
