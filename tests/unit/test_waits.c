/* SPDX-License-Identifier: MIT */
/* What waits are made of switches, wake-ups, forks and losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "record/off_cpu/waits.h"
#include "tasks/off_cpu.h"

enum { MOST = 16, SLEEPING = 1, DEAD = 0x10, TASK = 7 };

static struct {
	struct off_cpu_wait wait;
	struct off_cpu_end end;
	char left[16];
} seen[MOST];
static size_t nr_seen;

static int see(void *ctx, struct span left, const struct off_cpu_wait *wait, const struct off_cpu_end *end)
{
	(void)ctx;
	assert_true(nr_seen < MOST && left.len < sizeof(seen[0].left));
	seen[nr_seen].wait = *wait;
	seen[nr_seen].end = *end;
	memset(seen[nr_seen].left, 0, sizeof(seen[0].left));
	memcpy(seen[nr_seen].left, left.ptr ? left.ptr : "", left.len);
	nr_seen++;
	return 0;
}

static int ignore(void *ctx, struct span left, const struct off_cpu_wait *wait, const struct off_cpu_end *end)
{
	(void)ctx;
	(void)left;
	(void)wait;
	(void)end;
	return 0;
}

static struct waits *start(uint64_t min_ns, uint64_t start_ns)
{
	const struct waits_params params = {.min_ns = min_ns, .emit = see};
	struct waits *waits = waits_new(&params);

	assert_non_null(waits);
	nr_seen = 0;
	waits_start(waits, start_ns);
	return waits;
}

static void leave_as(struct waits *waits, uint64_t time_ns, uint32_t state, uint32_t flags, const char *left)
{
	const struct waits_place place = {.time_ns = time_ns, .pid = TASK, .tid = TASK};

	assert_int_equal(waits_leave(waits, &place, state, flags, (struct span){left, strlen(left)}), 0);
}

static void leave(struct waits *waits, uint64_t time_ns, uint32_t state, const char *left)
{
	leave_as(waits, time_ns, state, 0, left);
}

static void leave_reaped(struct waits *waits, uint64_t time_ns, uint32_t cpu, uint32_t state)
{
	const struct waits_place place = {.time_ns = time_ns, .pid = UINT32_MAX, .tid = UINT32_MAX, .cpu = cpu};
	uint32_t flags = state ? 0 : OFF_CPU_NO_STATE;

	assert_int_equal(waits_leave(waits, &place, state, flags, (struct span){"a", 1}), 0);
}

static void run(struct waits *waits, uint64_t time_ns)
{
	const struct waits_place place = {.time_ns = time_ns, .pid = UINT32_MAX, .tid = TASK, .cpu = 3};

	assert_int_equal(waits_run(waits, &place), 0);
}

static void wake(struct waits *waits, uint64_t time_ns, uint32_t waker)
{
	const struct waits_waker by = {.pid = waker, .tid = waker};

	assert_int_equal(waits_wake(waits, time_ns, TASK, &by), 0);
}

static void lose(struct waits *waits, int cpu, uint64_t from_ns, uint64_t to_ns)
{
	const struct waits_gap gap = {.cpu = cpu, .from_ns = from_ns, .to_ns = to_ns};

	assert_int_equal(waits_gap(waits, &gap), 0);
}

static void expect(size_t at, uint64_t end_ns, uint64_t ns, uint64_t runnable_ns, uint32_t flags)
{
	assert_true(at < nr_seen);
	assert_int_equal(seen[at].end.time_ns, end_ns);
	assert_int_equal(seen[at].end.tid, TASK);
	assert_int_equal(seen[at].wait.ns, ns);
	assert_int_equal(seen[at].wait.runnable_ns, runnable_ns);
	assert_int_equal(seen[at].wait.flags, flags);
}

/* What is large takes memory while the task waits only. */
static void test_memory_of_stacks(void **state)
{
	static const uint8_t stack[65000];
	const struct waits_params params = {.emit = ignore};
	struct waits *waits = waits_new(&params);

	(void)state;
	assert_non_null(waits);
	waits_start(waits, 0);
	for (uint32_t tid = 1; tid <= 3; tid++) {
		const struct waits_place place = {.time_ns = 1000, .pid = tid, .tid = tid};
		for (int again = 0; again < 2; again++)
			assert_int_equal(waits_leave(waits, &place, SLEEPING, 0, (struct span){stack, sizeof(stack)}),
					 0);
		assert_int_equal(waits_left_bytes(waits), tid * sizeof(stack));
	}
	assert_int_equal(waits_run(waits, &(struct waits_place){.time_ns = 2000, .pid = 1, .tid = 1}), 0);
	assert_int_equal(waits_left_bytes(waits), 2 * sizeof(stack));
	assert_int_equal(waits_exit(waits, &(struct waits_place){.time_ns = 2000, .pid = 2, .tid = 2}, false), 0);
	assert_int_equal(waits_left_bytes(waits), sizeof(stack));
	assert_int_equal(waits_stop(waits, 3000), 0);
	assert_int_equal(waits_left_bytes(waits), 0);
	waits_free(waits);
}

/* Was there before the start, and no switch of it came. */
static void test_tasks_that_were_not_seen(void **state)
{
	struct waits *waits = waits_new(&(struct waits_params){.emit = see});
	struct buf tids = {0};

	(void)state;
	assert_non_null(waits);
	nr_seen = 0;
	assert_int_equal(waits_know(waits, TASK, TASK), 0);
	assert_int_equal(waits_know(waits, TASK, TASK + 1), 0);
	waits_start(waits, 1000);
	assert_int_equal(waits_run(waits, &(struct waits_place){.time_ns = 1500, .pid = TASK, .tid = TASK + 1}), 0);
	waits_list_unseen(waits, &tids);
	assert_int_equal(tids.len, sizeof(uint32_t));
	assert_int_equal(*(const uint32_t *)(const void *)tids.data, TASK);
	waits_found(waits, TASK, SLEEPING, 1900);
	tids.len = 0;
	waits_list_unseen(waits, &tids);
	assert_int_equal(tids.len, 0);
	nr_seen = 0;
	assert_int_equal(waits_stop(waits, 2000), 0);
	assert_int_equal(nr_seen, 1);
	expect(0, 2000, 1000, 0, OFF_CPU_BEGAN_EARLIER | OFF_CPU_GOES_ON | OFF_CPU_NO_WAKE_UP);
	assert_int_equal(seen[0].wait.state, SLEEPING);
	buf_fini(&tids);
	waits_free(waits);
}

/* Others than those of which a fork told may be described as well. */
static void test_children(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	assert_false(waits_is_child(waits, TASK));
	assert_int_equal(waits_know(waits, TASK, TASK), 0);
	assert_false(waits_is_child(waits, TASK));
	const struct waits_place child = {.time_ns = 1000, .pid = TASK + 1, .tid = TASK + 1};
	assert_int_equal(waits_fork(waits, &child), 0);
	assert_true(waits_is_child(waits, TASK + 1));
	assert_int_equal(waits_replace(waits, &child), 0);
	assert_false(waits_is_child(waits, TASK + 1));
	waits_free(waits);
}

/* While events are disabled many tasks may come and go: none is kept. */
static void test_tasks_that_end_before_the_start(void **state)
{
	(void)state;
	for (int mode = 0; mode < 3; mode++) {
		const bool leaves = mode > 0, states_known = mode < 2;
		struct waits *waits = waits_new(&(struct waits_params){.states_known = states_known, .emit = see});
		const struct waits_place forked = {.time_ns = 100, .pid = TASK, .tid = TASK};
		const struct waits_place known = {.time_ns = 200, .pid = TASK + 1, .tid = TASK + 1};
		assert_non_null(waits);
		nr_seen = 0;
		assert_int_equal(waits_know(waits, TASK + 1, TASK + 1), 0);
		assert_int_equal(waits_fork(waits, &forked), 0);
		assert_int_equal(waits_exit(waits, &forked, leaves), 0);
		assert_int_equal(waits_exit(waits, &known, leaves), 0);
		/* Without states its last switch would look like the beginning of a wait. */
		assert_int_equal(waits_knows(waits, TASK), leaves && !states_known);
		waits_start(waits, 1000);
		for (uint32_t tid = TASK; tid <= TASK + 1 && !leaves; tid++) /* others have these numbers by then */
			waits_found(waits, tid, SLEEPING, 1100);
		assert_int_equal(waits_stop(waits, 2000), 0);
		assert_int_equal(nr_seen, 0);
		waits_free(waits);
	}
}

static void test_states(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	leave(waits, 1000, SLEEPING, "a");
	wake(waits, 1600, 9);
	wake(waits, 1700, 10); /* it is awake already */
	run(waits, 2000);
	expect(0, 2000, 1000, 400, 0);
	assert_int_equal(seen[0].wait.waker_tid, 9);
	assert_int_equal(seen[0].end.cpu, 3);
	assert_string_equal(seen[0].left, "a");
	leave(waits, 3000, 0x100, "b"); /* preempted */
	run(waits, 3500);
	expect(1, 3500, 500, 500, 0);
	leave(waits, 4000, SLEEPING, "c");
	run(waits, 4100);
	expect(2, 4100, 100, 0, OFF_CPU_NO_WAKE_UP);
	leave(waits, 5000, SLEEPING, "d");
	wake(waits, 5100, 0);
	run(waits, 5200);
	expect(3, 5200, 200, 100, OFF_CPU_BY_INTERRUPT);
	leave(waits, 6000, DEAD, "e");
	assert_int_equal(waits_stop(waits, 7000), 0);
	assert_int_equal(nr_seen, 4);
	waits_free(waits);
}

/* The record of a wake-up may be older than that of the switch that it ends. */
static void test_wake_up_on_the_way_out(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	run(waits, 1000);
	wake(waits, 1990, 9);
	leave(waits, 2000, SLEEPING, "a");
	run(waits, 2100);
	expect(0, 2100, 100, 100, 0);
	wake(waits, 3000, 9); /* it did not sleep in the end, but later */
	leave(waits, 90000, SLEEPING, "b");
	run(waits, 90100);
	expect(1, 90100, 100, 0, OFF_CPU_NO_WAKE_UP);
	waits_free(waits);
}

/* It ran before records were lost, and was woken behind that: it was off already, and left again later. */
static void test_wake_up_behind_a_loss(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	run(waits, 1000);
	lose(waits, 3, 1100, 1500);
	wake(waits, 1600, 8);
	leave(waits, 1700, SLEEPING, "a");
	expect(0, 1700, 600, 0, OFF_CPU_UNKNOWN);
	run(waits, 2000);
	expect(1, 2000, 300, 0, OFF_CPU_NO_WAKE_UP);
	assert_int_equal(nr_seen, 2);
	waits_free(waits);
}

static void test_losses(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	leave(waits, 1000, SLEEPING, "a");
	lose(waits, -1, 1200, 1500); /* it may have run */
	run(waits, 2000);
	expect(0, 2000, 1000, 0, OFF_CPU_UNKNOWN);
	leave(waits, 3000, SLEEPING, "b");
	leave(waits, 5000, SLEEPING, "c"); /* it has run */
	expect(1, 5000, 2000, 0, OFF_CPU_UNKNOWN | OFF_CPU_NO_WAKE_UP);
	run(waits, 6000);
	expect(2, 6000, 1000, 0, OFF_CPU_NO_WAKE_UP);
	lose(waits, 3, 6500, 7000);
	run(waits, 8000);                          /* it has left */
	expect(3, 8000, 1500, 0, OFF_CPU_UNKNOWN); /* it ran up to the gap */
	assert_int_equal(nr_seen, 4);
	waits_free(waits);
}

/* A task leaves the CPU where it runs: only what is missing of that one makes its time there unknown. */
static void test_losses_while_it_runs(void **state)
{
	const struct waits_place exit = {.time_ns = 9000, .pid = TASK, .tid = TASK, .cpu = 3};
	struct waits *waits = start(0, 0);

	(void)state;
	run(waits, 1000);
	lose(waits, 5, 1100, 1900);
	leave(waits, 2000, SLEEPING, "a");
	assert_int_equal(nr_seen, 0);
	run(waits, 2500);
	expect(0, 2500, 500, 0, OFF_CPU_NO_WAKE_UP);
	lose(waits, 3, 3000, 3500);
	lose(waits, 3, 4000, 4500);
	leave(waits, 5000, SLEEPING, "b");
	expect(1, 5000, 2000, 0, OFF_CPU_UNKNOWN);
	run(waits, 5100);
	lose(waits, -1, 8000, 8500);
	assert_int_equal(waits_exit(waits, &exit, true), 0);
	expect(3, 9000, 1000, 0, OFF_CPU_UNKNOWN);
	assert_int_equal(waits_stop(waits, 10000), 0);
	assert_int_equal(nr_seen, 4);
	waits_free(waits);
}

/* It ends, and its last switch is the only one that is there of its exit. */
static void test_losses_before_the_last_switch(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	leave(waits, 1000, SLEEPING, "a");
	lose(waits, 3, 1200, 1500);
	leave(waits, 2000, DEAD, "b");
	expect(0, 2000, 1000, 0, OFF_CPU_UNKNOWN);
	assert_false(waits_has(waits, TASK));
	run(waits, 3000);
	lose(waits, 3, 3200, 3500);
	leave_reaped(waits, 4000, 3, DEAD);
	expect(1, 4000, 800, 0, OFF_CPU_UNKNOWN);
	assert_int_equal(nr_seen, 2);
	waits_free(waits);
}

/* A task that was there before, and of which nothing came but its end. */
static void test_losses_of_all_but_the_end(void **state)
{
	const struct waits_place exit = {.time_ns = 9000, .pid = TASK, .tid = TASK, .cpu = 3};

	(void)state;
	for (unsigned lost = 0; lost < 2; lost++) {
		struct waits *waits = start(0, 1000);
		assert_int_equal(waits_know(waits, TASK, TASK), 0);
		if (lost)
			lose(waits, 5, 3000, 4000);
		assert_int_equal(waits_exit(waits, &exit, false), 0);
		assert_int_equal(waits_stop(waits, 10000), 0);
		assert_int_equal(nr_seen, lost);
		if (lost)
			expect(0, 9000, 8000, 0, OFF_CPU_UNKNOWN | OFF_CPU_NO_STATE);
		waits_free(waits);
	}
}

/* Of very many losses those that are long past count as one. */
static void test_very_many_losses(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	for (uint64_t i = 5000; i--;)
		lose(waits, 3, 1000000 + i * 1000, 1000010 + i * 1000);
	leave(waits, 500000, SLEEPING, "a");
	run(waits, 500001);
	expect(0, 500001, 1, 0, OFF_CPU_NO_WAKE_UP);
	leave(waits, 5998100, SLEEPING, "b");
	expect(1, 5998100, 4998100, 0, OFF_CPU_UNKNOWN);
	run(waits, 5998900);
	expect(2, 5998900, 800, 0, OFF_CPU_NO_WAKE_UP);
	leave(waits, 5999005, SLEEPING, "c");
	expect(3, 5999005, 5, 0, OFF_CPU_UNKNOWN);
	waits_free(waits);
}

/* Losses are told of before what was between them, in any order. */
static void test_losses_to_come(void **state)
{
	struct waits *waits = start(0, 0);

	(void)state;
	lose(waits, 5, 5000, 5500);
	lose(waits, 5, 2500, 9000);
	lose(waits, 5, 1100, 1200);
	leave(waits, 1500, SLEEPING, "a");
	run(waits, 2000);
	expect(0, 2000, 500, 0, OFF_CPU_NO_WAKE_UP);
	leave(waits, 2100, SLEEPING, "b");
	run(waits, 2500); /* the last one before the loss */
	expect(1, 2500, 400, 0, OFF_CPU_NO_WAKE_UP);
	leave(waits, 3000, SLEEPING, "c");
	run(waits, 4000); /* another CPU may have had it in between */
	expect(2, 4000, 1000, 0, OFF_CPU_UNKNOWN);
	leave(waits, 6000, SLEEPING, "d");
	run(waits, 8000);
	expect(3, 8000, 2000, 0, OFF_CPU_UNKNOWN);
	leave(waits, 9000, SLEEPING, "e");
	run(waits, 9500);
	expect(4, 9500, 500, 0, OFF_CPU_NO_WAKE_UP);
	waits_free(waits);
}

/* Events that are on are switched on once more: nothing was stopped. */
static void test_start_again(void **state)
{
	struct waits *waits = start(0, 1000);

	(void)state;
	leave(waits, 2000, SLEEPING, "a");
	waits_start(waits, 3000);
	run(waits, 4000);
	expect(0, 4000, 2000, 0, OFF_CPU_NO_WAKE_UP);
	waits_free(waits);
}

static void test_sums(void **state)
{
	struct waits *waits = start(1000, 0);
	uint64_t time_ns = 0;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		leave(waits, time_ns += 100, 0, "a");
		run(waits, time_ns += 50);
	}
	leave(waits, time_ns += 100, 0, "long");
	run(waits, time_ns += 1000);
	assert_int_equal(nr_seen, 1);
	assert_string_equal(seen[0].left, "long");
	assert_int_equal(waits_stop(waits, time_ns + 10), 0);
	expect(1, time_ns + 10, 500, 500, OFF_CPU_SUM);
	assert_int_equal(seen[1].wait.nr_times, 10);
	assert_int_equal(nr_seen, 2);
	waits_free(waits);
}

/* Readers take short times for such on the CPU until their sum comes: it comes before they are many milliseconds. */
static void test_sums_that_are_large(void **state)
{
	enum { MS = 1000000 };
	struct waits *waits = start(10 * MS, 0);

	(void)state;
	for (uint64_t time_ns = MS; time_ns < 40 * MS; time_ns += 10 * MS) {
		leave(waits, time_ns, 0, "a");
		run(waits, time_ns + 3 * MS);
	}
	expect(0, 14 * MS, 6 * MS, 6 * MS, OFF_CPU_SUM);
	expect(1, 34 * MS, 6 * MS, 6 * MS, OFF_CPU_SUM);
	assert_int_equal(nr_seen, 2);
	waits_free(waits);
}

/* Adds two times of 100 ns to a sum. */
static void wait_shortly(struct waits *waits, uint64_t time_ns)
{
	for (unsigned i = 0; i < 2; i++) {
		leave(waits, time_ns + i * 200, 0, "a");
		run(waits, time_ns + i * 200 + 100);
	}
}

/* No sum is lost or late where a task ends, or another one has its number. */
static void test_sums_of_tasks_that_end(void **state)
{
	const struct waits_place place = {.time_ns = 5000, .pid = TASK, .tid = TASK, .cpu = 3};
	struct waits *waits = start(1000, 0);

	(void)state;
	wait_shortly(waits, 1000);
	assert_int_equal(waits_fork(waits, &place), 0);
	expect(0, 5000, 200, 200, OFF_CPU_SUM);
	run(waits, 6500);
	expect(1, 6500, 1500, 1500, OFF_CPU_STARTING);
	wait_shortly(waits, 7000);
	assert_int_equal(waits_exit(waits, &place, true), 0);
	expect(2, 5000, 200, 200, OFF_CPU_SUM);
	assert_int_equal(nr_seen, 3);
	waits_free(waits);
}

/* Threads have no number any more when they leave the CPU for ever: nothing is kept of them. */
static void test_end_of_a_thread(void **state)
{
	const struct waits_place exit = {.time_ns = 1500, .pid = TASK, .tid = TASK};
	const struct waits_place idle = {.time_ns = 1600, .cpu = 3};
	struct waits *waits = start(0, 0);

	(void)state;
	run(waits, 1000);
	leave_reaped(waits, 2000, 3, 0); /* of another one: this one does not end */
	leave_reaped(waits, 2000, 4, DEAD);
	assert_true(waits_has(waits, TASK));
	assert_int_equal(waits_exit(waits, &exit, true), 0);
	leave_reaped(waits, 2000, 4, 0);
	assert_true(waits_has(waits, TASK));
	leave_reaped(waits, 2000, 3, 0);
	assert_false(waits_has(waits, TASK));
	run(waits, 3000);
	leave_reaped(waits, 2000, 3, DEAD);
	assert_false(waits_has(waits, TASK));
	run(waits, 4000);
	assert_int_equal(waits_run(waits, &idle), 0);
	leave_reaped(waits, 2000, 3, DEAD); /* of one that ran behind it */
	assert_true(waits_has(waits, TASK));
	assert_int_equal(nr_seen, 0);
	waits_free(waits);
}

static void test_start_and_end(void **state)
{
	struct waits *waits = start(0, 1000);
	const struct waits_place child = {.time_ns = 1500, .pid = TASK, .tid = 8};
	const struct waits_place child_runs = {.time_ns = 1700, .pid = TASK, .tid = 8};

	(void)state;
	assert_int_equal(waits_know(waits, TASK, TASK), 0);
	run(waits, 1200); /* off since before the start */
	expect(0, 1200, 200, 0, OFF_CPU_NO_STATE | OFF_CPU_BEGAN_EARLIER | OFF_CPU_NO_WAKE_UP);
	assert_int_equal(waits_fork(waits, &child), 0);
	assert_int_equal(waits_run(waits, &child_runs), 0);
	assert_int_equal(seen[1].wait.flags, OFF_CPU_STARTING);
	assert_int_equal(seen[1].wait.runnable_ns, 200);
	leave(waits, 2000, SLEEPING, "a");
	assert_int_equal(waits_stop(waits, 3000), 0); /* events off */
	expect(2, 3000, 1000, 0, OFF_CPU_GOES_ON | OFF_CPU_NO_WAKE_UP);
	run(waits, 3500);
	leave(waits, 3600, SLEEPING, "b");
	waits_start(waits, 4000); /* and on */
	run(waits, 4500);
	expect(3, 4500, 500, 0, OFF_CPU_BEGAN_EARLIER | OFF_CPU_NO_WAKE_UP);
	assert_int_equal(nr_seen, 4);
	assert_int_equal(waits_know(waits, 20, 20), 0); /* sleeps, and never runs; of task 8 that is not known */
	waits_found(waits, 20, SLEEPING, 4000);
	leave(waits, 4600, SLEEPING, "c");
	const struct waits_place exit = {.time_ns = 4700, .pid = TASK, .tid = TASK, .cpu = 3};
	assert_int_equal(waits_exit(waits, &exit, true), 0); /* it runs: the switch to it was not recorded */
	expect(4, 4700, 100, 0, OFF_CPU_UNKNOWN | OFF_CPU_NO_WAKE_UP);
	assert_int_equal(waits_stop(waits, 5000), 0);
	assert_int_equal(nr_seen, 6);
	assert_int_equal(seen[5].end.tid, 20);
	assert_int_equal(seen[5].wait.ns, 1000);
	waits_free(waits);
}

/* What a task did when it was looked at, behind the start, it had done since the start, if it has not run in between.
 */
/* Events are disabled one after the other: what the last ones tell is no wait in the time when they are on again. */
static void test_switches_while_events_are_disabled(void **state)
{
	(void)state;
	for (int ends = 0; ends <= 1; ends++) {
		struct waits *waits = start(0, 1000);
		run(waits, 1100);
		leave(waits, 1200, SLEEPING, "a");
		run(waits, 1500);
		expect(0, 1500, 300, 0, OFF_CPU_NO_WAKE_UP);
		assert_int_equal(waits_stop(waits, 2000), 0);
		leave(waits, 2100, SLEEPING, "b");
		waits_all_stopped(waits);
		waits_start(waits, 3000);
		if (!ends) { /* it may have waited for anything else */
			run(waits, 3500);
			expect(1, 3500, 500, 0, OFF_CPU_NO_STATE | OFF_CPU_BEGAN_EARLIER | OFF_CPU_NO_WAKE_UP);
			assert_string_equal(seen[1].left, "");
		}
		assert_int_equal(waits_stop(waits, 4000), 0);
		assert_int_equal(nr_seen, ends ? 1 : 2);
		waits_free(waits);
	}
}

static void test_states_that_were_found(void **state)
{
	static const struct {
		uint32_t state;
		uint64_t found_ns, runs_ns, runnable_ns; /* runs_ns 0: it does not */
		uint32_t flags, nr;
	} cases[] = {
		{0, 1100, 1500, 500, 0, 1},
		{SLEEPING, 1100, 1500, 0, OFF_CPU_NO_WAKE_UP, 1},
		{0, 1100, 0, 0, 0, 0}, /* it may run all the time */
		{SLEEPING, 1100, 0, 0, OFF_CPU_NO_WAKE_UP | OFF_CPU_GOES_ON, 1},
		{OFF_CPU_PREEMPTED, 1100, 1500, 500, 0, 1},
		{OFF_CPU_PREEMPTED, 1100, 0, 1000, OFF_CPU_GOES_ON, 1},              /* never got a CPU */
		{SLEEPING, 1600, 1500, 0, OFF_CPU_NO_WAKE_UP | OFF_CPU_NO_STATE, 1}, /* that is another one */
		{SLEEPING, 900, 1500, 0, OFF_CPU_NO_WAKE_UP | OFF_CPU_NO_STATE, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct waits *waits = start(0, 1000);
		assert_int_equal(waits_know(waits, TASK, TASK), 0);
		waits_found(waits, TASK, cases[i].state, cases[i].found_ns);
		if (cases[i].runs_ns)
			run(waits, cases[i].runs_ns);
		assert_int_equal(waits_stop(waits, 2000), 0);
		assert_int_equal(nr_seen, cases[i].nr);
		if (nr_seen) {
			const uint64_t end_ns = cases[i].runs_ns ? cases[i].runs_ns : 2000;
			expect(0, end_ns, end_ns - 1000, cases[i].runnable_ns, cases[i].flags | OFF_CPU_BEGAN_EARLIER);
			const bool sleeps = cases[i].state == SLEEPING && !(cases[i].flags & OFF_CPU_NO_STATE);
			assert_int_equal(seen[0].wait.state, sleeps ? SLEEPING : 0);
		}
		waits_free(waits);
	}
}

/* Of a task whose last run was lost nothing is unknown after its end, whatever else is called for it then. */
static void test_lost_before_the_end(void **state)
{
	const struct waits_place exit = {.time_ns = 1500, .pid = TASK, .tid = TASK, .cpu = 3};
	static const struct {
		bool states_known, leaves;
	} kinds[] = {{false, false}, {true, false}, {false, true}, {true, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct waits_params params = {.states_known = kinds[i].states_known, .emit = see};
		struct waits *waits = waits_new(&params);
		nr_seen = 0;
		assert_non_null(waits);
		waits_start(waits, 0);
		leave(waits, 1000, SLEEPING, "a");
		assert_int_equal(waits_exit(waits, &exit, kinds[i].leaves), 0);
		expect(0, 1500, 500, 0, OFF_CPU_UNKNOWN | OFF_CPU_NO_WAKE_UP);
		assert_int_equal(waits_has(waits, TASK), kinds[i].leaves);
		if (kinds[i].leaves && kinds[i].states_known) { /* it may wait once more before it is dead */
			leave(waits, 1600, SLEEPING, "b");
			run(waits, 1700);
			expect(1, 1700, 100, 0, OFF_CPU_NO_WAKE_UP);
			nr_seen--;
		}
		assert_int_equal(waits_stop(waits, 9000), 0); /* its last switch was lost as well */
		assert_int_equal(nr_seen, 1);
		waits_free(waits);
	}
}

/* Its fork and all that it did were lost: its last switch is not the beginning of a wait. */
static void test_lost_up_to_the_end(void **state)
{
	const struct waits_place exit = {.time_ns = 1500, .pid = TASK, .tid = TASK, .cpu = 3};

	(void)state;
	for (unsigned forks_known = 0; forks_known < 2; forks_known++) {
		for (unsigned reaped = 0; reaped < 2; reaped++) {
			const struct waits_params params = {.forks_known = forks_known, .emit = see};
			struct waits *waits = waits_new(&params);
			nr_seen = 0;
			assert_non_null(waits);
			waits_start(waits, 1000);
			assert_int_equal(waits_exit(waits, &exit, true), 0);
			assert_true(waits_has(waits, TASK));
			if (reaped)
				leave_reaped(waits, 1600, 3, 0);
			else
				leave_as(waits, 1600, 0, OFF_CPU_NO_STATE, "");
			assert_false(waits_has(waits, TASK));
			assert_int_equal(waits_stop(waits, 9000), 0);
			assert_int_equal(nr_seen, 0);
			waits_free(waits);
		}
	}
}

/* Behind its end a task may be preempted, and lose its number before it runs again: that is not unknown for long. */
static void test_lost_behind_the_end(void **state)
{
	const struct waits_params params = {.states_known = true, .emit = see};
	const struct waits_place exit = {.time_ns = 1500, .pid = TASK, .tid = TASK, .cpu = 3};

	(void)state;
	for (unsigned runs = 0; runs < 2; runs++) {
		struct waits *waits = waits_new(&params);
		nr_seen = 0;
		assert_non_null(waits);
		waits_start(waits, 0);
		run(waits, 1000);
		assert_int_equal(waits_exit(waits, &exit, true), 0);
		leave(waits, 1600, 0, "a");
		lose(waits, 3, 1700, 1800);
		if (runs)
			run(waits, 1900);
		assert_int_equal(waits_stop(waits, 9000), 0);
		assert_int_equal(nr_seen, 0);
		waits_free(waits);
	}
}

/* No switch tells what a task did that was new while the events were off: it may have ended. */
static void test_fork_before_the_start(void **state)
{
	const struct waits_params params = {.states_known = true, .emit = see};
	const struct waits_place task = {.time_ns = 1000, .pid = TASK, .tid = TASK};
	const struct waits_place other = {.time_ns = 1000, .pid = TASK, .tid = 8};
	struct waits *waits = waits_new(&params);

	(void)state;
	nr_seen = 0;
	assert_non_null(waits);
	assert_int_equal(waits_fork(waits, &task), 0);
	assert_int_equal(waits_fork(waits, &other), 0);
	waits_start(waits, 2000);
	assert_false(waits_has(waits, TASK));
	run(waits, 2500);
	expect(0, 2500, 500, 0, OFF_CPU_NO_STATE | OFF_CPU_BEGAN_EARLIER | OFF_CPU_NO_WAKE_UP);
	assert_int_equal(waits_stop(waits, 5000), 0);
	assert_int_equal(nr_seen, 1);
	waits_free(waits);
}

/* Where rings were overwritten there is no initial state, and each fork is told. */
static void test_all_forks_known(void **state)
{
	const struct waits_params params = {.forks_known = true, .emit = see};
	const struct waits_place place = {.time_ns = 1500, .pid = TASK, .tid = TASK}, ended = {.tid = UINT32_MAX};
	struct waits *waits = waits_new(&params);

	(void)state;
	nr_seen = 0;
	waits_start(waits, 1000);
	run(waits, 1200);
	expect(0, 1200, 200, 0, OFF_CPU_NO_STATE | OFF_CPU_BEGAN_EARLIER | OFF_CPU_NO_WAKE_UP);
	assert_int_equal(waits_leave(waits, &ended, SLEEPING, 0, (struct span){0}), 0);
	assert_int_equal(waits_run(waits, &ended), 0);
	assert_int_equal(waits_exit(waits, &place, false), 0); /* of which nothing is known from then on */
	assert_false(waits_has(waits, TASK));
	assert_int_equal(waits_stop(waits, 3000), 0);
	assert_int_equal(nr_seen, 1);
	waits_free(waits);
}

static void leave_without_sample(struct waits *waits, uint64_t time_ns, uint32_t flags)
{
	leave_as(waits, time_ns, 0, flags, "");
}

/* Its last switch has a sample, which tells that it has ended, and behind it a record of its own. */
static void test_end_of_a_task(void **state)
{
	const struct waits_params params = {.states_known = true, .emit = see};
	struct waits *waits = waits_new(&params);

	(void)state;
	nr_seen = 0;
	assert_non_null(waits);
	waits_start(waits, 0);
	run(waits, 1000);
	leave_without_sample(waits, 1500, OFF_CPU_NO_STATE); /* the sample was lost */
	run(waits, 1600);
	expect(0, 1600, 100, 0, OFF_CPU_NO_STATE | OFF_CPU_NO_WAKE_UP);
	leave(waits, 2000, DEAD, "e");
	leave_without_sample(waits, 2001, OFF_CPU_NO_STATE);
	assert_int_equal(waits_stop(waits, 5000), 0);
	assert_int_equal(nr_seen, 1);
	waits_free(waits);
}

/* A sample without a state: the record behind it tells whether the task was preempted. */
static void test_end_of_a_task_without_states(void **state)
{
	const struct waits_place exit = {.time_ns = 1500, .pid = TASK, .tid = TASK};
	struct waits *waits = start(0, 0);

	(void)state;
	run(waits, 1000);
	assert_int_equal(waits_exit(waits, &exit, true), 0);
	leave_as(waits, 2000, 0, OFF_CPU_NO_STATE, "a");
	leave_without_sample(waits, 2001, 0);
	run(waits, 3000);
	expect(0, 3000, 1000, 1000, 0);
	leave_as(waits, 4000, 0, OFF_CPU_NO_STATE, "b");
	leave_without_sample(waits, 4001, OFF_CPU_NO_STATE);
	assert_int_equal(waits_stop(waits, 5000), 0);
	assert_int_equal(nr_seen, 1);
	waits_free(waits);
}

/* Tasks that have ended are not found again, nor in the place of others whose numbers are alike in their low bits. */
static void test_many_tasks(void **state)
{
	enum { NR = 100, ROUNDS = 4 };
	const struct waits_params params = {.emit = ignore, .states_known = true};
	struct waits *waits = waits_new(&params);
	uint64_t time_ns = 1000;

	(void)state;
	assert_non_null(waits);
	waits_start(waits, 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (uint32_t tid = 1; tid <= NR; tid++) {
			const struct waits_place place = {.time_ns = time_ns++, .pid = tid, .tid = tid};
			assert_false(waits_knows(waits, tid));
			assert_int_equal(waits_run(waits, &place), 0);
			assert_true(waits_has(waits, tid));
		}
		for (uint32_t tid = NR; tid; tid--) {
			const struct waits_place place = {.time_ns = time_ns++, .pid = tid, .tid = tid};
			assert_true(waits_has(waits, tid));
			assert_int_equal(waits_leave(waits, &place, DEAD, 0, (struct span){"a", 1}), 0);
			for (uint32_t other = 1; other <= NR; other++)
				assert_int_equal(waits_knows(waits, other), other < tid);
		}
	}
	waits_free(waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tasks_that_were_not_seen),
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_tasks_that_end_before_the_start),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_memory_of_stacks),
		cmocka_unit_test(test_wake_up_on_the_way_out),
		cmocka_unit_test(test_wake_up_behind_a_loss),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_losses_while_it_runs),
		cmocka_unit_test(test_losses_before_the_last_switch),
		cmocka_unit_test(test_losses_of_all_but_the_end),
		cmocka_unit_test(test_very_many_losses),
		cmocka_unit_test(test_losses_to_come),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sums_that_are_large),
		cmocka_unit_test(test_sums_of_tasks_that_end),
		cmocka_unit_test(test_end_of_a_thread),
		cmocka_unit_test(test_start_and_end),
		cmocka_unit_test(test_switches_while_events_are_disabled),
		cmocka_unit_test(test_states_that_were_found),
		cmocka_unit_test(test_lost_before_the_end),
		cmocka_unit_test(test_lost_up_to_the_end),
		cmocka_unit_test(test_lost_behind_the_end),
		cmocka_unit_test(test_fork_before_the_start),
		cmocka_unit_test(test_all_forks_known),
		cmocka_unit_test(test_start_again),
		cmocka_unit_test(test_end_of_a_task),
		cmocka_unit_test(test_end_of_a_task_without_states),
		cmocka_unit_test(test_many_tasks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
