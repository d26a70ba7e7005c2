/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sysinfo/memory.h"
#include "tests/fake/fake_sysfs.h"

#define V2 "26 20 0:22 / /v2 rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define OTHER "24 20 0:20 / /v1 rw - cgroup cgroup rw,cpu\n"

struct file {
	const char *path, *text;
};

static uint64_t available(const struct file *files)
{
	static const struct fake_shape shape = {.nr_cpus = 1, .nr_packages = 1, .nr_nodes = 1};
	struct fake_sysfs fake;

	fake_sysfs_init(&fake, &shape);
	for (; files->path; files++)
		fake_sysfs_put(&fake, files->path, files->text);
	uint64_t ret = memory_available(fake.root);
	fake_sysfs_fini(&fake);
	return ret;
}

#define AVAILABLE(...) available((const struct file[]){__VA_ARGS__, {0}})
#define MEMINFO                                                                                                        \
	{                                                                                                              \
		"proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:   800 kB\n"                            \
	}

static void of_the_machine(void **state)
{
	(void)state;
	assert_int_equal(AVAILABLE(MEMINFO), 800 * 1024);
	assert_int_equal(AVAILABLE({"proc/meminfo", "MemTotal: 900 kB\n"}), 0);
	assert_int_equal(AVAILABLE({"other", ""}), 0);
	assert_int_equal(AVAILABLE(MEMINFO, {"proc/self/cgroup", ""}, {"proc/self/mountinfo", ""}), 800 * 1024);
	assert_int_equal(AVAILABLE(MEMINFO, {"proc/self/cgroup", "x\n1:\n:::\n0::\n"},
				   {"proc/self/mountinfo", "\n - cgroup2\nx y z / /v2 - cgroup2 a b\n" V2}),
			 800 * 1024);
}

/* What files take is taken back by the kernel; groups above count, too. */
static void of_a_container(void **state)
{
	const struct file groups = {"proc/self/cgroup", "3:cpu:/\n0::/a/b\n"},
			  mounts = {"proc/self/mountinfo", OTHER V2};
	const struct file stat = {"v2/a/b/memory.stat",
				  "anon 3\ninactive_anon 5\ninactive_file 1000\nactive_file 500\n"};

	(void)state;
	assert_int_equal(AVAILABLE(MEMINFO, groups, mounts, {"v2/a/b/memory.max", "100000\n"},
				   {"v2/a/b/memory.current", "60000\n"}),
			 40000);
	assert_int_equal(AVAILABLE(MEMINFO, groups, mounts, stat, {"v2/a/b/memory.max", "100000\n"},
				   {"v2/a/b/memory.current", "60000\n"}),
			 41500);
	assert_int_equal(AVAILABLE(MEMINFO, groups, mounts, stat, {"v2/a/b/memory.max", "max\n"},
				   {"v2/a/b/memory.current", "60000\n"}, {"v2/a/memory.max", "70000\n"},
				   {"v2/a/memory.current", "65000\n"}),
			 5000);
	assert_int_equal(
		AVAILABLE(MEMINFO, groups, mounts, {"v2/a/b/memory.max", "100\n"}, {"v2/a/b/memory.current", "200\n"}),
		1);
	assert_int_equal(AVAILABLE(MEMINFO, groups, mounts, {"v2/a/b/memory.max", "9000000\n"},
				   {"v2/a/b/memory.current", "200\n"}),
			 800 * 1024);
	/* A namespace of its own: the mount is what there is. */
	assert_int_equal(AVAILABLE(MEMINFO, {"proc/self/cgroup", "0::/\n"}, mounts, {"v2/memory.max", "1000\n"},
				   {"v2/memory.current", "200\n"}),
			 800);
	assert_int_equal(AVAILABLE(MEMINFO, {"proc/self/cgroup", "0::/../x\n"}, mounts, {"v2/memory.max", "1000\n"},
				   {"v2/memory.current", "200\n"}),
			 800);
}

/* Version 1: the mount shows the tree from the container's group on. */
static void of_a_container_of_version_1(void **state)
{
	const struct file limit = {"v1/memory.limit_in_bytes", "100000\n"},
			  usage = {"v1/memory.usage_in_bytes", "90000\n"};
	const struct file stat = {"v1/memory.stat",
				  "cache 9\ninactive_file 1\ntotal_inactive_file 2\ntotal_active_file 3\n"};
	const struct file groups = {"proc/self/cgroup", "4:cpu,memory:/docker/1\n1:cpu:/x\n0::/\n"};

	(void)state;
	assert_int_equal(AVAILABLE(MEMINFO, groups, limit, usage, stat,
				   {"proc/self/mountinfo", OTHER "25 20 0:21 /docker/1 /v1 rw - cgroup c rw,memory\n"}),
			 10005);
	assert_int_equal(AVAILABLE(MEMINFO, groups, {"v1/docker/1/memory.limit_in_bytes", "100000\n"},
				   {"v1/docker/1/memory.usage_in_bytes", "90000\n"},
				   {"proc/self/mountinfo", "25 20 0:21 / /v1 rw - cgroup c rw,memory\n"}),
			 10000);
	assert_int_equal(AVAILABLE(MEMINFO, groups, limit, usage, {"proc/self/mountinfo", OTHER}), 800 * 1024);
}

/* Version 1 has a number for that, which depends on how large pages are. Such a group's use is not read. */
static void of_a_group_of_version_1_without_a_limit(void **state)
{
	static const char *const limits[] = {"9223372036854771712\n", "9223372036854710272\n", "9223372036854775807\n"};
	const struct file groups = {"proc/self/cgroup", "4:memory:/\n"},
			  usage = {"v1/memory.usage_in_bytes", "18446744073709551000\n"},
			  mounts = {"proc/self/mountinfo", "25 20 0:21 / /v1 rw - cgroup c rw,memory\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct file limit = {"v1/memory.limit_in_bytes", limits[i]};
		assert_int_equal(AVAILABLE(MEMINFO, groups, limit, usage, mounts), 800 * 1024);
	}
}

static void of_the_address_space(void **state)
{
	struct rlimit before;
	const struct file machine = MEMINFO;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	if (before.rlim_cur != RLIM_INFINITY || before.rlim_max != RLIM_INFINITY)
		skip();
	struct rlimit limit = {(rlim_t)1 << 50, RLIM_INFINITY};
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	uint64_t of_all = AVAILABLE({"proc/self/statm", "1000 2 3\n"});
	uint64_t of_machine = AVAILABLE(machine, {"proc/self/statm", "1000 2 3\n"});
	uint64_t unknown = AVAILABLE({"x", ""});
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(of_all, limit.rlim_cur - 1000 * (uint64_t)sysconf(_SC_PAGESIZE));
	assert_int_equal(of_machine, 800 * 1024);
	assert_int_equal(unknown, 0);
}

enum { TOUCHED_BYTES = 256 << 20 };

/* A program starts with nothing, however large the process was that it is in. */
static void peak_since_the_exec(void **state)
{
	char text[32] = "", *touched = malloc(TOUCHED_BYTES);
	uint64_t bytes;
	int ends[2];

	(void)state;
	assert_non_null(touched);
	memset(touched, 1, TOUCHED_BYTES);
	assert_int_equal(memory_peak(&bytes), 0);
	assert_true(bytes >= TOUCHED_BYTES);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t child = vfork();
	if (!child) {
		dup2(ends[1], STDOUT_FILENO);
		execl("/proc/self/exe", "test_memory", "peak", NULL);
		_exit(127);
	}
	close(ends[1]);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	free(touched);
	assert_in_range(strtoull(text, NULL, 10), 1, TOUCHED_BYTES);
}

static bool counts_addresses(const char *mode)
{
	static const struct fake_shape shape = {.nr_cpus = 1, .nr_packages = 1, .nr_nodes = 1};
	struct fake_sysfs fake;

	fake_sysfs_init(&fake, &shape);
	if (mode)
		fake_sysfs_put(&fake, "proc/sys/vm/overcommit_memory", mode);
	bool ret = memory_counts_addresses(fake.root);
	fake_sysfs_fini(&fake);
	return ret;
}

static void addresses_count_where_they_are_limited(void **state)
{
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	if (before.rlim_cur != RLIM_INFINITY || before.rlim_max != RLIM_INFINITY)
		skip();
	assert_false(counts_addresses(NULL));
	assert_false(counts_addresses("0\n"));
	assert_true(counts_addresses("2\n"));
	assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)1 << 50, RLIM_INFINITY}), 0);
	assert_true(counts_addresses("0\n"));
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

int main(int argc, char **argv)
{
	uint64_t bytes;

	if (argc == 2 && !strcmp(argv[1], "peak"))
		return memory_peak(&bytes) || printf("%" PRIu64 "\n", bytes) < 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_the_machine),
		cmocka_unit_test(of_a_container),
		cmocka_unit_test(of_a_container_of_version_1),
		cmocka_unit_test(of_a_group_of_version_1_without_a_limit),
		cmocka_unit_test(of_the_address_space),
		cmocka_unit_test(addresses_count_where_they_are_limited),
		cmocka_unit_test(peak_since_the_exec),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
