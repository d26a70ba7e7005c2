/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tasks/maps.h"

/* Marks to tell maps apart; never looked into. */
static struct dso *const file_a = (struct dso *)0x1000, *const file_b = (struct dso *)0x2000;

static void put(struct maps *maps, uint64_t start, uint64_t end, uint64_t pgoff, struct dso *dso)
{
	struct map map = {.start = start, .end = end, .pgoff = pgoff, .object = dso};
	assert_int_equal(maps_insert(maps, &map), 0);
}

static void expect(const struct map *map, uint64_t start, uint64_t end, uint64_t pgoff, struct dso *dso)
{
	assert_non_null(map);
	assert_int_equal(map->start, start);
	assert_int_equal(map->end, end);
	assert_int_equal(map->pgoff, pgoff);
	assert_ptr_equal(map->object, dso);
}

static void test_find(void **state)
{
	(void)state;
	struct maps *maps = maps_new();

	assert_null(maps_find(maps, 5));
	put(maps, 30, 40, 7, file_b);
	put(maps, 10, 20, 0, file_a);
	assert_null(maps_find(maps, 9));
	expect(maps_find(maps, 10), 10, 20, 0, file_a);
	expect(maps_find(maps, 19), 10, 20, 0, file_a);
	assert_null(maps_find(maps, 20));
	expect(maps_find(maps, 39), 30, 40, 7, file_b);
	assert_null(maps_find(maps, 40));
	assert_int_equal(map_address(maps_find(maps, 35), 35), 12);
	maps_unref(maps);
}

static void test_overlap_inside(void **state)
{
	(void)state;
	struct maps *maps = maps_new();
	size_t nr;

	put(maps, 100, 200, 1000, file_a);
	put(maps, 140, 150, 0, file_b);
	const struct map *list = maps_list(maps, &nr);
	assert_int_equal(nr, 3);
	expect(&list[0], 100, 140, 1000, file_a);
	expect(&list[1], 140, 150, 0, file_b);
	expect(&list[2], 150, 200, 1050, file_a);
	maps_unref(maps);
}

static void test_overlap_many(void **state)
{
	(void)state;
	struct maps *maps = maps_new();
	size_t nr;

	for (uint64_t at = 0; at < 100; at += 10)
		put(maps, at, at + 10, at, file_a);
	put(maps, 15, 75, 5, file_b);
	const struct map *list = maps_list(maps, &nr);
	assert_int_equal(nr, 6);
	expect(&list[1], 10, 15, 10, file_a);
	expect(&list[2], 15, 75, 5, file_b);
	expect(&list[3], 75, 80, 75, file_a);
	put(maps, 0, 100, 0, file_b);
	expect(maps_list(maps, &nr), 0, 100, 0, file_b);
	assert_int_equal(nr, 1);
	maps_unref(maps);
}

static void test_empty_map_is_none(void **state)
{
	(void)state;
	struct maps *maps = maps_new();

	put(maps, 10, 10, 0, file_a);
	put(maps, 20, 10, 0, file_a);
	assert_null(maps_find(maps, 10));
	maps_unref(maps);
}

static void test_clone_is_apart(void **state)
{
	(void)state;
	struct maps *parent = maps_new();

	put(parent, 10, 20, 0, file_a);
	struct maps *child = maps_clone(parent);
	expect(maps_find(child, 15), 10, 20, 0, file_a);
	put(child, 10, 20, 0, file_b);
	expect(maps_find(parent, 15), 10, 20, 0, file_a);
	put(parent, 12, 14, 0, file_b);
	expect(maps_find(child, 15), 10, 20, 0, file_b);
	maps_unref(parent);
	expect(maps_find(child, 15), 10, 20, 0, file_b);
	maps_clear(child);
	assert_null(maps_find(child, 15));
	maps_unref(child);
}

static void test_remove(void **state)
{
	(void)state;
	struct maps *maps = maps_new();

	put(maps, 10, 20, 0, file_a);
	put(maps, 20, 30, 0, file_b);
	assert_int_equal(maps_remove(maps, 25), 0);
	assert_int_equal(maps_remove(maps, 35), 0);
	assert_null(maps_find(maps, 25));
	expect(maps_find(maps, 15), 10, 20, 0, file_a);
	maps_unref(maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),           cmocka_unit_test(test_overlap_inside),
		cmocka_unit_test(test_overlap_many),   cmocka_unit_test(test_empty_map_is_none),
		cmocka_unit_test(test_clone_is_apart), cmocka_unit_test(test_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
