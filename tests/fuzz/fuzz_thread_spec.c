/* SPDX-License-Identifier: MIT */
/* --threads=SPEC. A layout that is accepted drains each recorded CPU once. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "fuzz.h"
#include "record/drain/thread_spec.h"
#include "sysinfo/topology.h"

enum { NR_CPUS = 70 }; /* two words of a set; CPU 66 is offline */

static void check_layout(const struct thread_layout *layout, const struct cpuset *cpus)
{
	unsigned drained = 0;

	if (!layout->nr_threads)
		abort();
	for (size_t i = 0; i < layout->nr_threads; i++) {
		drained += cpuset_count(&layout->threads[i].maps);
		if (!cpuset_count(&layout->threads[i].maps) || !cpuset_count(&layout->threads[i].affinity))
			abort();
	}
	if (drained != cpuset_count(cpus))
		abort();
	for (int cpu = cpuset_next(cpus, 0); cpu >= 0; cpu = cpuset_next(cpus, cpu + 1))
		if (thread_layout_by_cpu(layout, (unsigned)cpu) < 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *spec = strndup(size ? (const char *)data : "", size);
	struct topology topology = {0}; /* no groups: each CPU gets a thread of its own */
	struct cpuset some = {0};
	struct thread_layout layout;
	struct diag why = {""};

	for (unsigned cpu = 0; cpu < NR_CPUS; cpu++)
		if (cpu != 66 && cpuset_add(&topology.online, cpu))
			abort();
	if (!spec || cpuset_add(&topology.present, 66) || cpuset_add(&some, 2) || cpuset_add(&some, 65))
		abort();
	const struct cpuset *const choices[] = {&topology.online, &some};
	for (int i = 0; i < 2; i++) {
		if (thread_spec_resolve(spec, choices[i], &topology, &layout, &why)) {
			if (!why.text[0])
				abort();
			continue;
		}
		check_layout(&layout, choices[i]);
		thread_layout_fini(&layout);
	}
	cpuset_fini(&some);
	topology_fini(&topology);
	return 0;
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	static const char *const seeds[] = {
		"",          "core",          "0-65,67-69/3", "0-2/0:3-65/1:67-69/2",
		"2,65/0-69", "2/69:65/0-3,7", "66/0",         "0-99999999999/1",
	};

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return false;
	buf_put_text(out, seeds[number]);
	return true;
}
