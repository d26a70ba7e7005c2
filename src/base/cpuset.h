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
void cpuset_remove(struct cpuset *set, unsigned cpu);
bool cpuset_has(const struct cpuset *set, unsigned cpu);
unsigned cpuset_count(const struct cpuset *set);
bool cpuset_equal(const struct cpuset *a, const struct cpuset *b);

/* The lowest member >= from, or -1: for (int c = cpuset_next(s, 0); c >= 0; c = cpuset_next(s, c + 1)) */
int cpuset_next(const struct cpuset *set, int from);

/* Adds the members of a list such as "0-3,7" (a trailing newline is fine). -EINVAL for anything else. */
int cpuset_parse(struct cpuset *set, const char *list);

/* Appends the list form, "0-3,7". */
void cpuset_format(const struct cpuset *set, struct buf *ret);

/*
 * Adds the CPUs that are online, or possible, on this machine, as sysfs lists them; without sysfs the CPUs from 0 up to
 * the number that sysconf(3) returns. 0 or -ENOMEM.
 */
int cpuset_online(struct cpuset *set);
int cpuset_possible(struct cpuset *set);

/* Adds the CPUs that the calling thread may run on. 0, -ENOMEM or -errno of sched_getaffinity(2). */
int cpuset_allowed(struct cpuset *set);

/* The number of CPUs that cpuset_allowed() adds; at least 1, also when it cannot be found out. */
unsigned cpuset_count_allowed(void);

/*
 * Sets the CPU affinity of the calling thread; the kernel removes CPUs that its cpuset(7) does not allow. 0; on -ENOMEM
 * or -errno of sched_setaffinity(2) (-EINVAL: no allowed CPU is left) the affinity is unchanged.
 */
int cpuset_run_on(const struct cpuset *set);

/*
 * The calling thread goes from its present CPU to another one of the set, on all of which it may run afterwards. No
 * allocation. 0; -ENOENT: there is no other one; -errno of sched_setaffinity(2).
 */
int cpuset_leave_cpu(struct cpuset *set);
