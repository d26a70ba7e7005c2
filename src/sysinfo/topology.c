/* SPDX-License-Identifier: MIT */
#include "sysinfo/topology.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"

#define AUTO_CPUSET __attribute__((cleanup(cpuset_fini)))

enum { LIST_MAX_BYTES = 1 << 20 }; /* every second of 65536 CPUs: 380 KB */

void topology_fini(struct topology *topology)
{
	for (int level = 0; level < TOPOLOGY_NR_LEVELS; level++) {
		struct topology_groups *groups = &topology->levels[level];
		for (size_t i = 0; i < groups->nr_groups; i++)
			cpuset_fini(&groups->groups[i]);
		free(groups->groups);
	}
	cpuset_fini(&topology->online);
	cpuset_fini(&topology->present);
	*topology = (struct topology){0};
}

static const struct cpuset *find_group(const struct topology_groups *groups, unsigned cpu)
{
	for (size_t i = 0; i < groups->nr_groups; i++)
		if (cpuset_has(&groups->groups[i], cpu))
			return &groups->groups[i];
	return NULL;
}

const struct cpuset *topology_group(const struct topology *topology, enum topology_level level, unsigned cpu)
{
	return find_group(&topology->levels[level], cpu);
}

/* Adds the members of `cpus` that are online and in no group yet, if any, as one more group. */
static int add_group(struct topology *topology, enum topology_level level, const struct cpuset *cpus)
{
	struct topology_groups *groups = &topology->levels[level];
	AUTO_CPUSET struct cpuset group = {0};

	for (int cpu = cpuset_next(cpus, 0); cpu >= 0; cpu = cpuset_next(cpus, cpu + 1)) {
		if (!cpuset_has(&topology->online, (unsigned)cpu) || find_group(groups, (unsigned)cpu))
			continue;
		int err = cpuset_add(&group, (unsigned)cpu);
		if (err)
			return err;
	}
	if (!cpuset_count(&group))
		return 0;
	struct cpuset *grown = realloc(groups->groups, (groups->nr_groups + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	groups->groups = grown;
	grown[groups->nr_groups++] = group;
	group = (struct cpuset){0};
	return 0;
}

/*
 * 0, -ENOMEM, -EBADMSG for what is no list, or why it cannot be read. A list may be empty: a node of memory only.
 */
static int read_list(const char *path, struct cpuset *ret)
{
	AUTO_BUF struct buf text = {0};
	AUTO_CPUSET struct cpuset set = {0};
	int err = fd_slurp(path, LIST_MAX_BYTES, &text);

	if (err)
		return err;
	if (!text.len || strcmp(buf_text(&text), "\n") == 0)
		return 0;
	err = cpuset_parse(&set, buf_text(&text));
	if (err)
		return err == -ENOMEM ? err : -EBADMSG;
	*ret = set;
	set = (struct cpuset){0};
	return 0;
}

/* The list of CPUs that share core or package with the CPU, under its name of today or the deprecated one. */
static int read_siblings(const char *sysfs, unsigned cpu, const char *const names[2], struct cpuset *ret)
{
	int err = -ENOENT;

	for (int i = 0; i < 2 && err && err != -ENOMEM; i++) {
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/topology/%s", sysfs, cpu, names[i]);
		err = read_list(path, ret);
	}
	/* A list without the CPU itself says nothing of it. */
	if (!err && !cpuset_has(ret, cpu))
		err = -EBADMSG;
	return err;
}

/* Cores or packages. Asks only CPUs that no sibling has named yet. */
static int read_level(const char *sysfs, struct topology *topology, enum topology_level level,
		      const char *const names[2])
{
	const struct cpuset *online = &topology->online;

	for (int cpu = cpuset_next(online, 0); cpu >= 0; cpu = cpuset_next(online, cpu + 1)) {
		AUTO_CPUSET struct cpuset siblings = {0};
		if (topology_group(topology, level, (unsigned)cpu))
			continue;
		int err = read_siblings(sysfs, (unsigned)cpu, names, &siblings);
		if (!err)
			err = add_group(topology, level, &siblings);
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}

/* What sysfs does not tell of: each CPU by itself, or all of them together. */
static int add_rest(struct topology *topology, enum topology_level level)
{
	static const char *const names[] = {"core", "package", "NUMA node"};
	AUTO_BUF struct buf text = {0};
	AUTO_CPUSET struct cpuset rest = {0};
	const struct cpuset *online = &topology->online;
	int err = 0;

	for (int cpu = cpuset_next(online, 0); cpu >= 0 && !err; cpu = cpuset_next(online, cpu + 1)) {
		AUTO_CPUSET struct cpuset alone = {0};
		if (topology_group(topology, level, (unsigned)cpu))
			continue;
		err = cpuset_add(&rest, (unsigned)cpu);
		if (!err && level == TOPOLOGY_CORE)
			err = cpuset_add(&alone, (unsigned)cpu);
		if (!err)
			err = add_group(topology, level, &alone);
	}
	if (!err)
		err = add_group(topology, level, &rest);
	if (err || !cpuset_count(&rest))
		return err;
	cpuset_format(&rest, &text);
	log_verbose("sysfs does not have the %s of CPU %s: %s", names[level], buf_text(&text),
		    level == TOPOLOGY_CORE ? "each counts as a core of its own" : "taken together as one");
	return 0;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static bool is_node_name(const char *name)
{
	return strncmp(name, "node", 4) == 0 && name[4] && strspn(name + 4, "0123456789") == strlen(name + 4);
}

static int read_nodes(const char *sysfs, struct topology *topology)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/devices/system/node", sysfs);
	__attribute__((cleanup(close_dir))) DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		AUTO_CPUSET struct cpuset cpus = {0};
		if (!is_node_name(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/devices/system/node/%s/cpulist", sysfs, entry->d_name);
		int err = read_list(path, &cpus);
		if (!err)
			err = add_group(topology, TOPOLOGY_NODE, &cpus);
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}

/* Which CPUs there are. Without sysfs, libc is asked; without `present`, what is online. */
static int read_cpus(const char *sysfs, struct topology *topology, struct diag *reterr)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/devices/system/cpu/online", sysfs);
	int err = read_list(path, &topology->online);
	if (err == -EBADMSG)
		return diag_set(reterr, err, "%s: not a list of CPUs", path);
	if (err != -ENOMEM && !cpuset_count(&topology->online))
		err = cpuset_online(&topology->online);
	snprintf(path, sizeof(path), "%s/devices/system/cpu/present", sysfs);
	if (!err && read_list(path, &topology->present) == -ENOMEM)
		err = -ENOMEM;
	return err ? diag_set(reterr, err, "CPU topology: %s", strerror(-err)) : 0;
}

int topology_read(const char *sysfs, struct topology *ret, struct diag *reterr)
{
	static const char *const cores[] = {"core_cpus_list", "thread_siblings_list"};
	static const char *const packages[] = {"package_cpus_list", "core_siblings_list"};
	__attribute__((cleanup(topology_fini))) struct topology topology = {0};
	int err = read_cpus(sysfs, &topology, reterr);

	if (err)
		return err;
	err = read_level(sysfs, &topology, TOPOLOGY_CORE, cores);
	if (!err)
		err = read_level(sysfs, &topology, TOPOLOGY_PACKAGE, packages);
	if (!err)
		err = read_nodes(sysfs, &topology);
	for (int level = 0; level < TOPOLOGY_NR_LEVELS && !err; level++)
		err = add_rest(&topology, (enum topology_level)level);
	if (err)
		return diag_set(reterr, err, "CPU topology: %s", strerror(-err));
	*ret = topology;
	topology = (struct topology){0};
	return 0;
}
