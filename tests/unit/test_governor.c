/* SPDX-License-Identifier: MIT */
/* What is done about what is seen: a function of made-up observations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/adapt/governor.h"

#define MS UINT64_C(1000000)

/* A recording whose clocks we turn. */
struct fixture {
	struct governor governor;
	struct governor_stats stats;
	size_t nr_actions;           /* so far */
	struct governor_action last; /* of them */
};

static void look(struct fixture *fixture)
{
	struct governor_action actions[GOVERNOR_MOST_ACTIONS];
	size_t nr = governor_decide(&fixture->governor, &fixture->stats, actions);

	assert_true(nr <= GOVERNOR_MOST_ACTIONS);
	fixture->nr_actions += nr;
	if (nr)
		fixture->last = actions[nr - 1];
}

static struct fixture begin(double cpus, int level)
{
	struct fixture fixture = {.stats = {.now_ns = 1000 * MS, .cpu_ns = 77 * MS}};

	governor_init(&fixture.governor, &(struct governor_bounds){.cpus = cpus, .level = level});
	assert_true(fixture.governor.next_ns == UINT64_MAX);
	look(&fixture);
	/* Within a bound it begins with little. */
	assert_int_equal(fixture.nr_actions, cpus && level > 1);
	assert_int_equal(governor_level(&fixture.governor), cpus && level > 1 ? 1 : level);
	fixture.nr_actions = 0;
	return fixture;
}

static void pass(struct fixture *fixture, uint64_t ns)
{
	fixture->stats.now_ns += ns;
	look(fixture);
}

static void extents(struct fixture *fixture, size_t nr_free, size_t nr_to_pack, size_t nr_unwritten)
{
	fixture->stats.nr_extents = 20;
	fixture->stats.nr_free = nr_free;
	fixture->stats.nr_to_pack = nr_to_pack;
	fixture->stats.nr_unwritten = nr_unwritten;
}

static void nothing_to_decide(void **state)
{
	struct fixture fixture = begin(0, 0);

	(void)state;
	extents(&fixture, 0, 10, 0); /* memory alone: nothing is compressed */
	fixture.stats.cpu_ns += 5000 * MS;
	pass(&fixture, 100 * MS);
	assert_int_equal(fixture.nr_actions, 0);
	assert_true(fixture.governor.next_ns == UINT64_MAX);
}

static void level_falls_when_compressors_are_late(void **state)
{
	static const struct {
		size_t nr_free;
		int level;
	} steps[] = {{11, 9}, {6, 3}, {2, 1}};
	struct fixture fixture = begin(0, 19);

	(void)state;
	extents(&fixture, 12, 4, 0); /* a quarter of those: not yet */
	pass(&fixture, 10 * MS);
	assert_int_equal(fixture.nr_actions, 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		extents(&fixture, steps[i].nr_free, 16 - steps[i].nr_free, 0);
		for (int k = 0; k < 2; k++) { /* once each */
			pass(&fixture, 10 * MS);
			assert_int_equal(fixture.nr_actions, i + 1);
		}
		assert_int_equal(fixture.last.kind, LEDGER_LEVEL_CHANGED);
		assert_int_equal(fixture.last.to, steps[i].level);
		assert_int_equal(governor_level(&fixture.governor), steps[i].level);
	}
	/* Stored only when the fastest was tried. */
	fixture.stats.nr_packed++;
	pass(&fixture, 10 * MS);
	assert_int_equal(fixture.last.to, 0);
	assert_int_equal(governor_level(&fixture.governor), 0);
	assert_true(fixture.governor.next_ns <= fixture.stats.now_ns + 50 * MS);
}

/*
 * The first is still under way at a level that takes long: what is done behind it waits for that, not for the output.
 */
static void what_is_done_behind_one_that_is_not_waits_for_compressors(void **state)
{
	struct fixture fixture = begin(0, 19);

	(void)state;
	extents(&fixture, 9, 0, 0);
	fixture.stats.nr_packing = 2;
	fixture.stats.nr_blocked = 7;
	pass(&fixture, 10 * MS);
	assert_int_equal(governor_level(&fixture.governor), 9);
}

/* As many at a time as there are CPUs, and nothing behind them. */
static void who_keeps_up_is_left_alone(void **state)
{
	struct fixture fixture = begin(0, 19);

	(void)state;
	extents(&fixture, 2, 0, 0);
	fixture.stats.nr_packing = 16;
	pass(&fixture, 10 * MS);
	assert_int_equal(fixture.nr_actions, 0);
	extents(&fixture, 0, 0, 0); /* who drains waits for them */
	fixture.stats.nr_packing = 18;
	pass(&fixture, 10 * MS);
	assert_int_equal(fixture.last.to, 1);
}

/* More bytes would be no help. */
static void level_stays_when_the_output_is_late(void **state)
{
	struct fixture fixture = begin(0, 19);

	(void)state;
	extents(&fixture, 0, 2, 16);
	pass(&fixture, 10 * MS);
	extents(&fixture, 0, 0, 18);
	pass(&fixture, 10 * MS);
	assert_int_equal(fixture.nr_actions, 0);
	assert_true(fixture.governor.next_ns == UINT64_MAX);
}

static void level_comes_back_by_and_by(void **state)
{
	struct fixture fixture = begin(0, 9);
	uint64_t from;

	(void)state;
	extents(&fixture, 2, 15, 0);
	pass(&fixture, 10 * MS);
	fixture.stats.nr_packed++;
	pass(&fixture, 10 * MS);
	assert_int_equal(governor_level(&fixture.governor), 0);
	extents(&fixture, 15, 3, 0); /* room, but some still wait */
	for (int i = 0; i < 100; i++)
		pass(&fixture, 10 * MS);
	assert_int_equal(governor_level(&fixture.governor), 0);
	extents(&fixture, 18, 0, 1);
	pass(&fixture, 10 * MS);
	from = fixture.stats.now_ns;
	for (int level = 1; level <= 16; level *= 2) {
		assert_true(fixture.governor.next_ns > fixture.stats.now_ns && fixture.governor.next_ns < UINT64_MAX);
		pass(&fixture, fixture.governor.next_ns - fixture.stats.now_ns);
		assert_int_equal(governor_level(&fixture.governor), level < 9 ? level : 9);
	}
	assert_true(fixture.stats.now_ns - from >= 1000 * MS);
	assert_true(fixture.governor.next_ns == UINT64_MAX); /* and then no thread is woken any more */
}

/* Who was raised too early waits longer each time. */
static void level_does_not_swing(void **state)
{
	struct fixture fixture = begin(0, 3);
	size_t before = 0;

	(void)state;
	for (int i = 0; i < 60000; i += 10) { /* a minute: as soon as it is higher than 1 memory fills */
		bool slow = governor_level(&fixture.governor) > 1;
		extents(&fixture, slow ? 8 : 18, slow ? 9 : 0, 0);
		pass(&fixture, 10 * MS);
		if (i == 30000)
			before = fixture.nr_actions;
	}
	assert_true(fixture.nr_actions < 30);
	assert_true(fixture.nr_actions - before <= 6);
}

static void rings_that_are_nearly_full_are_visited_sooner(void **state)
{
	struct fixture fixture = begin(0, 0);

	(void)state;
	pass(&fixture, 100 * MS);
	assert_int_equal(fixture.nr_actions, 0);
	fixture.stats.nr_near_full++;
	pass(&fixture, MS);
	assert_int_equal(fixture.nr_actions, 1);
	assert_int_equal(fixture.last.kind, LEDGER_FAST_POLL);
	assert_int_equal(fixture.last.to, GOVERNOR_FAST_POLL_MS * MS);
	fixture.stats.nr_near_full++;
	pass(&fixture, fixture.governor.next_ns - fixture.stats.now_ns); /* once more: as long again */
	assert_int_equal(fixture.nr_actions, 1);
	while (fixture.governor.next_ns < UINT64_MAX && fixture.stats.now_ns < 5000 * MS)
		pass(&fixture, fixture.governor.next_ns - fixture.stats.now_ns);
	assert_int_equal(fixture.nr_actions, 2);
	assert_int_equal(fixture.last.to, 0);
	assert_true(fixture.governor.next_ns == UINT64_MAX);
}

/* They are nearly full because they were not visited. */
static void but_not_for_more_cpu_time_than_may_be_used(void **state)
{
	struct fixture fixture = begin(0.1, 0);

	(void)state;
	for (int i = 0; i < 200; i++) {
		fixture.stats.cpu_ns += 5 * MS;
		fixture.stats.nr_near_full++;
		pass(&fixture, 20 * MS);
		if (fixture.governor.interval_ms) {
			size_t before = fixture.nr_actions;
			fixture.stats.nr_near_full++;
			pass(&fixture, MS);
			assert_true(fixture.nr_actions == before || fixture.last.kind == LEDGER_POLL_INTERVAL);
		}
	}
	assert_true(fixture.governor.interval_ms > 0);
}

/*
 * A recorder that uses, in each ms, compressing_ns for each level and visit_ns, or visit_ns for each visit when it has
 * a poll interval. Without one a ring wakes it every 100 ms, and it notifies.
 */
static void run(struct fixture *fixture, unsigned ms, uint64_t compressing_ns, uint64_t visit_ns)
{
	for (uint64_t end = fixture->stats.now_ns + ms * MS; fixture->stats.now_ns < end;) {
		uint64_t next = fixture->governor.next_ns == UINT64_MAX ? fixture->stats.now_ns + 100 * MS
									: fixture->governor.next_ns;
		uint64_t until = next < end ? next : end;
		uint64_t wait = until - fixture->stats.now_ns,
			 interval = fixture->governor.interval_ms ? fixture->governor.interval_ms : 1;
		if (governor_level(&fixture->governor))
			fixture->stats.cpu_ns +=
				wait / MS * compressing_ns * (uint64_t)governor_level(&fixture->governor);
		fixture->stats.cpu_ns += wait / MS / interval * visit_ns;
		fixture->stats.nr_packed += compressing_ns > 0;
		pass(fixture, wait);
	}
}

static void quiet_is_left_alone(void **state)
{
	struct fixture fixture = begin(0.2, 9);

	(void)state;
	run(&fixture, 1000, 0, MS / 100);
	assert_int_equal(fixture.nr_actions, 0); /* nothing was compressed: the cost of a higher level is not known */
	assert_true(fixture.governor.next_ns == UINT64_MAX);
}

static void within_the_bound_nothing_is_done(void **state)
{
	struct fixture fixture = begin(0.5, 1);

	(void)state;
	run(&fixture, 10000, MS / 4, MS / 10); /* two thirds of it */
	assert_int_equal(fixture.nr_actions, 0);
	assert_true(fixture.governor.next_ns < UINT64_MAX); /* but it is looked at */
}

static void as_much_compression_as_there_is_time_for(void **state)
{
	struct fixture fixture = begin(0.5, 22);

	(void)state;
	run(&fixture, 10000, MS / 80, 0);
	assert_int_equal(governor_level(&fixture.governor), 22);
	fixture = begin(0.5, 22);
	run(&fixture, 60000, MS / 20, 0);
	assert_true(governor_level(&fixture.governor) >= 4 && governor_level(&fixture.governor) <= 16);
	assert_true(fixture.stats.cpu_ns - 77 * MS <= 30500 * MS);
	assert_int_equal(fixture.governor.interval_ms, 0);
}

/* What was begun at a high level uses CPU until it is done: that is no reason to lose anything. */
static void what_is_under_way_has_to_end(void **state)
{
	struct fixture fixture = begin(0.2, 1);

	(void)state;
	fixture.stats.nr_packing = 2;
	for (int i = 0; i < 10; i++) {
		fixture.stats.cpu_ns += 40 * MS;
		pass(&fixture, 20 * MS);
	}
	assert_int_equal(governor_level(&fixture.governor), 0);
	assert_int_equal(fixture.governor.interval_ms, 0);
	fixture.stats.nr_packing = 0;
	fixture.stats.cpu_ns += 40 * MS;
	pass(&fixture, 20 * MS);
	assert_true(fixture.governor.interval_ms > 0);
}

static void first_less_compression(void **state)
{
	struct fixture fixture = begin(0.2, 16);

	(void)state;
	run(&fixture, 10000, MS / 10, MS / 20); /* 0.25 CPUs at level 2 */
	assert_int_equal(fixture.governor.interval_ms, 0);
	assert_true(governor_level(&fixture.governor) <= 1);
	assert_int_equal(fixture.last.kind, LEDGER_LEVEL_CHANGED);
	assert_true(fixture.stats.cpu_ns - 77 * MS <= 2100 * MS);
}

static void then_fewer_visits(void **state)
{
	struct fixture fixture = begin(0.2, 4);
	uint64_t from;

	(void)state;
	run(&fixture, 3000, MS, MS); /* a CPU each */
	assert_int_equal(governor_level(&fixture.governor), 0);
	assert_true(fixture.governor.interval_ms >= 4 && fixture.governor.interval_ms <= 16);
	assert_true(fixture.stats.cpu_ns - 77 * MS <= 650 * MS);
	from = fixture.stats.cpu_ns;
	run(&fixture, 10000, MS, MS);
	assert_true(fixture.stats.cpu_ns - from <= 2000 * MS);
	assert_true(fixture.stats.cpu_ns - from >= 1000 * MS); /* no less than need be */
}

/* Nothing helps: the longest poll interval is all that there is. */
static void a_bound_that_cannot_be_kept(void **state)
{
	struct fixture fixture = begin(0.01, 0);

	(void)state;
	for (int i = 0; i < 1000; i++) {
		fixture.stats.cpu_ns += 100 * MS;
		pass(&fixture, 100 * MS);
	}
	assert_int_equal(fixture.governor.interval_ms, GOVERNOR_LONGEST_INTERVAL_MS);
	assert_true(fixture.nr_actions < 20);
	assert_true(fixture.governor.next_ns <= fixture.stats.now_ns + 1000 * MS);
}

static void all_comes_back(void **state)
{
	struct fixture fixture = begin(0.2, 4);

	(void)state;
	run(&fixture, 3000, MS, MS);
	assert_true(fixture.governor.interval_ms > 0);
	run(&fixture, 30000, MS / 1000, 0);
	assert_int_equal(fixture.governor.interval_ms, 0);
	assert_int_equal(governor_level(&fixture.governor), 4);
	assert_true(fixture.governor.next_ns == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_decide),
		cmocka_unit_test(level_falls_when_compressors_are_late),
		cmocka_unit_test(what_is_done_behind_one_that_is_not_waits_for_compressors),
		cmocka_unit_test(who_keeps_up_is_left_alone),
		cmocka_unit_test(level_stays_when_the_output_is_late),
		cmocka_unit_test(level_comes_back_by_and_by),
		cmocka_unit_test(level_does_not_swing),
		cmocka_unit_test(rings_that_are_nearly_full_are_visited_sooner),
		cmocka_unit_test(but_not_for_more_cpu_time_than_may_be_used),
		cmocka_unit_test(quiet_is_left_alone),
		cmocka_unit_test(within_the_bound_nothing_is_done),
		cmocka_unit_test(as_much_compression_as_there_is_time_for),
		cmocka_unit_test(what_is_under_way_has_to_end),
		cmocka_unit_test(first_less_compression),
		cmocka_unit_test(then_fewer_visits),
		cmocka_unit_test(a_bound_that_cannot_be_kept),
		cmocka_unit_test(all_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
