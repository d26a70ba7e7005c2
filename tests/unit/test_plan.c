/* SPDX-License-Identifier: MIT */
/* Targets and the plan that is made of them, without opening anything. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/diag.h"
#include "event/parse/configure.h"
#include "record/setup/plan.h"
#include "record/setup/target.h"

static struct target make_target(enum event_target kind, const char *cpus, unsigned nr_tids)
{
	struct target target = {.kind = kind};

	assert_int_equal(cpuset_parse(&target.cpus, cpus), 0);
	for (unsigned i = 0; i < nr_tids; i++)
		assert_int_equal(target_add_tid(&target, (pid_t)(100 + i)), 0);
	return target;
}

static void test_tasks_share_the_ring_of_each_cpu(void **state)
{
	struct event events[2] = {0};
	struct event_list list = {.events = events, .nr = 2};
	struct target target = make_target(EVENT_TARGET_TASKS, "0,3", 3);
	struct plan plan;

	(void)state;
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_rings, 2);
	assert_int_equal(plan.rings[1].cpu, 3);
	assert_int_equal(plan.nr_slots, 2 * 2 * 3);
	for (size_t i = 0; i < plan.nr_slots; i++) {
		assert_int_equal(plan.slots[i].event, i / 6);
		assert_int_equal(plan.slots[i].ring, i / 3 % 2);
		assert_int_equal(plan.slots[i].cpu, plan.rings[plan.slots[i].ring].cpu);
		assert_int_equal(plan.slots[i].pid, 100 + i % 3);
	}
	plan_fini(&plan);
	target_fini(&target);
}

static void test_all_tasks_have_one_slot_per_cpu(void **state)
{
	struct event events[2] = {{.system_wide = false}, {.system_wide = true}};
	struct event_list list = {.events = events, .nr = 2};
	struct target target = make_target(EVENT_TARGET_SYSTEM, "0-3", 0);
	struct plan plan;

	(void)state;
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_slots, 8);
	for (size_t i = 0; i < plan.nr_slots; i++)
		assert_int_equal(plan.slots[i].pid, -1);
	plan_fini(&plan);

	/* A helper for all tasks beside an event of two tasks. */
	target.kind = EVENT_TARGET_TASKS;
	assert_int_equal(target_add_tid(&target, 7), 0);
	assert_int_equal(target_add_tid(&target, 8), 0);
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_slots, 4 * 2 + 4);
	assert_int_equal(plan.slots[8].pid, -1);
	plan_fini(&plan);
	target_fini(&target);
}

static void test_per_thread_has_a_ring_each(void **state)
{
	struct event events[2] = {0};
	struct event_list list = {.events = events, .nr = 2};
	struct target target = make_target(EVENT_TARGET_TASKS, "0-1", 3);
	struct plan plan;

	(void)state;
	target.per_thread = true;
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_rings, 3);
	assert_int_equal(plan.nr_slots, 6);
	for (size_t i = 0; i < plan.nr_slots; i++) {
		assert_int_equal(plan.slots[i].cpu, -1);
		assert_int_equal(plan.slots[i].pid, 100 + i % 3);
		assert_int_equal(plan.slots[i].ring, i % 3);
	}
	plan_fini(&plan);
	target_fini(&target);
}

static void test_members_know_the_slot_of_their_leader(void **state)
{
	struct event events[4] = {{.nr_members = 3}, {.behind_leader = 1}, {.behind_leader = 2}, {.nr_members = 0}};
	struct event_list list = {.events = events, .nr = 4};
	struct target target = make_target(EVENT_TARGET_TASKS, "0,3", 3);
	struct plan plan;

	(void)state;
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	for (size_t i = 0; i < plan.nr_slots; i++) {
		const struct plan_slot *slot = &plan.slots[i], *leader = &plan.slots[slot->leader];
		assert_int_equal(leader->event, i < 18 ? 0 : 3);
		assert_int_equal(leader->cpu, slot->cpu);
		assert_int_equal(leader->pid, slot->pid);
	}
	plan_fini(&plan);
	target_fini(&target);
}

static void test_channels_have_rings_of_their_own(void **state)
{
	struct event events[3] = {{.attr.write_backward = 1}, {.side_channel = false}, {.side_channel = true}};
	struct event_list list = {.events = events, .nr = 3};
	struct target target = make_target(EVENT_TARGET_TASKS, "0,3", 2);
	struct plan plan;

	(void)state;
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_rings, 6);
	assert_int_equal(plan.nr_drained, 4);
	assert_int_equal(plan.nr_places, 2);
	assert_int_equal(plan.rings[0].channel, CHANNEL_SIDE);
	assert_int_equal(plan.rings[1].channel, CHANNEL_SIDE);
	for (size_t i = 0; i < plan.nr_slots; i++) {
		static const enum channel channels[] = {CHANNEL_OVERWRITE, CHANNEL_DATA, CHANNEL_SIDE};
		const struct plan_ring *ring = &plan.rings[plan.slots[i].ring];
		assert_int_equal(ring->channel, channels[plan.slots[i].event]);
		assert_int_equal(ring->cpu, plan.slots[i].cpu);
	}
	plan_fini(&plan);
	/* Overwritten only: nothing is drained. */
	list.nr = 1;
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_rings, 2);
	assert_int_equal(plan.nr_drained, 0);
	plan_fini(&plan);
	target_fini(&target);
}

static void test_task_events_come_from_other_cpus(void **state)
{
	struct event events[2] = {{.side_channel = false}, {.side_channel = true}};
	struct event_list list = {.events = events, .nr = 2};
	struct target target = make_target(EVENT_TARGET_CPUS, "1", 0);
	struct plan plan;

	(void)state;
	assert_int_equal(cpuset_parse(&target.other_cpus, "0,2"), 0);
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_places, 1);
	assert_int_equal(plan.nr_side_places, 3);
	assert_int_equal(plan.nr_drained, 4);
	assert_int_equal(plan.nr_slots, 4);
	assert_int_equal(plan.slots[0].cpu, 1);
	assert_int_equal(plan.rings[plan.slots[0].ring].channel, CHANNEL_DATA);
	for (size_t i = 1; i < 4; i++) {
		static const int cpus[] = {1, 0, 2};
		const struct plan_ring *ring = &plan.rings[plan.slots[i].ring];
		assert_int_equal(plan.slots[i].event, 1);
		assert_int_equal(ring->channel, CHANNEL_SIDE);
		assert_int_equal(ring->cpu, cpus[i - 1]);
		assert_int_equal(plan.slots[i].cpu, cpus[i - 1]);
	}
	plan_fini(&plan);
	target_fini(&target);
}

static struct event event_on(const char *cpus)
{
	struct event event = {.name = (char *)(uintptr_t) "core/ticks/", .some_cpus = true, .group_some_cpus = true};

	if (*cpus)
		assert_int_equal(cpuset_parse(&event.cpus, cpus), 0);
	return event;
}

/* The CPUs of an event's slots. */
static void assert_cpus(const struct plan *plan, size_t event, const char *should)
{
	struct cpuset cpus = {0};
	struct buf is = {0};

	for (size_t i = 0; i < plan->nr_slots; i++) {
		const struct plan_slot *slot = &plan->slots[i], *leader = &plan->slots[slot->leader];
		if (slot->event != event)
			continue;
		assert_int_equal(slot->cpu, plan->rings[slot->ring].cpu);
		assert_int_equal(leader->cpu, slot->cpu);
		assert_int_equal(leader->pid, slot->pid);
		assert_int_equal(cpuset_add(&cpus, (unsigned)slot->cpu), 0);
	}
	cpuset_format(&cpus, &is);
	assert_string_equal(buf_text(&is), should);
	buf_fini(&is);
	cpuset_fini(&cpus);
}

static void test_events_are_opened_where_their_pmu_counts(void **state)
{
	struct event events[4] = {event_on("0,2,9"), {.name = NULL}, event_on("2-3"), {.side_channel = true}};
	struct event_list list = {.events = events, .nr = 4};
	struct target target = make_target(EVENT_TARGET_TASKS, "0-2", 2);
	struct diag diag = {""};
	struct plan plan;

	(void)state;
	assert_int_equal(cpuset_parse(&target.other_cpus, "3-4"), 0);
	assert_int_equal(plan_check_cpus(&list, &target, &diag), 0);
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_slots, 2 * (2 + 3 + 1 + 5));
	assert_cpus(&plan, 0, "0,2");
	assert_cpus(&plan, 1, "0-2");
	assert_cpus(&plan, 2, "2");
	assert_cpus(&plan, 3, "0-4");
	plan_fini(&plan);

	/* A group is counted where all of its members are. */
	events[0].nr_members = 3;
	events[1].behind_leader = 1;
	events[2].behind_leader = 2;
	assert_int_equal(plan_check_cpus(&list, &target, &diag), 0);
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_slots, 2 * (1 + 1 + 1 + 5));
	for (size_t e = 0; e < 3; e++)
		assert_cpus(&plan, e, "2");
	plan_fini(&plan);

	/* Where it can be taken apart, each has slots for that on all of its own CPUs. */
	events[1].given = events[2].given = EVENT_GIVEN_WEAK;
	assert_int_equal(plan_check_cpus(&list, &target, &diag), 0);
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_slots, 2 * (2 + 3 + 1 + 5));
	assert_cpus(&plan, 0, "0,2");
	assert_cpus(&plan, 1, "0-2");
	assert_cpus(&plan, 2, "2");
	for (size_t i = 0; i < plan.nr_slots; i++) {
		const struct plan_slot *slot = &plan.slots[i];
		bool together = slot->event < 3 && slot->cpu == 2;
		assert_int_equal(slot->alone, slot->event < 3 && !together);
		assert_int_equal(plan.slots[slot->leader].event, together ? 0 : slot->event);
	}
	plan_fini(&plan);

	/* By thread there is no CPU to choose. */
	target.per_thread = true;
	assert_int_equal(plan_check_cpus(&list, &target, &diag), 0);
	assert_int_equal(plan_make(&list, &target, &plan), 0);
	assert_int_equal(plan.nr_slots, 2 * 4);
	plan_fini(&plan);
	target_fini(&target);
	cpuset_fini(&events[0].cpus);
	cpuset_fini(&events[2].cpus);
}

static void test_events_that_no_cpu_counts_say_so(void **state)
{
	struct event events[2] = {event_on("4-7"), event_on("1")};
	struct event_list list = {.events = events, .nr = 2};
	struct target target = make_target(EVENT_TARGET_CPUS, "0-2", 0);
	struct diag diag = {""};

	(void)state;
	assert_int_equal(plan_check_cpus(&list, &target, &diag), -ENODEV);
	assert_non_null(strstr(diag.text, "its PMU counts on CPUs 4-7, none of which is recorded, of 0-2"));
	events[0].nr_members = 2;
	events[1].behind_leader = 1;
	assert_int_equal(plan_check_cpus(&list, &target, &diag), -ENODEV);
	assert_non_null(strstr(diag.text, "no CPU on which all events of its group are counted"));
	cpuset_fini(&events[0].cpus);
	events[0].nr_members = 0;
	assert_int_equal(plan_check_cpus(&list, &target, &diag), -ENODEV);
	assert_non_null(strstr(diag.text, "all CPUs on which its PMU counts are offline"));
	cpuset_fini(&events[1].cpus);
	target_fini(&target);
}

/* The kernel writes them from one CPU into the rings of all. */
static void test_counts_of_threads_break_rings(void **state)
{
	struct event events[2] = {{.attr.inherit = 1}, {.attr = {.inherit = 1, .inherit_stat = 1}}};
	struct event_list list = {.events = events, .nr = 2};
	struct target target = make_target(EVENT_TARGET_TASKS, "0", 1);

	(void)state;
	assert_true(plan_breaks_rings(&list, &target, 2));
	assert_false(plan_breaks_rings(&list, &target, 1));

	events[1].attr.inherit = 0;
	assert_false(plan_breaks_rings(&list, &target, 2));
	events[1].attr.inherit = 1;
	target.per_thread = true;
	assert_false(plan_breaks_rings(&list, &target, 2));
	target.per_thread = false;
	target.kind = EVENT_TARGET_SYSTEM;
	assert_false(plan_breaks_rings(&list, &target, 2));
	target_fini(&target);
}

static void test_targets_resolve(void **state)
{
	char self[32];
	struct target target;
	struct diag diag;

	(void)state;
	snprintf(self, sizeof(self), "%d,%d", getpid(), getpid());
	assert_int_equal(target_resolve(&(struct target_request){.pids = self}, &target, &diag), 0);
	assert_int_equal(target.kind, EVENT_TARGET_TASKS);
	assert_int_equal(target.nr_tids, 1);
	assert_int_equal(target.tids[0], getpid());
	target_fini(&target);

	assert_int_equal(target_resolve(&(struct target_request){.cpu_list = "0"}, &target, &diag), 0);
	assert_int_equal(target.kind, EVENT_TARGET_CPUS);
	assert_int_equal(cpuset_count(&target.cpus), 1);
	target_fini(&target);
}

static void test_bad_targets_say_why(void **state)
{
	static const struct {
		struct target_request request;
		int err;
		const char *words;
	} rows[] = {
		{{0}, -EINVAL, "nothing to record"},
		{{.pids = "1", .tids = "1"}, -EINVAL, "exclude each other"},
		{{.pids = "1", .all_cpus = true}, -EINVAL, "-a records everything"},
		{{.per_thread = true, .all_cpus = true}, -EINVAL, "choose one"},
		{{.pids = ""}, -EINVAL, "not a list"},
		{{.pids = "1,"}, -EINVAL, "not a list"},
		{{.pids = "1 2"}, -EINVAL, "not a list"},
		{{.pids = "-1"}, -EINVAL, "not a list"},
		{{.pids = "0"}, -EINVAL, "not a list"},
		{{.tids = "99999999999999999999"}, -EINVAL, "not a list"},
		{{.tids = "2147483647"}, -ESRCH, "does not exist"},
		{{.pids = "2147483647"}, -ESRCH, "does not exist"},
		{{.cpu_list = "1-0"}, -EINVAL, "not a list of CPUs"},
		{{.cpu_list = ""}, -EINVAL, "not a list of CPUs"},
		{{.cpu_list = "65535"}, -ENODEV, "not online"},
		{{.cpu_list = "65536"}, -EINVAL, "not a list of CPUs"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct target target;
		struct diag diag = {0};
		assert_int_equal(target_resolve(&rows[i].request, &target, &diag), rows[i].err);
		assert_non_null(strstr(diag.text, rows[i].words));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tasks_share_the_ring_of_each_cpu),
		cmocka_unit_test(test_all_tasks_have_one_slot_per_cpu),
		cmocka_unit_test(test_per_thread_has_a_ring_each),
		cmocka_unit_test(test_members_know_the_slot_of_their_leader),
		cmocka_unit_test(test_channels_have_rings_of_their_own),
		cmocka_unit_test(test_task_events_come_from_other_cpus),
		cmocka_unit_test(test_events_are_opened_where_their_pmu_counts),
		cmocka_unit_test(test_events_that_no_cpu_counts_say_so),
		cmocka_unit_test(test_counts_of_threads_break_rings),
		cmocka_unit_test(test_targets_resolve),
		cmocka_unit_test(test_bad_targets_say_why),
	};
	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
