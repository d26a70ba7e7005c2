/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "record/drain/thread_spec.h"
#include "sysinfo/topology.h"
#include "tests/fake/fake_sysfs.h"

static void read_shape(const struct fake_shape *shape, struct topology *ret)
{
	struct fake_sysfs fake;
	struct diag why = {""};

	fake_sysfs_init(&fake, shape);
	if (topology_read(fake.root, ret, &why))
		fail_msg("%s", why.text);
	fake_sysfs_fini(&fake);
}

/* 8 CPUs, 2 sockets, SMT, 2 nodes */
static int read_eight(void **state)
{
	static struct topology topology;

	read_shape(&(struct fake_shape){.nr_cpus = 8, .nr_packages = 2, .nr_nodes = 2, .smt = true}, &topology);
	*state = &topology;
	return 0;
}

static int forget(void **state)
{
	topology_fini(*state);
	return 0;
}

static int resolve(const struct topology *topology, const char *spec, const char *cpu_list, struct thread_layout *ret,
		   struct diag *why)
{
	struct cpuset cpus = {0};

	if (cpu_list)
		assert_int_equal(cpuset_parse(&cpus, cpu_list), 0);
	int err = thread_spec_resolve(spec, cpu_list ? &cpus : &topology->online, topology, ret, why);
	cpuset_fini(&cpus);
	return err;
}

static void put_layout(const struct thread_layout *layout, struct buf *text)
{
	for (size_t i = 0; i < layout->nr_threads; i++) {
		buf_put_text(text, i ? ":" : "");
		cpuset_format(&layout->threads[i].maps, text);
		buf_put_text(text, "/");
		cpuset_format(&layout->threads[i].affinity, text);
	}
}

/* `expected`: the layout, written as masks. */
static void assert_layout(const struct topology *topology, const char *spec, const char *cpu_list, const char *expected)
{
	struct thread_layout layout;
	struct buf text = {0};
	struct diag why = {""};

	if (resolve(topology, spec, cpu_list, &layout, &why))
		fail_msg("\"%s\" -C %s: %s", spec ? spec : "(none)", cpu_list ? cpu_list : "(none)", why.text);
	put_layout(&layout, &text);
	assert_string_equal(buf_text(&text), expected);
	buf_fini(&text);
	thread_layout_fini(&layout);
}

#define ONE_EACH "0/0:1/1:2/2:3/3:4/4:5/5:6/6:7/7"
#define CORES "0-1/0-1:2-3/2-3:4-5/4-5:6-7/6-7"

/* The command lines of the patch series of 2021. */
static void the_specs_of_2021(void **state)
{
	static const struct {
		const char *spec, *cpus, *expected;
	} cases[] = {
		{NULL, NULL, ONE_EACH},
		{"", NULL, ONE_EACH},
		{"cpu", NULL, ONE_EACH},
		{"core", NULL, CORES},
		{"socket", NULL, "0-3/0-3:4-7/4-7"},
		{"package", NULL, "0-3/0-3:4-7/4-7"},
		{"numa", NULL, "0-3/0-3:4-7/4-7"},
		{"0-3/3:4-7/4", NULL, "0-3/3:4-7/4"},
		{NULL, "2,5", "2/2:5/5"},
		{"", "2,5", "2/2:5/5"},
		{"cpu", "2,5", "2/2:5/5"},
		{"core", "2,5", "2/2-3:5/4-5"},
		{"socket", "2,5", "2/0-3:5/4-7"},
		{"numa", "2,5", "2/0-3:5/4-7"},
		{"0-3/3:4-7/4", "2,5", "2/3:5/4"},
		{"", "3,4", "3/3:4/4"},
		{"cpu", "3,4", "3/3:4/4"},
		{"core", "3,4", "3/2-3:4/4-5"},
		{"socket", "3,4", "3/0-3:4/4-7"},
		{"numa", "3,4", "3/0-3:4/4-7"},
		{"0-3/3:4-7/4", "3,4", "3/3:4/4"},
		{"", "0,4,2,6", "0/0:2/2:4/4:6/6"},
		{"cpu", "0,4,2,6", "0/0:2/2:4/4:6/6"},
		{"core", "0,4,2,6", "0/0-1:2/2-3:4/4-5:6/6-7"},
		{"socket", "0,4,2,6", "0,2/0-3:4,6/4-7"},
		{"numa", "0,4,2,6", "0,2/0-3:4,6/4-7"},
		{"0-3/3:4-7/4", "0,4,2,6", "0,2/3:4,6/4"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_layout(*state, cases[i].spec, cases[i].cpus, cases[i].expected);
}

static void other_good_specs(void **state)
{
	static const struct {
		const char *spec, *cpus, *expected;
	} cases[] = {
		{"CORE", NULL, CORES},
		{"Numa", "1", "1/0-3"},
		{"0-7/0-7", NULL, "0-7/0-7"},
		{"4-7/0:0-3/7", NULL, "0-3/7:4-7/0"}, /* ordered by what is drained */
		{"1,3,5,7/1:0,2,4,6/0", NULL, "0,2,4,6/0:1,3,5,7/1"},
		{"0,2-4/2-4:1,5-7/5-7", NULL, "0,2-4/2-4:1,5-7/5-7"},
		{"3-3,00/07:1-2,4-7/0", NULL, "0,3/7:1-2,4-7/0"},
		{"0-3/3:4-7/4", "0-3", "0-3/3"}, /* the second has nothing to do */
		{"0-3/3:4-7/3", "7", "7/3"},     /* overlaps with no online CPU */
		{"0-3/3:3-7/4", "0,5", "0/3:5/4"},
		{"0/7", "0", "0/7"}, /* runs where nothing is recorded */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_layout(*state, cases[i].spec, cases[i].cpus, cases[i].expected);
}

static void wrong_specs_are_refused(void **state)
{
	static const struct {
		const char *spec, *cpus, *message; /* without the leading "--threads: " */
	} cases[] = {
#define WORD "neither cpu, core, package, socket nor numa, nor masks such as 0-3/3:4-7/4"
		{"node", NULL, "\"node\" at column 1: " WORD},
		{"cpus", NULL, "\"cpus\" at column 1: " WORD},
		{"core,numa", NULL, "\"core,numa\" at column 1: " WORD},
		{" ", NULL, "\" \" at column 1: " WORD},
		{"cpu ", NULL, "\"cpu \" at column 1: " WORD},
		{"*", NULL, "\"*\" at column 1: " WORD},
		{"cpu:core", NULL, "\"cpu\" at column 1: no affinity; wanted CPUS/AFFINITY such as 0-3/3"},
		{"0", NULL, "\"0\" at column 1: no affinity; wanted CPUS/AFFINITY such as 0-3/3"},
		{"0-7/0:1", NULL, "\"1\" at column 7: no affinity; wanted CPUS/AFFINITY such as 0-3/3"},
		{":", NULL, "\"\" at column 1: an empty mask; wanted CPUS/AFFINITY"},
		{":0-7/0", NULL, "\"\" at column 1: an empty mask; wanted CPUS/AFFINITY"},
		{"0-7/0:", NULL, "\"\" at column 7: an empty mask; wanted CPUS/AFFINITY"},
		{"0-3/0::4-7/1", NULL, "\"\" at column 7: an empty mask; wanted CPUS/AFFINITY"},
		{"/", NULL, "\"/\" at column 1: no CPUs before the \"/\""},
		{"/0", NULL, "\"/0\" at column 1: no CPUs before the \"/\""},
		{"0-7/", NULL, "\"0-7/\" at column 1: no CPUs after the \"/\""},
		{"0-3/0:4-7/", NULL, "\"4-7/\" at column 7: no CPUs after the \"/\""},
		{"0-3/0:/1", NULL, "\"/1\" at column 7: no CPUs before the \"/\""},
		{"0/0/0", NULL, "\"0/0/0\" at column 1: more than one \"/\"; masks are separated by \":\""},
		{"x/0", NULL, "\"x\" at column 1: neither a CPU nor a range such as 2-5"},
		{"0-7/x", NULL, "\"x\" at column 5: neither a CPU nor a range such as 2-5"},
		{"0,1,2x/0", NULL, "\"2x\" at column 5: neither a CPU nor a range such as 2-5"},
		{"0x1/0", NULL, "\"0x1\" at column 1: neither a CPU nor a range such as 2-5"},
		{"0-/0", NULL, "\"0-\" at column 1: neither a CPU nor a range such as 2-5"},
		{"-3/0", NULL, "\"-3\" at column 1: neither a CPU nor a range such as 2-5"},
		{"0-3-5/0", NULL, "\"0-3-5\" at column 1: neither a CPU nor a range such as 2-5"},
		{" 0/0", NULL, "\" 0\" at column 1: neither a CPU nor a range such as 2-5"},
		{"0-3/0 :4-7/1", NULL, "\"0 \" at column 5: neither a CPU nor a range such as 2-5"},
		{"+1/0", NULL, "\"+1\" at column 1: neither a CPU nor a range such as 2-5"},
		{"0-3/0;4-7/1", NULL, "\"0-3/0;4-7/1\" at column 1: more than one \"/\"; masks are separated by \":\""},
		{"0,/0", NULL, "\"\" at column 3: a CPU number is missing here"},
		{",0/0", NULL, "\"\" at column 1: a CPU number is missing here"},
		{"0-3/0,,1", NULL, "\"\" at column 7: a CPU number is missing here"},
		{"3-0/0", NULL, "\"3-0\" at column 1: a range goes upwards: 0-3"},
		{"0-7/4,7-5", NULL, "\"7-5\" at column 7: a range goes upwards: 5-7"},
		{"0,0/0", NULL, "\"0\" at column 3: CPU 0 is in this list already"},
		{"0-7/1,0-2", NULL, "\"0-2\" at column 7: CPU 1 is in this list already"},
		{"8/0", NULL, "\"8\" at column 1: there is no CPU 8; online: 0-7"},
		{"0-9/0", NULL, "\"0-9\" at column 1: there is no CPU 8; online: 0-7"},
		{"0-7/4,64", NULL, "\"64\" at column 7: there is no CPU 64; online: 0-7"},
		{"8/0", "0", "\"8\" at column 1: there is no CPU 8; online: 0-7"},
		{"65536/0", NULL, "\"65536\" at column 1: no CPU has such a number; online: 0-7"},
		{"99999999999999999999999/0", NULL,
		 "\"99999999999999999999999\" at column 1: no CPU has such a number; online: 0-7"},
		{"0-3/0:3-7/1", NULL, "\"3-7/1\" at column 7: CPU 3 is drained by an earlier mask already"},
		{"0-3/0:0-7/1", NULL, "\"0-7/1\" at column 7: CPU 0 is drained by an earlier mask already"},
		{"0-1/0:2-3/1:4-7,1/2", NULL, "\"4-7,1/2\" at column 13: CPU 1 is drained by an earlier mask already"},
		{"0-3/0:4-7/0", NULL, "\"4-7/0\" at column 7: the thread of an earlier mask runs on CPU 0 already"},
		{"0-3/0-3:4-7/2", NULL, "\"4-7/2\" at column 9: the thread of an earlier mask runs on CPU 2 already"},
		{"0/0", NULL, "\"0/0\" at column 1: no mask drains CPU 1-7; add it to one, or choose others with -C"},
		{"0-2/0:4-6/1", NULL,
		 "\"0-2/0:4-6/1\" at column 1: no mask drains CPU 3,7; add it to one, or choose others with "
		 "-C"},
		{"0-3/3", "2,5",
		 "\"0-3/3\" at column 1: no mask drains CPU 5; add it to one, or choose others with -C"},
		{"0-3/3", "5-6", "\"0-3/3\" at column 1: none of the recorded CPUs (5-6) is in a mask"},
		{"abcdefghijabcdefghijabcdefghijabcdefghijk", NULL,
		 "\"abcdefghijabcdefghijabcdefghijabcdefghij…\" at column 1: " WORD},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thread_layout layout = {.threads = (void *)1, .nr_threads = 77};
		struct diag why = {""};
		if (resolve(*state, cases[i].spec, cases[i].cpus, &layout, &why) != -EINVAL)
			fail_msg("\"%s\" was taken", cases[i].spec);
		assert_memory_equal(why.text, "--threads: ", 11);
		assert_string_equal(why.text + 11, cases[i].message);
		assert_int_equal(layout.nr_threads, 77); /* left alone */
	}
}

static void no_recorded_cpu_is_an_error(void **state)
{
	struct cpuset none = {0};
	struct thread_layout layout;
	struct diag why;

	assert_int_equal(thread_spec_resolve("numa", &none, *state, &layout, &why), -EINVAL);
	assert_string_equal(why.text, "--threads: no CPU is recorded");
	assert_int_equal(thread_spec_resolve("0/0", &none, *state, &layout, NULL), -EINVAL);
}

static void offline_cpus_are_named(void **state)
{
	const struct fake_shape shape = {
		.nr_cpus = 8, .nr_packages = 2, .nr_nodes = 2, .smt = true, .offline = "1,4-5"};
	struct topology topology;
	struct thread_layout layout;
	struct diag why;

	(void)state;
	read_shape(&shape, &topology);
	assert_layout(&topology, "cpu", NULL, "0/0:2/2:3/3:6/6:7/7");
	assert_layout(&topology, "core", NULL, "0/0:2-3/2-3:6-7/6-7");
	assert_layout(&topology, "numa", NULL, "0,2-3/0,2-3:6-7/6-7");
	assert_layout(&topology, "0,2-3/0:6-7/2", NULL, "0,2-3/0:6-7/2");
	assert_int_equal(resolve(&topology, "0-3/0:6-7/2", NULL, &layout, &why), -EINVAL);
	assert_string_equal(why.text, "--threads: \"0-3\" at column 1: CPU 1 is offline; online: 0,2-3,6-7");
	assert_int_equal(resolve(&topology, "0,2-3/0:6-7/4", NULL, &layout, &why), -EINVAL);
	assert_string_equal(why.text, "--threads: \"4\" at column 13: CPU 4 is offline; online: 0,2-3,6-7");

	/* A CPU that came up between the reading of the topology and that of the target is not lost. */
	assert_layout(&topology, "numa", "0,5,6", "0/0,2-3:5/5:6/6-7");
	topology_fini(&topology);
}

static void sixty_four_cpus(void **state)
{
	const struct fake_shape shape = {
		.nr_cpus = 64, .nr_packages = 2, .nr_nodes = 4, .smt = true, .far_siblings = true};
	struct topology topology;
	struct thread_layout layout;

	(void)state;
	read_shape(&shape, &topology);
	assert_layout(&topology, "package", NULL, "0-15,32-47/0-15,32-47:16-31,48-63/16-31,48-63");
	assert_layout(&topology, "numa", "63,8,9", "8-9/8-15,40-47:63/24-31,56-63");
	assert_layout(&topology, "core", "1,33,34", "1,33/1,33:34/2,34");
	assert_int_equal(resolve(&topology, "cpu", NULL, &layout, NULL), 0);
	assert_int_equal(layout.nr_threads, 64);
	assert_int_equal(thread_layout_by_cpu(&layout, 63), 63);
	thread_layout_fini(&layout);
	assert_int_equal(resolve(&topology, "core", NULL, &layout, NULL), 0);
	assert_int_equal(layout.nr_threads, 32);
	assert_int_equal(thread_layout_by_cpu(&layout, 63), 31);
	assert_int_equal(thread_layout_by_cpu(&layout, 64), -1);
	thread_layout_fini(&layout);
	topology_fini(&topology);
}

static void assert_parts(const struct topology *topology, unsigned most, const char *cpu_list, const char *expected)
{
	struct thread_layout layout;
	struct cpuset cpus = {0};
	struct buf text = {0};

	assert_int_equal(cpuset_parse(&cpus, cpu_list), 0);
	assert_int_equal(thread_layout_divide(&cpus, most, topology, &layout), 0);
	put_layout(&layout, &text);
	assert_string_equal(buf_text(&text), expected);
	buf_fini(&text);
	cpuset_fini(&cpus);
	thread_layout_fini(&layout);
}

/* Even parts, each of one node; also of CPUs that the topology does not know. */
static void cpus_are_divided(void **state)
{
	const struct fake_shape shape = {
		.nr_cpus = 64, .nr_packages = 2, .nr_nodes = 4, .smt = true, .far_siblings = true};
	struct topology many;

	assert_parts(*state, 8, "0-7", "0-3/0-3:4-7/4-7");
	assert_parts(*state, 3, "0-7", "0-1/0-1:2-3/2-3:4-5/4-5:6-7/6-7");
	assert_parts(*state, 1, "2,5", "2/2:5/5");
	assert_parts(*state, 100, "1,3", "1,3/1,3");
	assert_parts(*state, 2, "1,7-10", "1/1:7/7:8-9/8-9:10/10");
	read_shape(&shape, &many);
	assert_parts(&many, 8, "0-63",
		     "0-7/0-7:8-15/8-15:16-23/16-23:24-31/24-31:32-39/32-39:40-47/40-47:48-55/48-55:56-63/56-63");
	assert_parts(&many, 8, "0-8,40", "0-7/0-7:8,40/8,40");
	topology_fini(&many);
}

/* --per-thread */
static void rings_of_tasks_go_round(void **state)
{
	struct thread_layout layout;
	struct buf text = {0};

	/* Which CPUs a mask drains says nothing here: none has to be covered. */
	assert_int_equal(thread_spec_resolve("0/6:1/7:2/5", NULL, *state, &layout, NULL), 0);
	assert_int_equal(layout.nr_threads, 3);
	assert_int_equal(thread_layout_by_ring(&layout, 0), 0);
	assert_int_equal(thread_layout_by_ring(&layout, 5), 2);
	thread_layout_trim(&layout, 100);
	assert_int_equal(layout.nr_threads, 3);
	thread_layout_trim(&layout, 2);
	put_layout(&layout, &text);
	assert_string_equal(buf_text(&text), "0/6:1/7");
	thread_layout_trim(&layout, 0);
	assert_int_equal(layout.nr_threads, 1);
	thread_layout_fini(&layout);
	buf_fini(&text);

	assert_int_equal(thread_spec_resolve(NULL, NULL, *state, &layout, NULL), 0);
	assert_int_equal(layout.nr_threads, 8);
	thread_layout_fini(&layout);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_specs_of_2021),       cmocka_unit_test(other_good_specs),
		cmocka_unit_test(wrong_specs_are_refused), cmocka_unit_test(no_recorded_cpu_is_an_error),
		cmocka_unit_test(offline_cpus_are_named),  cmocka_unit_test(sixty_four_cpus),
		cmocka_unit_test(rings_of_tasks_go_round), cmocka_unit_test(cpus_are_divided),
	};

	return cmocka_run_group_tests(tests, read_eight, forget);
}
