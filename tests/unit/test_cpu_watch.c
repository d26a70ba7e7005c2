/* SPDX-License-Identifier: MIT */
/* What it means to a recording that CPUs go offline and come online. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/diag.h"
#include "perfdata/ledger.h"
#include "record/run/cpu_watch.h"
#include "record/setup/target.h"

#define CPU "@/devices/system/cpu/cpu"

static struct cpu_watch make_watch(struct target *target, enum event_target kind)
{
	*target = (struct target){.kind = kind};
	assert_int_equal(cpuset_parse(&target->cpus, "0-3"), 0);
	return (struct cpu_watch){.target = target, .fd = -1};
}

static void take(struct cpu_watch *watch, const char *text, uint64_t now_ns)
{
	assert_int_equal(cpu_watch_take(watch, text, now_ns), 0);
}

static void end(struct cpu_watch *watch, struct target *target)
{
	cpu_watch_close(watch);
	target_fini(target);
}

static void test_goes_and_comes_back(void **state)
{
	struct target target;
	struct cpu_watch watch = make_watch(&target, EVENT_TARGET_SYSTEM);
	struct ledger ledger = {0};

	(void)state;
	take(&watch, "offline" CPU "2", 5);
	assert_true(cpuset_has(&watch.gone, 2));
	assert_int_equal(watch.nr_blind, 0); /* nothing runs there */
	take(&watch, "online" CPU "2", 7);
	take(&watch, "offline" CPU "2", 8);
	take(&watch, "online" CPU "2", 9);
	assert_int_equal(watch.nr_blind, 1);
	assert_int_equal(watch.blind[0].cpu, 2);
	assert_int_equal(watch.blind[0].from_ns, 7);
	assert_int_equal(cpu_watch_account(&watch, &ledger), 0);
	assert_int_equal(ledger.nr_entries, 1);
	assert_int_equal(ledger.entries[0].cause, LEDGER_CPU_BACK);
	assert_int_equal(ledger.entries[0].cpu, 2);
	assert_int_equal(ledger.entries[0].from_ns, 7);
	ledger_fini(&ledger);
	end(&watch, &target);
}

/* Says what it is told to say, and notes for which CPU. */
struct opener {
	int err, nr, cpu;
};

static int reopen(void *ctx, int cpu, struct diag *reterr)
{
	struct opener *opener = ctx;

	opener->nr++;
	opener->cpu = cpu;
	return opener->err < 0 ? diag_set(reterr, opener->err, "as in a test") : opener->err;
}

static void test_events_are_opened_again(void **state)
{
	struct target target;
	struct cpu_watch watch = make_watch(&target, EVENT_TARGET_SYSTEM);
	struct opener opener = {0};
	struct ledger ledger = {0};

	(void)state;
	watch.reopen = reopen;
	watch.reopen_ctx = &opener;
	take(&watch, "online" CPU "2", 4);
	take(&watch, "online" CPU "11", 4);
	assert_int_equal(opener.nr, 0);
	for (int nr = 1; nr <= 2; nr++) {
		take(&watch, "offline" CPU "2", 5);
		take(&watch, "online" CPU "2", 7);
		assert_int_equal(opener.nr, nr);
		assert_int_equal(opener.cpu, 2);
		assert_int_equal(watch.nr_blind, 1 + nr);
		assert_true(watch.blind[nr].to_ns > 7);
	}
	assert_int_equal(cpu_watch_account(&watch, &ledger), 0);
	assert_int_equal(ledger.entries[1].cpu, 2);
	assert_int_equal(ledger.entries[1].from_ns, 7);
	assert_int_equal(ledger.entries[1].to_ns, watch.blind[1].to_ns);
	ledger_fini(&ledger);
	end(&watch, &target);
}

/* What has failed once is tried again; what is not recorded until then is one stretch. */
static void test_events_are_opened_later(void **state)
{
	static const int errors[] = {-ENODEV, 1};
	struct target target;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct cpu_watch watch = make_watch(&target, EVENT_TARGET_SYSTEM);
		struct opener opener = {.err = errors[i]};
		watch.reopen = reopen;
		watch.reopen_ctx = &opener;
		take(&watch, "offline" CPU "2", 5);
		take(&watch, "online" CPU "2", 7);
		assert_int_equal(watch.blind[0].to_ns, 0);
		opener.err = 0;
		take(&watch, "offline" CPU "2", 8);
		take(&watch, "online" CPU "2", 9);
		assert_int_equal(opener.nr, 2);
		assert_int_equal(watch.nr_blind, 1);
		assert_int_equal(watch.blind[0].from_ns, 7);
		assert_true(watch.blind[0].to_ns > 9);
		end(&watch, &target);
	}
}

/* A CPU that was gone before its events were open; events of tasks are not opened again. */
static void test_left_out(void **state)
{
	static const enum event_target kinds[] = {EVENT_TARGET_SYSTEM, EVENT_TARGET_WORKLOAD};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct target target;
		struct cpu_watch watch = make_watch(&target, kinds[i]);
		struct opener opener = {.cpu = -1};
		watch.reopen = reopen;
		watch.reopen_ctx = &opener;
		for (int slot = 0; slot < 3; slot++)
			assert_int_equal(cpu_watch_left_out(&watch, 2), 0);
		take(&watch, "offline" CPU "2", 5);
		take(&watch, "online" CPU "2", 7);
		assert_int_equal(opener.nr, kinds[i] == EVENT_TARGET_SYSTEM);
		assert_int_equal(watch.nr_blind, kinds[i] == EVENT_TARGET_SYSTEM);
		end(&watch, &target);
	}
}

/* With -C the other CPUs have task events. */
static void test_task_events_of_other_cpus(void **state)
{
	struct target target;
	struct cpu_watch watch = make_watch(&target, EVENT_TARGET_CPUS);
	struct opener opener = {0};

	(void)state;
	assert_int_equal(cpuset_parse(&target.other_cpus, "4-7"), 0);
	watch.reopen = reopen;
	watch.reopen_ctx = &opener;
	take(&watch, "offline" CPU "5", 5);
	take(&watch, "online" CPU "5", 6);
	assert_int_equal(opener.cpu, 5);
	end(&watch, &target);
}

static void test_a_new_one(void **state)
{
	static const struct {
		enum event_target kind;
		size_t nr_blind;
	} cases[] = {
		{EVENT_TARGET_SYSTEM, 1}, {EVENT_TARGET_CPUS, 0}, {EVENT_TARGET_WORKLOAD, 1}, {EVENT_TARGET_TASKS, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct target target;
		struct cpu_watch watch = make_watch(&target, cases[i].kind);
		take(&watch, "online" CPU "11", 5);
		assert_int_equal(watch.nr_blind, cases[i].nr_blind);
		end(&watch, &target);
	}
}

static void test_tasks_go_on(void **state)
{
	struct target target;
	struct cpu_watch watch = make_watch(&target, EVENT_TARGET_TASKS);

	(void)state;
	take(&watch, "offline" CPU "2", 5);
	take(&watch, "online" CPU "2", 6);
	assert_int_equal(cpuset_count(&watch.gone), 0);
	assert_int_equal(watch.nr_blind, 0);
	end(&watch, &target);
}

/* As by messages: what is known already is not told again. */
static void test_messages_that_were_lost(void **state)
{
	struct cpuset online = {0}, all = {0};
	struct target target;
	struct cpu_watch watch = make_watch(&target, EVENT_TARGET_SYSTEM);
	struct opener opener = {0};

	(void)state;
	watch.reopen = reopen;
	watch.reopen_ctx = &opener;
	assert_int_equal(cpuset_parse(&online, "0,2,5"), 0);
	assert_int_equal(cpuset_parse(&all, "0-3,5"), 0);
	take(&watch, "offline" CPU "1", 4);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(cpu_watch_compare(&watch, &online, 5), 0);
		assert_int_equal(cpuset_count(&watch.gone), 2);
		assert_true(cpuset_has(&watch.gone, 1) && cpuset_has(&watch.gone, 3));
		assert_int_equal(watch.nr_blind, 1); /* 5, which is new */
		assert_int_equal(watch.blind[0].cpu, 5);
		assert_int_equal(opener.nr, 0);
	}
	for (int again = 0; again < 2; again++) {
		assert_int_equal(cpu_watch_compare(&watch, &all, 7), 0);
		assert_int_equal(cpuset_count(&watch.gone), 0);
		assert_int_equal(watch.nr_blind, 3);
		assert_int_equal(opener.nr, 2);
	}
	cpuset_fini(&online);
	cpuset_fini(&all);
	end(&watch, &target);
}

static void test_others_are_left_alone(void **state)
{
	static const char *const texts[] = {"",
					    "offline",
					    "offline" CPU,
					    "offline" CPU "2/x",
					    "offline" CPU "9",
					    "add" CPU "2",
					    "online" CPU "2",
					    "offline@/devices/system/memory/memory2"};
	struct target target;
	struct cpu_watch watch = make_watch(&target, EVENT_TARGET_SYSTEM);

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		take(&watch, texts[i], 5);
	assert_int_equal(cpuset_count(&watch.gone), 0);
	assert_int_equal(watch.nr_blind, 0);
	end(&watch, &target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_and_comes_back),
		cmocka_unit_test(test_events_are_opened_again),
		cmocka_unit_test(test_events_are_opened_later),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_task_events_of_other_cpus),
		cmocka_unit_test(test_a_new_one),
		cmocka_unit_test(test_tasks_go_on),
		cmocka_unit_test(test_messages_that_were_lost),
		cmocka_unit_test(test_others_are_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
