/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/machine/machine.h"
#include "base/buf.h"
#include "read/session.h"

static struct machine *machine;

static int set_up(void **state)
{
	(void)state;
	/* No symbols from this machine: the tests are about maps. */
	static const struct symbol_options options = {.symfs = "/nonexistent"};
	return machine_new(&options, NULL, &machine);
}

static int tear_down(void **state)
{
	(void)state;
	machine_free(machine);
	return 0;
}

static void feed(uint32_t type, uint16_t misc, struct buf *body)
{
	struct buf bytes = {0};
	struct perf_event_header header = {.type = type, .misc = misc, .size = (uint16_t)(sizeof(header) + body->len)};

	buf_put(&bytes, &header, sizeof(header));
	buf_put(&bytes, body->data, body->len);
	struct session_record record = {.view = {.header = (const void *)bytes.data}};
	assert_int_equal(machine_process(machine, &record), 0);
	buf_fini(&bytes);
	buf_fini(body);
}

static void put_name(struct buf *body, const char *name)
{
	buf_put(body, name, strlen(name) + 1);
	buf_align(body, 8);
}

struct range {
	uint64_t start, len, pgoff;
};

static void feed_map(uint16_t misc, uint32_t pid, uint32_t tid, struct range range, const char *name)
{
	struct buf body = {0};

	buf_put_u32(&body, pid);
	buf_put_u32(&body, tid);
	buf_put_u64(&body, range.start);
	buf_put_u64(&body, range.len);
	buf_put_u64(&body, range.pgoff);
	put_name(&body, name);
	feed(PERF_RECORD_MMAP, misc, &body);
}

static void feed_user_map(uint32_t pid, uint32_t tid, uint64_t start, uint64_t len, const char *name)
{
	feed_map(PERF_RECORD_MISC_USER, pid, tid, (struct range){start, len, 0}, name);
}

static void feed_comm(uint32_t pid, uint32_t tid, const char *comm)
{
	struct buf body = {0};

	buf_put_u32(&body, pid);
	buf_put_u32(&body, tid);
	put_name(&body, comm);
	feed(PERF_RECORD_COMM, 0, &body);
}

struct birth {
	uint32_t pid, ppid, tid, ptid;
};

static void feed_fork(struct birth birth, uint16_t misc)
{
	struct buf body = {0};

	buf_put(&body, &birth, sizeof(birth));
	buf_put_u64(&body, 0);
	feed(PERF_RECORD_FORK, misc, &body);
}

static const char *object_at(uint32_t pid, uint32_t tid, uint64_t ip)
{
	struct location location;

	machine_resolve(machine, machine_task(machine, pid, tid), PERF_RECORD_MISC_USER, ip, &location);
	return location.dso ? dso_long_name(location.dso) : "";
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(machine_task(machine, 0, 0)->comm->text, "swapper");
	assert_string_equal(machine_task(machine, 10, 11)->comm->text, ":11");
	feed_comm(10, 11, "one");
	struct task *task = machine_task(machine, 10, 11);
	const char *one = task->comm->text;
	const struct comm *first = task->comm;
	feed_comm(10, 11, "two");
	assert_string_equal(task->comm->text, "two");
	assert_string_equal(one, "one");
	assert_string_equal(first->text, "one");

	/* A name that is told late goes for what was seen before. */
	const struct comm *late = machine_task(machine, 12, 12)->comm;
	assert_string_equal(late->text, ":12");
	feed_comm(12, 12, "late");
	assert_string_equal(late->text, "late");
}

static void test_threads_share_maps(void **state)
{
	(void)state;
	feed_user_map(10, 12, 0x1000, 0x1000, "/bin/a");
	assert_string_equal(object_at(10, 10, 0x1800), "/bin/a");
	assert_string_equal(object_at(10, 11, 0x1800), "/bin/a");
	assert_string_equal(object_at(20, 20, 0x1800), "");
	assert_string_equal(object_at(10, 11, 0x2000), "");
}

static void test_fork(void **state)
{
	(void)state;
	feed_comm(10, 10, "parent");
	feed_user_map(10, 10, 0x1000, 0x1000, "/bin/a");
	feed_fork((struct birth){20, 10, 20, 10}, 0);
	assert_string_equal(machine_task(machine, 20, 20)->comm->text, "parent");
	assert_string_equal(object_at(20, 20, 0x1000), "/bin/a");
	feed_comm(20, 20, "child");
	feed_user_map(20, 20, 0x1000, 0x1000, "/bin/b");
	assert_string_equal(object_at(20, 20, 0x1000), "/bin/b");
	assert_string_equal(object_at(10, 10, 0x1000), "/bin/a");
	assert_string_equal(machine_task(machine, 10, 10)->comm->text, "parent");

	/* A thread is no copy: what it maps its process has. */
	feed_fork((struct birth){20, 20, 21, 20}, 0);
	feed_user_map(20, 21, 0x5000, 0x1000, "/lib/c");
	assert_string_equal(object_at(20, 20, 0x5000), "/lib/c");
}

/* What recorders say of processes that run already gives names, not maps. */
static void test_fork_of_recorder(void **state)
{
	(void)state;
	feed_user_map(10, 10, 0x1000, 0x1000, "/bin/a");
	feed_fork((struct birth){20, 10, 20, 10}, RECORD_MISC_FORK_EXEC);
	assert_string_equal(object_at(20, 20, 0x1000), "");
}

static void test_tid_is_used_again(void **state)
{
	(void)state;
	feed_comm(20, 20, "old");
	feed_user_map(20, 20, 0x1000, 0x1000, "/bin/old");
	struct task *old = machine_task(machine, 20, 20);
	feed_comm(10, 10, "parent");
	feed_fork((struct birth){20, 10, 20, 10}, 0);
	assert_string_equal(object_at(20, 20, 0x1000), "");
	assert_string_equal(machine_task(machine, 20, 20)->comm->text, "parent");
	/* Who still holds the old task may use it. */
	struct location location;
	assert_string_equal(old->comm->text, "old");
	machine_resolve(machine, old, PERF_RECORD_MISC_USER, 0x1000, &location);
	assert_null(location.dso);
}

static void test_kernel(void **state)
{
	(void)state;
	struct location location;
	struct task *task = machine_task(machine, 1, 1);

	machine_resolve(machine, task, PERF_RECORD_MISC_KERNEL, 0xffffffff81000010, &location);
	assert_null(location.dso);
	assert_int_equal(location.level, 'k');
	feed_map(PERF_RECORD_MISC_KERNEL, UINT32_MAX, 0, (struct range){0xffffffff81000000, 0x1000, 0xffffffff81000000},
		 "[kernel.kallsyms]_text");
	feed_map(PERF_RECORD_MISC_KERNEL, UINT32_MAX, 0, (struct range){0xffffffffc0000000, 0x1000, 0},
		 "/lib/modules/x/kvm-amd.ko");
	machine_resolve(machine, task, PERF_RECORD_MISC_KERNEL, 0xffffffff81000010, &location);
	assert_string_equal(dso_short_name(location.dso), "[kernel.kallsyms]");
	assert_int_equal(location.address, 0xffffffff81000010);
	machine_resolve(machine, task, PERF_RECORD_MISC_KERNEL, 0xffffffffc0000010, &location);
	assert_string_equal(dso_short_name(location.dso), "[kvm_amd]");
	assert_int_equal(location.address, 0x10);
	machine_resolve(machine, task, PERF_RECORD_MISC_USER, 0xffffffff81000010, &location);
	assert_null(location.dso);
	assert_int_equal(location.level, '.');
	machine_resolve(machine, task, PERF_RECORD_MISC_CPUMODE_UNKNOWN, 0xffffffff81000010, &location);
	assert_int_equal(location.level, 'H');
}

static void feed_ksymbol(uint16_t flags, const char *name)
{
	struct buf body = {0};

	buf_put_u64(&body, 0xffffffffc0100000);
	buf_put_u32(&body, 0x100);
	buf_put_u16(&body, PERF_RECORD_KSYMBOL_TYPE_BPF);
	buf_put_u16(&body, flags);
	put_name(&body, name);
	feed(PERF_RECORD_KSYMBOL, 0, &body);
}

static void test_ksymbol(void **state)
{
	(void)state;
	struct location location;
	struct task *task = machine_task(machine, 1, 1);

	feed_ksymbol(0, "bpf_prog_one");
	machine_resolve(machine, task, PERF_RECORD_MISC_KERNEL, 0xffffffffc0100010, &location);
	assert_string_equal(location.symbol->name, "bpf_prog_one");
	feed_ksymbol(PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, "bpf_prog_one");
	machine_resolve(machine, task, PERF_RECORD_MISC_KERNEL, 0xffffffffc0100010, &location);
	assert_null(location.dso);
}

static void test_memory_without_object(void **state)
{
	(void)state;
	struct location location;

	feed_user_map(10, 10, 0x1000, 0x1000, "//anon");
	machine_resolve(machine, machine_task(machine, 10, 10), PERF_RECORD_MISC_USER, 0x1800, &location);
	assert_string_equal(dso_long_name(location.dso), "/tmp/perf-10.map");
	assert_string_equal(dso_short_name(location.dso), "[JIT] tid 10");
	assert_int_equal(location.address, 0x1800);
}

static void test_names_like_that_of_a_perf_map(void **state)
{
	static const char *const names[][2] = {{"/tmp/perf-6.1/tools/perf/perf", "perf"},
					       {"/tmp/perf-20.map.old", "perf-20.map.old"},
					       {"/tmp/perf-20", "perf-20"},
					       {"/tmp/perf-20.map", "[JIT] tid 20"}};
	struct dso_table table = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_string_equal(dso_short_name(dso_find(&table, names[i][0], NULL, DSO_FILE)), names[i][1]);
	dso_table_fini(&table);
}

static unsigned nr_named(uint32_t pid, struct range range)
{
	struct location location;
	unsigned nr = 0;

	for (uint64_t ip = range.start; ip < range.start + range.len; ip += 16) {
		assert_string_equal(object_at(pid, pid, ip), "[vdso]");
		machine_resolve(machine, machine_task(machine, pid, pid), PERF_RECORD_MISC_USER, ip, &location);
		nr += location.symbol != NULL;
	}
	return nr;
}

/* That of a 32-bit program is another image than that of this program, whose names would be at other places. */
static void test_vdso_of_a_32_bit_program(void **state)
{
	const struct range wide = {0x7ffff7fc1000, 0x1000, 0}, narrow = {0xf7fc1000, 0x1000, 0};

	machine_free(machine);
	assert_int_equal(machine_new(NULL, NULL, &machine), 0);
	(void)state;
	for (uint32_t pid = 10; pid < 14; pid++) {
		const struct range range = pid % 2 ? narrow : wide;
		feed_user_map(pid, pid, range.start, range.len, "[vdso]");
		assert_int_equal(nr_named(pid, range) > 0, pid % 2 == 0);
	}
}

/* Records cut short or without an end of their name change nothing. */
static void test_broken_records(void **state)
{
	(void)state;
	static const uint32_t types[] = {PERF_RECORD_MMAP, PERF_RECORD_MMAP2,   PERF_RECORD_COMM,
					 PERF_RECORD_FORK, PERF_RECORD_KSYMBOL, RECORD_BUILD_ID};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (size_t len = 0; len < 96; len += 4) {
			struct buf body = {0};
			memset(buf_extend(&body, len + 1), 0xff, len + 1);
			body.len = len;
			feed(types[i], 0, &body);
		}
	}
}

static void test_call_chain(void **state)
{
	(void)state;
	const uint64_t ips[] = {PERF_CONTEXT_KERNEL, 0xffffffff81000010, PERF_CONTEXT_USER, 0x1010, 0x1020};
	const uint64_t broken[] = {0x1010, PERF_CONTEXT_GUEST, 0x1020};
	const struct event_desc event = {.attr = {.sample_type = PERF_SAMPLE_CALLCHAIN}};
	struct session_record record = {.event = &event, .sample = {.nr_ips = 5, .ips = ips}};
	struct task *task = machine_task(machine, 10, 10);
	struct location chain[5];

	feed_user_map(10, 10, 0x1000, 0x1000, "/bin/a");
	assert_int_equal(machine_callchain(machine, task, &record, chain, 5), 3);
	assert_int_equal(chain[0].level, 'k');
	assert_int_equal(chain[1].ip, 0x1010);
	assert_int_equal(chain[1].address, 0x10);
	assert_int_equal(chain[2].level, '.');
	assert_int_equal(machine_callchain(machine, task, &record, chain, 2), 2);
	record.sample.ips = broken;
	record.sample.nr_ips = 3;
	assert_int_equal(machine_callchain(machine, task, &record, chain, 5), 0);
}

/* Fixed, a lookup tells what is there, and misses what it would have to make. */
static void test_fixed_lookup(void **state)
{
	(void)state;
	struct lookup *lookup = lookup_new(machine);
	struct location at;

	feed_comm(10, 10, "one");
	feed_user_map(10, 10, 0x1000, 0x1000, "/bin/a");
	lookup_set_read_only(lookup, true);
	struct task *task = lookup_task(lookup, 10, 10);
	assert_string_equal(task->comm->text, "one");
	lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, 0x5000, &at);
	assert_null(at.dso);
	assert_false(lookup_needs_update(lookup));

	assert_null(lookup_task(lookup, 10, 11));
	assert_true(lookup_needs_update(lookup));
	lookup_set_read_only(lookup, true);
	assert_false(lookup_needs_update(lookup));
	lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, 0x1010, &at); /* its symbols are not read yet */
	assert_true(lookup_needs_update(lookup));

	lookup_set_read_only(lookup, false);
	lookup_resolve(lookup, task, PERF_RECORD_MISC_USER, 0x1010, &at);
	assert_string_equal(dso_long_name(at.dso), "/bin/a");
	assert_non_null(lookup_task(lookup, 10, 11));

	struct lookup *other = lookup_new(machine);
	lookup_set_read_only(other, true);
	assert_ptr_equal(lookup_task(other, 10, 11), machine_task(machine, 10, 11));
	lookup_resolve(other, task, PERF_RECORD_MISC_USER, 0x1010, &at);
	assert_string_equal(dso_long_name(at.dso), "/bin/a");
	assert_false(lookup_needs_update(other));
	lookup_free(other);
	lookup_free(lookup);
}

/* What was found before does not outlive a change: not the maps, nor whose tid it is. */
static void test_lookup_after_change(void **state)
{
	(void)state;
	struct lookup *lookup = lookup_new(machine);
	struct location at;

	feed_comm(10, 10, "one");
	feed_user_map(10, 10, 0x1000, 0x1000, "/bin/a");
	machine_resolve(machine, machine_task(machine, 10, 10), PERF_RECORD_MISC_USER, 0x1010, &at);
	lookup_set_read_only(lookup, true);
	lookup_resolve(lookup, lookup_task(lookup, 10, 10), PERF_RECORD_MISC_USER, 0x1010, &at);
	assert_string_equal(dso_long_name(at.dso), "/bin/a");

	uint64_t epoch = lookup_epoch(lookup);
	feed_user_map(10, 10, 0x1000, 0x1000, "/bin/b");
	feed_fork((struct birth){.pid = 10, .ppid = 1, .tid = 10, .ptid = 1}, 0);
	assert_int_not_equal(lookup_epoch(lookup), epoch);
	assert_ptr_equal(lookup_task(lookup, 10, 10), machine_task(machine, 10, 10));
	assert_string_equal(lookup_task(lookup, 10, 10)->comm->text, ":10");
	lookup_resolve(lookup, lookup_task(lookup, 10, 10), PERF_RECORD_MISC_USER, 0x1010, &at);
	assert_null(at.dso);
	assert_false(lookup_needs_update(lookup));

	epoch = lookup_epoch(lookup);
	lookup_set_read_only(lookup, false);
	lookup_task(lookup, UINT32_MAX, 20);
	assert_int_equal(lookup_epoch(lookup), epoch);
	lookup_set_read_only(lookup, true);
	assert_non_null(lookup_task(lookup, UINT32_MAX, 20));
	assert_null(lookup_task(lookup, 10, 20)); /* whose thread it is is news */
	lookup_set_read_only(lookup, false);
	assert_non_null(lookup_task(lookup, 10, 20));
	assert_int_not_equal(lookup_epoch(lookup), epoch);
	lookup_free(lookup);
}

static bool has_changed(struct task *task, struct task_epoch *before)
{
	struct task_epoch now = task_epoch(machine, task);
	bool changed = now.common != before->common || now.own != before->own;

	*before = now;
	return changed;
}

/* What is known of samples of a task is asked for again after each record that may change it, and no other. */
static void test_epochs(void **state)
{
	(void)state;
	struct task *one = machine_task(machine, 10, 10), *thread = machine_task(machine, 10, 11),
		    *other = machine_task(machine, 20, 20);
	struct task_epoch of_one = task_epoch(machine, one), of_thread = task_epoch(machine, thread);
	struct task_epoch of_other = task_epoch(machine, other);

	feed_user_map(10, 10, 0x1000, 0x1000, "/nonexistent/a");
	assert_true(has_changed(one, &of_one));
	assert_true(has_changed(thread, &of_thread));
	assert_false(has_changed(other, &of_other));
	feed_comm(10, 11, "name");
	assert_true(has_changed(thread, &of_thread));
	feed_comm(10, 11, "another");
	assert_true(has_changed(thread, &of_thread));
	assert_false(has_changed(one, &of_one));
	feed_fork((struct birth){30, 10, 30, 10}, 0);
	assert_false(has_changed(one, &of_one));
	assert_false(has_changed(other, &of_other));
	struct task *child = machine_task(machine, 30, 30);
	struct task_epoch of_child = task_epoch(machine, child);
	feed_user_map(30, 30, 0x1000, 0x1000, "/nonexistent/b");
	assert_true(has_changed(child, &of_child));
	assert_false(has_changed(one, &of_one));
	feed_map(PERF_RECORD_MISC_KERNEL, UINT32_MAX, 0,
		 (struct range){0xffffffff81000000, 0x1000000, 0xffffffff81000000}, "[kernel.kallsyms]_text");
	assert_true(has_changed(one, &of_one));
	assert_true(has_changed(other, &of_other));
	struct task *late = machine_task(machine, UINT32_MAX, 40);
	struct task_epoch of_late = task_epoch(machine, late);
	assert_ptr_equal(machine_known_task(machine, UINT32_MAX, 40), late);
	assert_null(machine_known_task(machine, 10, 40)); /* it is to learn that */
	assert_ptr_equal(machine_task(machine, 10, 40), late);
	assert_true(has_changed(late, &of_late));
	assert_ptr_equal(machine_known_task(machine, 10, 40), late);
	assert_null(machine_known_task(machine, 50, 50));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_names),
		TEST(test_threads_share_maps),
		TEST(test_fork),
		TEST(test_fork_of_recorder),
		TEST(test_tid_is_used_again),
		TEST(test_kernel),
		TEST(test_ksymbol),
		TEST(test_memory_without_object),
		TEST(test_names_like_that_of_a_perf_map),
		TEST(test_vdso_of_a_32_bit_program),
		TEST(test_broken_records),
		TEST(test_call_chain),
		TEST(test_fixed_lookup),
		TEST(test_lookup_after_change),
		TEST(test_epochs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
