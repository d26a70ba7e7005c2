/* SPDX-License-Identifier: MIT */
/* Rings of random records, read pass by pass as a recorder reads them: what comes out is a stable sort by time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "read/order.h"

enum { NR_RINGS = 5, NR_RECORDS = 20000 };

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

struct check {
	uint64_t last_ns, last_number, popped;
};

/* `offset` numbers the records in the order of pushing. */
static void pop_all(struct order *order, struct check *check)
{
	struct order_entry entry;

	while (order_pop(order, &entry)) {
		assert_true(entry.time_ns >= check->last_ns);
		if (entry.time_ns == check->last_ns)
			assert_true(entry.offset > check->last_number);
		check->last_ns = entry.time_ns;
		check->last_number = entry.offset;
		check->popped++;
	}
}

/*
 * Time goes on; each moment a ring gets a record. Now and then all rings are read, one after the other, and a mark is
 * set. With `marks` false only the end sorts.
 */
static void run(bool marks, bool backward)
{
	static uint64_t rings[NR_RINGS][NR_RECORDS];
	size_t filled[NR_RINGS] = {0};
	struct order order = {0};
	struct check check = {0};
	uint64_t now = 1, number = 0, widest = 0;

	for (unsigned i = 0; i < NR_RECORDS; i++) {
		unsigned ring = (unsigned)random_below(NR_RINGS);
		now += random_below(3); /* many are equal */
		rings[ring][filled[ring]++] = now;
		if (random_below(200) && i + 1 < NR_RECORDS)
			continue;
		for (ring = 0; ring < NR_RINGS; ring++) {
			for (size_t at = 0; at < filled[ring]; at++) {
				size_t which = backward ? filled[ring] - 1 - at : at;
				struct order_entry entry = {.time_ns = rings[ring][which], .offset = ++number};
				assert_int_equal(order_push(&order, &entry), 0);
			}
			filled[ring] = 0;
		}
		if (marks)
			assert_int_equal(order_mark(&order), 0);
		pop_all(&order, &check);
		widest = order.nr > widest ? order.nr : widest;
	}
	order_finish(&order);
	pop_all(&order, &check);
	assert_int_equal(check.popped, NR_RECORDS);
	if (marks)
		assert_true(widest < NR_RECORDS / 4); /* marks bound what has to be kept */
	order_fini(&order);
}

static void test_rounds(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		run(true, false);
}

static void test_no_marks(void **state)
{
	(void)state;
	run(false, false);
}

static void test_backward_rings(void **state)
{
	(void)state;
	run(true, true);
	run(false, true);
}

/* The first mark gives nothing, the second what is not newer than the first knew. */
static void test_what_a_mark_gives(void **state)
{
	static const uint64_t times[] = {10, 20, 5, 15, 30};
	struct order order = {0};
	struct order_entry entry;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		order_push(&order, &(struct order_entry){.time_ns = times[i], .offset = i});
	order_mark(&order);
	assert_false(order_pop(&order, &entry));
	for (unsigned i = 2; i < 5; i++)
		order_push(&order, &(struct order_entry){.time_ns = times[i], .offset = i});
	order_mark(&order);
	static const uint64_t expected[] = {5, 10, 15, 20};
	for (unsigned i = 0; i < 4; i++) {
		assert_true(order_pop(&order, &entry));
		assert_int_equal(entry.time_ns, expected[i]);
	}
	assert_false(order_pop(&order, &entry));
	order_finish(&order);
	assert_true(order_pop(&order, &entry));
	assert_int_equal(entry.time_ns, 30);
	assert_false(order_pop(&order, &entry));
	order_fini(&order);
}

/* A mark that promised too much: the late record still comes, at once, and is counted. */
static void test_late_record(void **state)
{
	struct order order = {0};
	struct order_entry entry;

	(void)state;
	for (uint64_t time = 10; time <= 30; time += 10) {
		order_push(&order, &(struct order_entry){.time_ns = time});
		order_mark(&order);
	}
	while (order_pop(&order, &entry))
		;
	assert_int_equal(entry.time_ns, 20);
	order_push(&order, &(struct order_entry){.time_ns = 15});
	order_push(&order, &(struct order_entry){.time_ns = 25});
	assert_int_equal(order.nr_late, 1);
	order_mark(&order);
	assert_true(order_pop(&order, &entry));
	assert_int_equal(entry.time_ns, 15);
	order_fini(&order);
}

/* Rings with equal times among theirs, popped so many at a time. Appends what came to `ret`; how many. */
static size_t pop_by(size_t room, struct order_entry *ret)
{
	enum { RINGS = 3, ROUNDS = 5, EACH = 40 };
	struct order order = {0};
	size_t nr = 0, got;

	for (uint64_t round = 0, offset = 0; round <= ROUNDS; round++) {
		for (uint64_t ring = 0; ring < RINGS && round < ROUNDS; ring++)
			for (uint64_t i = 0; i < EACH; i++, offset++)
				order_push(&order,
					   &(struct order_entry){.time_ns = 1 + (round * EACH + i) / (1 + ring % 2) *
											(1 + ring % 2),
								 .offset = offset,
								 .is_sample = i % 2});
		if (round < ROUNDS)
			order_mark(&order);
		else
			order_finish(&order);
		while ((got = order_pop_many(&order, ret + nr, room))) {
			assert_in_range(got, 1, room);
			nr += got;
		}
	}
	assert_int_equal(order.nr_late, 0);
	order_fini(&order);
	assert_int_equal(nr, RINGS * ROUNDS * EACH);
	return nr;
}

static void test_many_at_once(void **state)
{
	struct order_entry each[1024], many[1024];

	(void)state;
	size_t nr = pop_by(1, each);
	for (size_t i = 1; i < nr; i++)
		assert_true(each[i - 1].time_ns <= each[i].time_ns);
	for (size_t room = 2; room < 100; room += 13) {
		assert_int_equal(pop_by(room, many), nr);
		for (size_t i = 0; i < nr; i++) {
			assert_int_equal(many[i].offset, each[i].offset);
			assert_int_equal(many[i].time_ns, each[i].time_ns);
			assert_int_equal(many[i].is_sample, each[i].is_sample);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),         cmocka_unit_test(test_no_marks),
		cmocka_unit_test(test_backward_rings), cmocka_unit_test(test_what_a_mark_gives),
		cmocka_unit_test(test_late_record),    cmocka_unit_test(test_many_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
