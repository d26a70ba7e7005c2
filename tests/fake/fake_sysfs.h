/* SPDX-License-Identifier: MIT */
/* fake_sysfs: the CPU and node files of a machine of any shape, in a temporary directory. */
#pragma once

#include <stdbool.h>

struct fake_shape {
	unsigned nr_cpus;
	unsigned nr_packages, nr_nodes; /* each a run of cores */
	bool smt;                       /* two CPUs a core */
	bool far_siblings;              /* … n and n + nr_cpus/2; else neighbours */
	const char *offline;            /* a list; NULL: none */
};

struct fake_sysfs {
	char root[64];
};

/* Each ends the program when it cannot. */
void fake_sysfs_init(struct fake_sysfs *fake, const struct fake_shape *shape);
void fake_sysfs_put(const struct fake_sysfs *fake, const char *path, const char *text); /* path: below the root */
void fake_sysfs_remove(const struct fake_sysfs *fake, const char *path);                /* a file or a whole tree */
void fake_sysfs_fini(struct fake_sysfs *fake);
