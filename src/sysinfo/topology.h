/* SPDX-License-Identifier: MIT */
/*
 * topology: which online CPUs belong to the same core, package and NUMA node. Read once, before threads start; owned by
 * the caller (topology_fini); read-only afterwards, then any thread.
 *
 * Each level is a partition: every online CPU is in exactly one of its groups, even when sysfs is missing, incomplete
 * or contradicts itself. A CPU whose core is unknown is a core of its own; all CPUs whose package (or node) is unknown
 * form one package (or node). log_verbose() says when that happens.
 *
 * Source: the kernel's Documentation/admin-guide/cputopology.rst and Documentation/ABI/stable/sysfs-devices-node.
 */
#pragma once

#include <stddef.h>

#include "base/cpuset.h"

struct diag;

enum topology_level { TOPOLOGY_CORE, TOPOLOGY_PACKAGE, TOPOLOGY_NODE, TOPOLOGY_NR_LEVELS };

struct topology_groups {
	struct cpuset *groups; /* heap; none is empty */
	size_t nr_groups;
};

struct topology {
	struct cpuset online;
	struct cpuset present; /* online, and those that could be brought online */
	struct topology_groups levels[TOPOLOGY_NR_LEVELS];
};

/*
 * `sysfs`: where sysfs is mounted, "/sys" outside of tests. 0, -ENOMEM, or -EBADMSG: the list of CPUs in sysfs is
 * invalid.
 */
int topology_read(const char *sysfs, struct topology *ret, struct diag *reterr);
void topology_fini(struct topology *topology);

/* The group that holds the CPU; NULL when the CPU is not online. Valid as long as the topology. */
const struct cpuset *topology_group(const struct topology *topology, enum topology_level level, unsigned cpu);
