/* SPDX-License-Identifier: MIT */
/*
 * thread_spec: makes a layout from --threads=SPEC: which thread drains the rings of which CPUs, and on which CPUs it
 * may run. Pure: nothing is opened or started here. Owned by the caller (thread_layout_fini); read-only once made, then
 * any thread.
 *
 * SPEC (letters in either case):
 *   cpu, or nothing       a thread for each recorded CPU
 *   core                  a thread for the CPUs of each core
 *   package, socket       … of each package
 *   numa                  … of each NUMA node
 *   CPUS/AFFINITY[:…]     a thread for each mask: drains CPUS, runs on AFFINITY; lists such as 0,2-4
 *
 * CPUs that are not recorded (-C) are removed from CPUS; a thread without a CPU to drain is left out. AFFINITY is not
 * limited by -C: the recorder may well work best on a CPU that is not recorded.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/cpuset.h"

struct diag;
struct plan_ring;
struct topology;

struct thread_place {
	struct cpuset maps; /* drains the rings of these CPUs */
	/*
	 * may run on these; never empty. The kernel removes CPUs outside the process's cpuset(7); if none is left
	 * (EINVAL) the thread keeps its affinity
	 */
	struct cpuset affinity;
};

struct thread_layout {
	struct thread_place *threads; /* heap; ordered by the first CPU of maps; no CPU is in two maps */
	size_t nr_threads;            /* at least 1 */
	bool divided;                 /* by thread_layout_divide(): no user has asked for these places */
};

/*
 * `cpus`: those that have rings; each is in the maps of exactly one thread of the result. NULL when the rings
 * belong to tasks (--per-thread): SPEC then says only how many threads there are and where they run; maps are
 * not used.
 *
 * A recording by task that has a ring for each CPU (-p, -t, a command) passes its CPUs just as -a does.
 *
 * 0, -ENOMEM, or -EINVAL with the offending part and its column: an unknown word, an invalid mask, CPUs that are
 * offline or do not exist, masks that overlap in CPUS or in AFFINITY, recorded CPUs that no mask covers.
 */
int thread_spec_resolve(const char *spec, const struct cpuset *cpus, const struct topology *topology,
			struct thread_layout *ret, struct diag *reterr);
/*
 * Makes a layout without a SPEC: each thread drains at most `most` CPUs, all of one NUMA node, and
 * runs on these as long as they are not slow.
 * `cpus` is not empty. 0 or -ENOMEM.
 */
int thread_layout_divide(const struct cpuset *cpus, unsigned most, const struct topology *topology,
			 struct thread_layout *ret);

void thread_layout_fini(struct thread_layout *layout);

/* The thread that drains the ring of this CPU; -1: none. */
ssize_t thread_layout_by_cpu(const struct thread_layout *layout, unsigned cpu);

/* The thread that drains a ring of no CPU (--per-thread), by the ring's index: round robin. */
size_t thread_layout_by_ring(const struct thread_layout *layout, size_t ring);

/* The thread that drains this ring; 0 without a layout, where one drains all. */
size_t thread_layout_of_ring(const struct thread_layout *layout, const struct plan_ring *ring);

/* Drops the threads that round robin leaves without a ring; one always stays. */
void thread_layout_trim(struct thread_layout *layout, size_t nr_rings);
