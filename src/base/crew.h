/* SPDX-License-Identifier: MIT */
/*
 * crew: threads that do the parts of a job side by side with the thread that has the job, and with a guest: a thread that
 * has work of its own and helps when it must wait. One owner (crew_free), used by one thread at a time but for crew_help().
 */
#pragma once

#include <stdbool.h>

struct crew;

/* One part of a job; `hand`: who does it, below the nr_hands of crew_new(); 0: the caller of crew_finish(), 1: the guest. */
typedef void crew_part(void *of, unsigned hand, unsigned part);

/* As many hands as there are CPUs for this thread, within reason; at least 1. */
unsigned crew_useful(void);

/*
 * `nr_hands`, the caller's and the guest's among them, at least 1; threads that cannot be had, and a guest who does not
 * come, are done without. 0 or -ENOMEM.
 */
int crew_new(unsigned nr_hands, struct crew **ret);
void crew_free(struct crew *crew); /* NULL is fine */

/*
 * A job: parts 0 to nr_parts - 1, each done once, begun in ascending order by whoever is free. From here to crew_finish(),
 * which does its share and returns when all are done, others may join. A thread that gets no CPU in time holds nobody up:
 * then the others do them all. What the caller did before is seen by all parts, and what those did by the caller. Not
 * from within a part.
 */
void crew_begin(struct crew *crew, crew_part *part, void *of, unsigned nr_parts);
void crew_finish(struct crew *crew);

/* By the guest, at any time: does parts until none is left to begin. false: there was none. */
bool crew_help(struct crew *crew);
