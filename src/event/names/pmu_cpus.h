/* SPDX-License-Identifier: MIT */
/* pmu_cpus: on which CPUs a PMU counts, as sysfs says. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpuset;

/*
 * The CPUs that events of this type (attr.type) are opened on, where its PMU counts on some CPUs only: those of its
 * file `cpumask`, or `cpus`. Into *ret, which is empty. false: it counts on all that are online, or does not say, or
 * there is no such PMU. `sources`: as for pmu_open().
 */
bool pmu_find_cpus(const char *sources, uint32_t type, struct cpuset *ret);
