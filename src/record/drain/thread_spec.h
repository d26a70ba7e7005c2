/* SPDX-License-Identifier: MIT */
/*
 * thread_spec: the words of --threads=SPEC made into a layout: which thread drains the rings of which CPUs,
 * and where it may run. Pure: nothing is opened or started here. Owned by the caller (thread_layout_fini);
 * read-only once made.
 *
 * SPEC (letters in either case):
 *   cpu, or nothing       a thread for each recorded CPU
 *   core                  a thread for the CPUs of each core
 *   package, socket       … of each package
 *   numa                  … of each NUMA node
 *   CPUS/AFFINITY[:…]     a thread for each mask: drains CPUS, runs on AFFINITY; lists such as 0,2-4
 *
 * Of the CPUs to drain only those count that are recorded (-C); a thread that has none left is left out.
 * Affinity is not narrowed by -C: it says where the recorder works, and the best place may well be a CPU that
 * is not measured.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/cpuset.h"

struct diag;
struct plan_ring;
struct topology;

struct thread_place {
	struct cpuset maps;     /* drains the rings of these CPUs */
	struct cpuset affinity; /* may run on these; never empty. The kernel cuts it to the caller's cpuset
				   (EINVAL when nothing is left: then the thread stays where it is allowed) */
};

struct thread_layout {
	struct thread_place *threads; /* heap; ordered by the first CPU of maps; no CPU is in two maps */
	size_t nr_threads;            /* at least 1 */
};

/*
 * `cpus`: those that have rings; each is in the maps of exactly one thread of the result. NULL when the rings
 * belong to tasks (--per-thread): SPEC then says only how many threads there are and where they run, maps are
 * of no interest.
 *
 * A recording by task that has a ring for each CPU (-p, -t, a command) passes its CPUs just as -a does.
 *
 * 0, -ENOMEM, or -EINVAL with the offending part and its column: a word or mask that is none, CPUs that are
 * offline or do not exist, masks that overlap in CPUS or in AFFINITY, recorded CPUs that no mask covers.
 */
int thread_spec_resolve(const char *spec, const struct cpuset *cpus, const struct topology *topology,
			struct thread_layout *ret, struct diag *reterr);
/*
 * Where the number is not given: a thread for at most so many CPUs, all of one NUMA node, on which it runs. `cpus` is
 * not empty. 0 or -ENOMEM.
 */
int thread_layout_divide(const struct cpuset *cpus, unsigned most, const struct topology *topology,
			 struct thread_layout *ret);

void thread_layout_fini(struct thread_layout *layout);

/* The thread that drains the ring of this CPU; -1: none. */
ssize_t thread_layout_by_cpu(const struct thread_layout *layout, unsigned cpu);

/* The same for a ring of no CPU (--per-thread), by its index: round robin. */
size_t thread_layout_by_ring(const struct thread_layout *layout, size_t ring);

/* The thread that drains this ring; 0 without a layout, where one drains all. */
size_t thread_layout_of_ring(const struct thread_layout *layout, const struct plan_ring *ring);

/* Drops the threads that round robin leaves without a ring; one always stays. */
void thread_layout_trim(struct thread_layout *layout, size_t nr_rings);
