/* SPDX-License-Identifier: MIT */
/* cpuset: a set of CPU numbers of any size. One owner (cpuset_fini), one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum { CPUSET_MAX_CPUS = 65536 }; /* larger numbers in input are refused */

struct cpuset {
	uint64_t *words;
	unsigned nr_words;
};

void cpuset_fini(struct cpuset *set);

/* 0, -ENOMEM, or -ERANGE for cpu >= CPUSET_MAX_CPUS. */
int cpuset_add(struct cpuset *set, unsigned cpu);
bool cpuset_has(const struct cpuset *set, unsigned cpu);
unsigned cpuset_count(const struct cpuset *set);

/* The lowest member >= from, or -1: for (int c = cpuset_next(s, 0); c >= 0; c = cpuset_next(s, c + 1)) */
int cpuset_next(const struct cpuset *set, int from);

/* Adds the members of a list such as "0-3,7" (a trailing newline is fine). -EINVAL for anything else. */
int cpuset_parse(struct cpuset *set, const char *list);

/* Appends the list form, "0-3,7". */
void cpuset_format(const struct cpuset *set, struct buf *ret);

/* What the kernel says of this machine; cpu0..sysconf() when sysfs is not there. */
int cpuset_online(struct cpuset *set);
int cpuset_possible(struct cpuset *set);

/* Where the calling thread may run. 0, -ENOMEM or -errno of sched_getaffinity(2). */
int cpuset_allowed(struct cpuset *set);

/* How many those are; at least 1, also where it is not known. */
unsigned cpuset_count_allowed(void);

/*
 * The calling thread runs on those from now on, as far as its cpuset(7) lets it; where nothing is left it stays where
 * it was. -ENOMEM or -errno of sched_setaffinity(2).
 */
int cpuset_run_on(const struct cpuset *set);
