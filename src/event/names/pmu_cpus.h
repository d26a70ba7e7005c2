/* SPDX-License-Identifier: MIT */
/* pmu_cpus: on which CPUs a PMU counts, as sysfs says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cpuset;

/*
 * The CPUs that events of this type (attr.type) are opened on, where its PMU counts on some CPUs only: those of its
 * file `cpumask`, or `cpus`. Into *ret, which is empty. false: it counts on all that are online, or does not say, or
 * there is no such PMU. `sources`: as for pmu_open().
 */
bool pmu_find_cpus(const char *sources, uint32_t type, struct cpuset *ret);

/*
 * The PMUs of the cores of a processor that has several kinds of them, by their types: as in perf those called "cpu_…"
 * that have CPUs in their file `cpus`. How many there are.
 */
enum { CORE_PMUS_MAX = 8, CORE_PMU_NAME_BYTES = 32 };
struct core_pmu {
	char name[CORE_PMU_NAME_BYTES];
	uint32_t type;
};
size_t pmu_find_cores(const char *sources, struct core_pmu ret[CORE_PMUS_MAX]);
