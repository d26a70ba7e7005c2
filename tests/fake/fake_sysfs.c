/* SPDX-License-Identifier: MIT */
#include "tests/fake/fake_sysfs.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cpuset.h"

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

void fake_sysfs_put(const struct fake_sysfs *fake, const char *path, const char *text)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "%s/%s", fake->root, path);
	for (char *slash = whole + strlen(fake->root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	FILE *file = fopen(whole, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		fail(whole);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

void fake_sysfs_remove(const struct fake_sysfs *fake, const char *path)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "%s/%s", fake->root, path);
	if (nftw(whole, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
		fail(whole);
}

void fake_sysfs_fini(struct fake_sysfs *fake)
{
	fake_sysfs_remove(fake, "");
}

/* Number of the group of this CPU when the cores are cut into nr_groups runs. */
static unsigned run_of(const struct fake_shape *shape, unsigned nr_groups, unsigned cpu)
{
	unsigned nr_cores = shape->smt ? shape->nr_cpus / 2 : shape->nr_cpus;
	unsigned core = !shape->smt ? cpu : shape->far_siblings ? cpu % nr_cores : cpu / 2;

	return core * nr_groups / nr_cores;
}

static void put_set(const struct fake_sysfs *fake, const char *path, const struct cpuset *set)
{
	struct buf text = {0};

	cpuset_format(set, &text);
	buf_put_text(&text, "\n");
	fake_sysfs_put(fake, path, buf_text(&text));
	buf_fini(&text);
}

static void put_run(const struct fake_sysfs *fake, const struct fake_shape *shape, const struct cpuset *online,
		    unsigned nr_groups, unsigned group, const char *path)
{
	struct cpuset set = {0};

	for (unsigned cpu = 0; cpu < shape->nr_cpus; cpu++)
		if (cpuset_has(online, cpu) && run_of(shape, nr_groups, cpu) == group)
			if (cpuset_add(&set, cpu))
				fail(path);
	put_set(fake, path, &set);
	cpuset_fini(&set);
}

static void put_cpu(const struct fake_sysfs *fake, const struct fake_shape *shape, const struct cpuset *online,
		    unsigned cpu)
{
	static const char *const names[][2] = {{"core_cpus_list", "thread_siblings_list"},
					       {"package_cpus_list", "core_siblings_list"}};
	unsigned nr_cores = shape->smt ? shape->nr_cpus / 2 : shape->nr_cpus;
	char path[128];

	for (int i = 0; i < 4; i++) {
		unsigned nr_groups = i < 2 ? nr_cores : shape->nr_packages;
		snprintf(path, sizeof(path), "devices/system/cpu/cpu%u/topology/%s", cpu, names[i / 2][i % 2]);
		put_run(fake, shape, online, nr_groups, run_of(shape, nr_groups, cpu), path);
	}
}

void fake_sysfs_init(struct fake_sysfs *fake, const struct fake_shape *shape)
{
	struct cpuset present = {0}, offline = {0}, online = {0};
	char path[128];

	snprintf(fake->root, sizeof(fake->root), "/tmp/millrace-sysfs-XXXXXX");
	if (!mkdtemp(fake->root))
		fail(fake->root);
	if (shape->offline && cpuset_parse(&offline, shape->offline))
		fail(shape->offline);
	for (unsigned cpu = 0; cpu < shape->nr_cpus; cpu++)
		if (cpuset_add(&present, cpu) || (!cpuset_has(&offline, cpu) && cpuset_add(&online, cpu)))
			fail("cpuset_add");
	put_set(fake, "devices/system/cpu/present", &present);
	put_set(fake, "devices/system/cpu/online", &online);
	for (unsigned cpu = 0; cpu < shape->nr_cpus; cpu++)
		if (cpuset_has(&online, cpu))
			put_cpu(fake, shape, &online, cpu);
	for (unsigned node = 0; node < shape->nr_nodes; node++) {
		snprintf(path, sizeof(path), "devices/system/node/node%u/cpulist", node);
		put_run(fake, shape, &online, shape->nr_nodes, node, path);
	}
	cpuset_fini(&present);
	cpuset_fini(&offline);
	cpuset_fini(&online);
}
