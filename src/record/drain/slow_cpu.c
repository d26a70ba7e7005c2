/* SPDX-License-Identifier: MIT */
#include "record/drain/slow_cpu.h"

static const uint64_t shortest_ns = 50000000, longest_ns = 3200000000;

bool slow_cpu_look(struct slow_cpu *slow, uint64_t now_ns, uint64_t cpu_ns, uint64_t nr_late)
{
	const uint64_t passed_ns = now_ns - slow->looked_ns, used_ns = cpu_ns - slow->cpu_ns;
	const bool leave = slow->looked_ns && nr_late != slow->nr_late && used_ns >= passed_ns / 10 * 9;

	slow->pause_ns = leave ? 2 * slow->pause_ns : shortest_ns;
	if (slow->pause_ns > longest_ns)
		slow->pause_ns = longest_ns;
	slow->looked_ns = now_ns;
	slow->next_ns = now_ns + slow->pause_ns;
	slow->cpu_ns = cpu_ns;
	slow->nr_late = nr_late;
	return leave;
}
