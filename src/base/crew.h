/* SPDX-License-Identifier: MIT */
/*
 * crew: threads that do the parts of a job side by side with the thread that has the job. One owner (crew_free), used by
 * one thread at a time.
 */
#pragma once

struct crew;

/* One part of a job; `hand`: who does it, 0 (the caller of crew_run()) to crew_hands() - 1. */
typedef void crew_part(void *of, unsigned hand, unsigned part);

/* As many hands as there are CPUs for this thread, within reason; at least 1. */
unsigned crew_useful(void);

/*
 * `nr_hands`, the caller's among them, at least 1; threads that cannot be had are done without. 0 or -ENOMEM. With one
 * hand there is no thread: crew_run() is a loop.
 */
int crew_new(unsigned nr_hands, struct crew **ret);
void crew_free(struct crew *crew); /* NULL is fine */

unsigned crew_hands(const struct crew *crew);

/*
 * Does the parts 0 to nr_parts - 1, each once, begun in ascending order by whoever is free; returns when all are done. A
 * thread that gets no CPU in time holds nobody up: then the others do them all. What the caller did before is seen by
 * all parts, and what those did by the caller. Not from within a part.
 */
void crew_run(struct crew *crew, crew_part *part, void *of, unsigned nr_parts);
