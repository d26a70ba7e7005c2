/* SPDX-License-Identifier: MIT */
/*
 * slow_cpu: whether a thread that drains should go on on another one of its CPUs. The scheduler takes no real-time
 * thread off a CPU that does little for it: one of a slower kind, or from which a hypervisor or interrupts take much.
 * Private to record/drain. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slow_cpu {
	/* At the last look: CLOCK_MONOTONIC (0: none yet), CPU time of the thread, visits to rings that were late. */
	uint64_t looked_ns, cpu_ns, nr_late;
	uint64_t next_ns, pause_ns; /* when the next look is due; between the last two */
};

/* CLOCK_MONOTONIC. Most often false. */
static inline bool slow_cpu_is_due(const struct slow_cpu *slow, uint64_t now_ns)
{
	return now_ns >= slow->next_ns;
}

/*
 * A look. True: since the last one the thread has used all of its CPU, and still came late. Where it does not help to
 * go elsewhere that is true less and less often.
 */
bool slow_cpu_look(struct slow_cpu *slow, uint64_t now_ns, uint64_t cpu_ns, uint64_t nr_late);
