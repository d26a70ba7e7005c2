/* SPDX-License-Identifier: MIT */
/* Which ring goes to another thread: a function of made-up observations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/balance.h"

#define MS UINT64_C(1000000)

enum { NR_THREADS = 3, NR_RINGS = 9, EACH = NR_RINGS / NR_THREADS };

/* Threads with three rings each, whose clocks we turn. */
struct world {
	struct balance balance;
	struct balance_thread threads[NR_THREADS];
	struct balance_ring rings[NR_RINGS];
	struct balance_sight sight;
	uint64_t now_ns;
	double busy[NR_THREADS];   /* of its time */
	double waited;             /* of that, without a CPU */
	bool tight[NR_THREADS];
	uint64_t rate[NR_RINGS];   /* bytes in each look */
	size_t nr_moves, nr_rings; /* so far */
	struct balance_move last;
};

static void begin(struct world *world)
{
	*world = (struct world){.now_ns = 1000 * MS};
	world->sight = (struct balance_sight){
		.threads = world->threads, .nr_threads = NR_THREADS, .rings = world->rings, .nr_rings = NR_RINGS};
	for (size_t i = 0; i < NR_RINGS; i++)
		world->rings[i] = (struct balance_ring){.thread = i / EACH};
	assert_int_equal(balance_init(&world->balance, NR_THREADS, NR_RINGS), 0);
	assert_true(world->balance.next_ns == UINT64_MAX);
}

/* What is ordered is done before the next look. */
static void look(struct world *world, uint64_t ns)
{
	world->now_ns += ns;
	for (size_t i = 0; i < NR_THREADS; i++) {
		world->threads[i].busy_ns += (uint64_t)((double)ns * world->busy[i]);
		world->threads[i].cpu_ns += (uint64_t)((double)ns * world->busy[i] * (1 - world->waited));
		world->threads[i].nr_tight += world->tight[i];
	}
	for (size_t i = 0; i < NR_RINGS; i++)
		world->rings[i].bytes += world->rate[i];
	if (!balance_decide(&world->balance, world->now_ns, &world->sight, &world->last))
		return;
	world->nr_moves++;
	world->nr_rings += world->last.nr_rings;
	for (size_t i = 0; i < world->last.nr_rings; i++)
		world->rings[world->last.rings[i]].thread = world->last.to;
}

static void look_for(struct world *world, uint64_t ns)
{
	for (uint64_t end = world->now_ns + ns; world->now_ns < end;)
		look(world, 50 * MS);
}

/* The first has all the work. */
static void begin_uneven(struct world *world)
{
	begin(world);
	world->busy[0] = 0.98;
	world->busy[1] = 0.2;
	world->busy[2] = 0.1;
	world->tight[0] = true;
	world->rate[0] = 1000;
	world->rate[1] = 3000;
	world->rate[2] = 2000;
}

static void the_hottest_that_fits_goes_to_the_idlest(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	look_for(&world, 400 * MS);
	assert_int_equal(world.nr_moves, 0); /* not yet persistently */
	look_for(&world, 300 * MS);
	assert_int_equal(world.nr_moves, 1);
	assert_int_equal(world.last.rings[0], 1);
	assert_int_equal(world.last.from, 0);
	assert_int_equal(world.last.to, 2);
	balance_fini(&world.balance);
}

static void no_more_before_it_is_known_what_that_did(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	look_for(&world, 700 * MS);
	assert_int_equal(world.nr_moves, 1);
	world.busy[2] = 0.55; /* it helped too little: the other is still behind */
	look_for(&world, 300 * MS);
	assert_int_equal(world.nr_moves, 1);
	look_for(&world, 300 * MS);
	assert_int_equal(world.nr_moves, 2);
	assert_int_equal(world.last.to, 1);
	balance_fini(&world.balance);
}

static void nothing_moves_without_a_reason(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.tight[0] = false; /* busy, but in time */
	look_for(&world, 5000 * MS);
	assert_int_equal(world.nr_moves, 0);
	assert_true(world.balance.next_ns == UINT64_MAX);
	world.tight[0] = true;
	world.busy[0] = 0.3; /* late, but not for want of time */
	look_for(&world, 3000 * MS);
	assert_int_equal(world.nr_moves, 0);
	world.busy[0] = 0.98;
	world.busy[1] = world.busy[2] = 0.6; /* nobody has time */
	look_for(&world, 3000 * MS);
	assert_int_equal(world.nr_moves, 0);
	balance_fini(&world.balance);
}

static void once_in_a_while_is_not_persistent(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	for (int i = 0; i < 500; i++) {
		world.tight[0] = i % 100 == 0;
		look(&world, 50 * MS);
	}
	assert_int_equal(world.nr_moves, 0);
	balance_fini(&world.balance);
}

/* A pass may take longer than a window: what it found is told when it has ended. */
static void long_passes_tell_seldom(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.rate[0] = world.rate[1] = world.rate[2] = 0;
	for (int i = 0; i < 160; i++) {
		world.tight[0] = i % 60 == 0;
		world.rings[1].bytes += world.tight[0] ? 30000 : 0;
		world.rings[2].bytes += world.tight[0] ? 20000 : 0;
		look(&world, 50 * MS);
	}
	assert_int_equal(world.nr_moves, 1);
	assert_int_equal(world.last.rings[0], 2); /* the other would leave the second thread as busy as the first was */
	balance_fini(&world.balance);
}

/* It waits as long for its CPU with fewer rings. */
static void who_only_waits_is_not_helped(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.waited = 0.95;
	look_for(&world, 3000 * MS);
	assert_int_equal(world.nr_moves, 0);
	world.waited = 0.6; /* not let alone, but always busy */
	look_for(&world, 1000 * MS);
	assert_int_equal(world.nr_moves, 1);
	balance_fini(&world.balance);
}

static void one_ring_that_makes_all_the_work_stays(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.rate[0] = world.rate[2] = 10;
	look_for(&world, 5000 * MS);
	assert_int_equal(world.nr_moves, 0);
	balance_fini(&world.balance);
}

/* At once: before it is known what the first did there is time for much to be lost. */
static void as_many_go_as_fit(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	world.busy[0] = 1;
	world.busy[1] = world.busy[2] = 0.05;
	world.tight[0] = true;
	for (size_t i = 0; i < NR_RINGS; i++) {
		world.rings[i].thread = 0;
		world.rings[i].place = world.threads[0].place;
		world.rate[i] = 1000;
	}
	world.threads[1].place = world.threads[2].place = (struct balance_place){.node = 1, .package = 1};
	look_for(&world, 700 * MS);
	assert_int_equal(world.nr_moves, 1);
	assert_int_equal(world.nr_rings, 4);
	balance_fini(&world.balance);
}

static void some_rings_are_not_to_be_moved(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.rings[1].stays = true;
	look_for(&world, 700 * MS);
	assert_int_equal(world.nr_moves, 1);
	assert_int_equal(world.last.rings[0], 2);
	balance_fini(&world.balance);
}

static void the_same_node_is_better(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.threads[2].place = (struct balance_place){.node = 1, .package = 1};
	look_for(&world, 700 * MS);
	assert_int_equal(world.nr_moves, 1);
	assert_int_equal(world.last.to, 1);
	balance_fini(&world.balance);
	/* Better far away than not at all. */
	begin_uneven(&world);
	world.busy[1] = 0.7;
	world.threads[2].place = (struct balance_place){.node = 1, .package = 1};
	look_for(&world, 700 * MS);
	assert_int_equal(world.nr_moves, 1);
	assert_int_equal(world.last.to, 2);
	balance_fini(&world.balance);
}

static void nothing_while_one_is_on_its_way(void **state)
{
	struct world world;

	(void)state;
	begin_uneven(&world);
	world.sight.moving = true;
	look_for(&world, 3000 * MS);
	assert_int_equal(world.nr_moves, 0);
	world.sight.moving = false;
	look_for(&world, 700 * MS);
	assert_int_equal(world.nr_moves, 1);
	balance_fini(&world.balance);
}

/* Whatever the load does, in the worst case the opposite of what was hoped for each time. */
static void rings_do_not_come_and_go(void **state)
{
	struct world world;
	size_t before = 0;

	(void)state;
	begin(&world);
	for (size_t i = 0; i < NR_RINGS; i++)
		world.rate[i] = 1000;
	for (int second = 0; second < 100; second++) {
		size_t behind = world.nr_moves ? world.last.to : 0;
		for (size_t i = 0; i < NR_THREADS; i++) {
			world.busy[i] = i == behind ? 1 : 0.1;
			world.tight[i] = i == behind;
		}
		look_for(&world, 1000 * MS);
		assert_true(world.nr_moves - before <= 2);
		before = world.nr_moves;
	}
	/* Each ring after 10 s at the earliest, then after 20, 40, …: four times in 100 s. */
	assert_in_range(world.nr_moves, 1, 4 * NR_RINGS);
	balance_fini(&world.balance);
}

static void nobody_looks_while_nothing_is_late(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	assert_false(balance_wants(&world.balance, world.now_ns, 0));
	assert_true(balance_wants(&world.balance, world.now_ns, 1));
	world.tight[0] = true;
	look(&world, 50 * MS);
	assert_true(world.balance.next_ns != UINT64_MAX);
	assert_false(balance_wants(&world.balance, world.now_ns, 2)); /* a window takes its time */
	world.tight[0] = false;
	look_for(&world, 5000 * MS);
	assert_true(world.balance.next_ns == UINT64_MAX);
	balance_fini(&world.balance);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hottest_that_fits_goes_to_the_idlest),
		cmocka_unit_test(no_more_before_it_is_known_what_that_did),
		cmocka_unit_test(nothing_moves_without_a_reason),
		cmocka_unit_test(once_in_a_while_is_not_persistent),
		cmocka_unit_test(long_passes_tell_seldom),
		cmocka_unit_test(who_only_waits_is_not_helped),
		cmocka_unit_test(one_ring_that_makes_all_the_work_stays),
		cmocka_unit_test(as_many_go_as_fit),
		cmocka_unit_test(some_rings_are_not_to_be_moved),
		cmocka_unit_test(the_same_node_is_better),
		cmocka_unit_test(nothing_while_one_is_on_its_way),
		cmocka_unit_test(rings_do_not_come_and_go),
		cmocka_unit_test(nobody_looks_while_nothing_is_late),
	};

	return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
