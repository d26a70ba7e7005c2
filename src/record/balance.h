/* SPDX-License-Identifier: MIT */
/*
 * balance: which rings should go to another thread, for their own has too much to do while the other has little. Part of the governor:
 * what was seen goes in, one move at most comes out. One thread.
 *
 * A thread has too much to do when it found rings nearly full in two windows of time, with less than four seconds between, and was on
 * a CPU, or waited for one, most of the time. One that hardly ran is not helped by having fewer rings: it waits as long for its CPU.
 * Rings go where the busier of the two threads is much less busy afterwards. Then nothing is
 * decided before two more windows have shown what came of it, and those rings stay for a long time, each time twice as long.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where CPUs are; -1: not known, or in several. */
struct balance_place {
	int node, package;
};

struct balance_thread {
	uint64_t cpu_ns;   /* that it ran so far */
	uint64_t busy_ns;  /* that it ran, or waited for a CPU */
	uint64_t nr_tight; /* visits so far that found a ring nearly full */
	struct balance_place place;
};

struct balance_ring {
	uint64_t bytes; /* that came out of it so far */
	size_t thread;  /* that has it */
	bool stays;     /* it is not to be moved */
	struct balance_place place;
};

struct balance_sight {
	const struct balance_thread *threads;
	size_t nr_threads;
	const struct balance_ring *rings;
	size_t nr_rings;
	bool moving; /* some are on their way */
};

struct balance_move {
	const size_t *rings; /* until the next decision */
	size_t nr_rings;
	size_t from, to;
	double busy_from, busy_to; /* parts of their time, before it */
};

struct balance {
	struct balance_seen *threads; /* heap */
	struct balance_rest *rings;   /* heap */
	size_t *chosen;               /* heap */
	uint64_t from_ns; /* of this window; 0: nobody has too much to do, and nobody looks */
	uint64_t nr_tight; /* of all threads, when the window began, or nobody looked */
	unsigned nr_calm; /* windows in a row in which nobody found a ring nearly full */
	uint64_t next_ns; /* when it wants to see again; UINT64_MAX: not before somebody finds a ring nearly full */
};

int balance_init(struct balance *balance, size_t nr_threads, size_t nr_rings); /* 0 or -ENOMEM */
void balance_fini(struct balance *balance); /* zeroed is fine */

/* Is there anything to look at? For whoever has to ask the kernel how busy threads are. */
bool balance_wants(const struct balance *balance, uint64_t now_ns, uint64_t nr_tight);

/* now_ns: CLOCK_MONOTONIC. */
bool balance_decide(struct balance *balance, uint64_t now_ns, const struct balance_sight *sight, struct balance_move *ret);
