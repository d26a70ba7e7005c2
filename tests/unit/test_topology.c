/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "sysinfo/topology.h"
#include "tests/fake/fake_sysfs.h"

/* "0-1 2-3": the groups of a level, in the order of their first CPU. */
static void assert_groups(const struct topology *topology, enum topology_level level, const char *expected)
{
	const struct topology_groups *groups = &topology->levels[level];
	const struct cpuset *online = &topology->online;
	struct buf text = {0};
	size_t nr = 0;

	for (int cpu = cpuset_next(online, 0); cpu >= 0; cpu = cpuset_next(online, cpu + 1)) {
		const struct cpuset *group = topology_group(topology, level, (unsigned)cpu);
		assert_non_null(group);
		if (cpuset_next(group, 0) != cpu)
			continue;
		buf_put_text(&text, nr++ ? " " : "");
		cpuset_format(group, &text);
	}
	assert_string_equal(buf_text(&text), expected);
	assert_int_equal(groups->nr_groups, nr);
	buf_fini(&text);
}

static void read_ok(const struct fake_sysfs *fake, struct topology *ret)
{
	struct diag why = {""};

	if (topology_read(fake->root, ret, &why))
		fail_msg("%s", why.text);
}

static const struct fake_shape eight = {.nr_cpus = 8, .nr_packages = 2, .nr_nodes = 2, .smt = true};

static void eight_cpus_in_two_sockets(void **state)
{
	struct fake_sysfs fake;
	struct topology topology;

	(void)state;
	fake_sysfs_init(&fake, &eight);
	read_ok(&fake, &topology);
	assert_groups(&topology, TOPOLOGY_CORE, "0-1 2-3 4-5 6-7");
	assert_groups(&topology, TOPOLOGY_PACKAGE, "0-3 4-7");
	assert_groups(&topology, TOPOLOGY_NODE, "0-3 4-7");
	assert_null(topology_group(&topology, TOPOLOGY_CORE, 8));
	topology_fini(&topology);
	fake_sysfs_fini(&fake);
}

static void sixty_four_cpus_in_four_nodes(void **state)
{
	const struct fake_shape shape = {
		.nr_cpus = 64, .nr_packages = 2, .nr_nodes = 4, .smt = true, .far_siblings = true};
	struct fake_sysfs fake;
	struct topology topology;

	(void)state;
	fake_sysfs_init(&fake, &shape);
	read_ok(&fake, &topology);
	assert_int_equal(topology.levels[TOPOLOGY_CORE].nr_groups, 32);
	assert_true(cpuset_has(topology_group(&topology, TOPOLOGY_CORE, 7), 39));
	assert_int_equal(cpuset_count(topology_group(&topology, TOPOLOGY_CORE, 7)), 2);
	assert_groups(&topology, TOPOLOGY_PACKAGE, "0-15,32-47 16-31,48-63");
	assert_groups(&topology, TOPOLOGY_NODE, "0-7,32-39 8-15,40-47 16-23,48-55 24-31,56-63");
	topology_fini(&topology);
	fake_sysfs_fini(&fake);
}

static void offline_cpus_are_in_no_group(void **state)
{
	struct fake_shape shape = eight;
	struct fake_sysfs fake;
	struct topology topology;

	(void)state;
	shape.offline = "0,3,6-7";
	fake_sysfs_init(&fake, &shape);
	/* A node that still lists an offline CPU, and one with memory only. */
	fake_sysfs_put(&fake, "devices/system/node/node1/cpulist", "4-7\n");
	fake_sysfs_put(&fake, "devices/system/node/node12/cpulist", "\n");
	fake_sysfs_put(&fake, "devices/system/node/nodes/cpulist", "1,4\n");
	read_ok(&fake, &topology);
	assert_groups(&topology, TOPOLOGY_CORE, "1 2 4-5");
	assert_groups(&topology, TOPOLOGY_PACKAGE, "1-2 4-5");
	assert_groups(&topology, TOPOLOGY_NODE, "1-2 4-5");
	assert_null(topology_group(&topology, TOPOLOGY_NODE, 6));
	assert_true(cpuset_has(&topology.present, 6));
	topology_fini(&topology);
	fake_sysfs_fini(&fake);
}

static void the_old_names_will_do(void **state)
{
	struct fake_sysfs fake;
	struct topology topology;

	(void)state;
	fake_sysfs_init(&fake, &eight);
	for (int cpu = 0; cpu < 8; cpu++) {
		char path[80];
		snprintf(path, sizeof(path), "devices/system/cpu/cpu%d/topology/core_cpus_list", cpu);
		fake_sysfs_remove(&fake, path);
		snprintf(path, sizeof(path), "devices/system/cpu/cpu%d/topology/package_cpus_list", cpu);
		fake_sysfs_remove(&fake, path);
	}
	read_ok(&fake, &topology);
	assert_groups(&topology, TOPOLOGY_CORE, "0-1 2-3 4-5 6-7");
	assert_groups(&topology, TOPOLOGY_PACKAGE, "0-3 4-7");
	topology_fini(&topology);
	fake_sysfs_fini(&fake);
}

static void what_is_missing_is_simple(void **state)
{
	struct fake_sysfs fake;
	struct topology topology;

	(void)state;
	fake_sysfs_init(&fake, &eight);
	fake_sysfs_remove(&fake, "devices/system/node");
	fake_sysfs_remove(&fake, "devices/system/cpu/cpu2");
	fake_sysfs_remove(&fake, "devices/system/cpu/cpu3");
	fake_sysfs_remove(&fake, "devices/system/cpu/cpu0/topology");
	read_ok(&fake, &topology);
	/* CPU 1 still tells of its sibling, CPU 0; of CPUs 2 and 3 only their package is known. */
	assert_groups(&topology, TOPOLOGY_CORE, "0-1 2 3 4-5 6-7");
	assert_groups(&topology, TOPOLOGY_PACKAGE, "0-3 4-7");
	assert_groups(&topology, TOPOLOGY_NODE, "0-7");
	topology_fini(&topology);

	fake_sysfs_remove(&fake, "devices/system/cpu");
	fake_sysfs_put(&fake, "devices/system/cpu/online", "0-2,5\n");
	read_ok(&fake, &topology);
	assert_groups(&topology, TOPOLOGY_CORE, "0 1 2 5");
	assert_groups(&topology, TOPOLOGY_PACKAGE, "0-2,5");
	assert_groups(&topology, TOPOLOGY_NODE, "0-2,5");
	topology_fini(&topology);
	fake_sysfs_fini(&fake);
}

static void without_sysfs_libc_is_asked(void **state)
{
	struct cpuset online = {0};
	struct topology topology;
	struct diag why;

	(void)state;
	assert_int_equal(cpuset_online(&online), 0);
	assert_int_equal(topology_read("/nonexistent", &topology, &why), 0);
	assert_int_equal(cpuset_count(&topology.online), cpuset_count(&online));
	assert_int_equal(topology.levels[TOPOLOGY_CORE].nr_groups, cpuset_count(&online));
	assert_int_equal(topology.levels[TOPOLOGY_PACKAGE].nr_groups, 1);
	assert_int_equal(topology.levels[TOPOLOGY_NODE].nr_groups, 1);
	topology_fini(&topology);
	cpuset_fini(&online);
}

static void contradictions_still_give_a_partition(void **state)
{
	struct fake_sysfs fake;
	struct topology topology;
	struct diag why;

	(void)state;
	fake_sysfs_init(&fake, &eight);
	fake_sysfs_put(&fake, "devices/system/cpu/cpu0/topology/core_cpus_list", "0-2,99\n");
	fake_sysfs_put(&fake, "devices/system/cpu/cpu4/topology/core_cpus_list",
		       "6\n"); /* not itself; CPU 5 names it */
	fake_sysfs_put(&fake, "devices/system/cpu/cpu4/topology/thread_siblings_list", "\n"); /* nor here */
	fake_sysfs_put(&fake, "devices/system/cpu/cpu6/topology/package_cpus_list", "nonsense\n");
	fake_sysfs_put(&fake, "devices/system/node/node0/cpulist", "0-3\n");
	fake_sysfs_put(&fake, "devices/system/node/node1/cpulist", "5-6\n");
	read_ok(&fake, &topology);
	assert_groups(&topology, TOPOLOGY_CORE, "0-2 3 4-5 6-7");
	assert_groups(&topology, TOPOLOGY_PACKAGE, "0-3 4-7");
	assert_groups(&topology, TOPOLOGY_NODE, "0-3 4,7 5-6");
	topology_fini(&topology);

	fake_sysfs_put(&fake, "devices/system/cpu/online", "0-x\n");
	assert_int_equal(topology_read(fake.root, &topology, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "cpu/online: not a list of CPUs"));
	fake_sysfs_fini(&fake);
}

static void what_is_allowed_is_each_cpu_and_no_more(void **state)
{
	struct cpuset all = {0};

	(void)state;
	assert_int_equal(cpuset_allowed(&all), 0);
	for (int cpu = cpuset_next(&all, 0); cpu >= 0; cpu = cpuset_next(&all, cpu + 1)) {
		struct cpuset one = {0}, found = {0};
		assert_int_equal(cpuset_add(&one, (unsigned)cpu), 0);
		assert_int_equal(cpuset_run_on(&one), 0);
		assert_int_equal(cpuset_count_allowed(), 1);
		assert_int_equal(cpuset_allowed(&found), 0);
		assert_true(cpuset_has(&found, (unsigned)cpu));
		assert_int_equal(cpuset_run_on(&all), 0);
		assert_int_equal(cpuset_count_allowed(), cpuset_count(&all));
		cpuset_fini(&one);
		cpuset_fini(&found);
	}
	cpuset_fini(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_cpus_in_two_sockets),
		cmocka_unit_test(sixty_four_cpus_in_four_nodes),
		cmocka_unit_test(offline_cpus_are_in_no_group),
		cmocka_unit_test(the_old_names_will_do),
		cmocka_unit_test(what_is_missing_is_simple),
		cmocka_unit_test(without_sysfs_libc_is_asked),
		cmocka_unit_test(contradictions_still_give_a_partition),
		cmocka_unit_test(what_is_allowed_is_each_cpu_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
