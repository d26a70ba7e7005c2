/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tasks/maps.h"

/* Marks to tell maps apart; never looked into. */
static struct dso *const file_a = (struct dso *)0x1000, *const file_b = (struct dso *)0x2000;

/* The linker puts it in the place of libc's (--wrap). */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

static size_t allocated_bytes, nr_until_failure; /* 0: none fails */

void *__wrap_malloc(size_t bytes)
{
	if (nr_until_failure && --nr_until_failure == 0)
		return NULL;
	allocated_bytes += bytes;
	return __real_malloc(bytes);
}

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

struct list {
	size_t nr;
	struct map maps[512];
};

static void add_to_list(const struct map *map, void *ctx)
{
	struct list *list = ctx;

	assert_true(list->nr < sizeof(list->maps) / sizeof(list->maps[0]));
	list->maps[list->nr++] = *map;
}

/* Valid until the next call. */
static const struct map *list_of(const struct maps *maps, size_t *ret_nr)
{
	static struct list list;

	list.nr = 0;
	maps_visit(maps, add_to_list, &list);
	*ret_nr = list.nr;
	return list.maps;
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
	const struct map *list = list_of(maps, &nr);
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
	const struct map *list = list_of(maps, &nr);
	assert_int_equal(nr, 6);
	expect(&list[1], 10, 15, 10, file_a);
	expect(&list[2], 15, 75, 5, file_b);
	expect(&list[3], 75, 80, 75, file_a);
	put(maps, 0, 100, 0, file_b);
	expect(list_of(maps, &nr), 0, 100, 0, file_b);
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

static void test_former_maps(void **state)
{
	(void)state;
	struct maps *parent = maps_new();

	maps_mark_former(parent);
	put(parent, 10, 20, 0, file_a);
	struct maps *child = maps_clone(parent);
	maps_mark_former(child);
	put(child, 30, 40, 0, file_b);
	put(child, 12, 14, 0, file_b);
	assert_false(maps_is_former(parent, maps_find(parent, 10)));
	assert_true(maps_is_former(child, maps_find(child, 10)));
	assert_true(maps_is_former(child, maps_find(child, 15)));
	assert_false(maps_is_former(child, maps_find(child, 12)));
	assert_false(maps_is_former(child, maps_find(child, 30)));
	struct maps *grandchild = maps_clone(child);
	assert_true(maps_is_former(grandchild, maps_find(grandchild, 10)));
	assert_false(maps_is_former(grandchild, maps_find(grandchild, 30)));
	maps_mark_former(grandchild);
	assert_true(maps_is_former(grandchild, maps_find(grandchild, 30)));
	assert_false(maps_is_former(child, maps_find(child, 30)));
	maps_unref(parent);
	maps_unref(child);
	maps_unref(grandchild);
}

/* What is at each address, without any cleverness. */
enum { NR_ADDRESSES = 256, NR_SETS = 6 };

struct model {
	unsigned map[NR_ADDRESSES]; /* number of the map; 0: none */
	uint64_t offset[NR_ADDRESSES];
	bool former[NR_ADDRESSES];
};

static void expect_model(const struct maps *maps, const struct model *model)
{
	size_t nr, at = 0;
	const struct map *list = list_of(maps, &nr);

	for (uint64_t address = 0; address < NR_ADDRESSES; address++) {
		const struct map *map = maps_find(maps, address);
		unsigned number = model->map[address];
		if (!number) {
			assert_null(map);
			continue;
		}
		assert_non_null(map);
		assert_int_equal((uintptr_t)map->object, number);
		assert_int_equal(map_address(map, address), model->offset[address]);
		assert_int_equal(maps_is_former(maps, map), model->former[address]);
		if (address && model->map[address - 1] == number)
			continue;
		assert_int_equal(map->start, address);
		while (address + 1 < NR_ADDRESSES && model->map[address + 1] == number)
			address++;
		assert_int_equal(map->end, address + 1);
		assert_true(at < nr);
		expect(&list[at++], map->start, map->end, map->pgoff, map->object);
	}
	assert_int_equal(at, nr);
}

/* Of what is done to the model, too. */
static void change(struct maps **maps, struct model *model, unsigned kind, unsigned number)
{
	uint64_t start = (unsigned)random() % NR_ADDRESSES,
		 end = start + 1 + (unsigned)random() % (number % 7 ? 9 : 99);

	end = end < NR_ADDRESSES ? end : NR_ADDRESSES;
	switch (kind) {
	case 0:
		maps_clear(*maps);
		*model = (struct model){0};
		break;
	case 1:
		maps_mark_former(*maps);
		memset(model->former, 1, sizeof(model->former));
		break;
	case 2:
	case 3:
		assert_int_equal(maps_remove(*maps, start), 0);
		end = start;
		for (unsigned gone = model->map[start]; gone && start && model->map[start - 1] == gone;)
			start--;
		for (unsigned gone = model->map[start]; gone && end < NR_ADDRESSES && model->map[end] == gone; end++)
			;
		memset(model->map + start, 0, (end - start) * sizeof(model->map[0]));
		break;
	default:
		put(*maps, start, end, number * 1000, (struct dso *)(uintptr_t)number);
		for (uint64_t address = start; address < end; address++) {
			model->map[address] = number;
			model->offset[address] = number * 1000 + address - start;
			model->former[address] = false;
		}
	}
}

static void test_many_changes_of_many_sets(void **state)
{
	static struct model models[NR_SETS];
	struct maps *sets[NR_SETS];

	(void)state;
	srandom(1);
	for (unsigned i = 0; i < NR_SETS; i++)
		sets[i] = maps_new();
	for (unsigned number = 1; number < 6000; number++) {
		unsigned kind = (unsigned)random() % 40, at = (unsigned)random() % NR_SETS,
			 from = (unsigned)random() % NR_SETS;
		if (kind > 37) {
			struct maps *clone = maps_clone(sets[from]);
			maps_unref(sets[at]);
			sets[at] = clone;
			models[at] = models[from];
		} else {
			change(&sets[at], &models[at], kind % 20 ? kind : number % 9, number);
		}
		expect_model(sets[at], &models[at]);
		expect_model(sets[from], &models[from]);
	}
	for (unsigned i = 0; i < NR_SETS; i++)
		maps_unref(sets[i]);
}

static struct maps *many_maps(unsigned nr)
{
	struct maps *maps = maps_new();

	for (unsigned i = 0; i < nr; i++)
		put(maps, 100 * i, 100 * i + 50, 0, file_a);
	return maps;
}

/* An insertion, the end of a map, a hole in a map, one map in the place of many, a removal, an exec. */
static void change_child(struct maps *child, unsigned number, unsigned nr_maps)
{
	uint64_t start = (uint64_t)100 * (number % nr_maps);

	switch (number % 6) {
	case 0: put(child, start + 60, start + 70, 0, file_b); break;
	case 1: put(child, start + 40, start + 60, 0, file_b); break;
	case 2: put(child, start + 10, start + 20, 0, file_b); break;
	case 3: put(child, 50 * (uint64_t)nr_maps - 5, start + 50 * (uint64_t)nr_maps, 0, file_b); break;
	case 4: assert_int_equal(maps_remove(child, start), 0); break;
	case 5: maps_mark_former(child); break;
	}
}

static void test_changed_children_do_not_copy_all(void **state)
{
	enum { NR_MAPS = 2000, NR_CHILDREN = 2000 };
	static struct maps *children[NR_CHILDREN];
	struct maps *parent = many_maps(NR_MAPS);

	(void)state;
	allocated_bytes = 0;
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		children[i] = maps_clone(parent);
		change_child(children[i], i, NR_MAPS);
	}
	/* All maps of all would be 192 MB. */
	assert_true(allocated_bytes < sizeof(struct map) * NR_MAPS * NR_CHILDREN / 10);
	maps_unref(parent);
	for (unsigned i = 0; i < NR_CHILDREN; i++)
		maps_unref(children[i]);
}

/* Which allocation fails depends on how many maps there were before. */
static void test_without_memory_nothing_changes(void **state)
{
	enum { NR_MAPS = 100, NR_CHILDREN = 500 };
	struct maps *parent = many_maps(NR_MAPS), *children[NR_CHILDREN];
	unsigned nr_failures = 0;
	size_t nr;

	(void)state;
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		const uint64_t start = (uint64_t)100 * (i % NR_MAPS);
		const struct map hole = {.start = start + 10, .end = start + 20, .object = file_b};
		children[i] = maps_clone(parent);
		nr_until_failure = 1;
		int err = maps_insert(children[i], &hole);
		nr_until_failure = 0;
		if (err) {
			assert_int_equal(err, -ENOMEM);
			nr_failures++;
			const struct map *list = list_of(children[i], &nr);
			assert_int_equal(nr, NR_MAPS);
			for (unsigned k = 0; k < NR_MAPS; k++)
				expect(&list[k], 100 * k, 100 * k + 50, 0, file_a);
			assert_int_equal(maps_insert(children[i], &hole), 0);
		}
		list_of(children[i], &nr);
		assert_int_equal(nr, NR_MAPS + 2);
		expect(maps_find(children[i], start + 19), start + 10, start + 20, 0, file_b);
		expect(maps_find(children[i], start + 20), start + 20, start + 50, 20, file_a);
	}
	assert_true(nr_failures > 2);
	maps_unref(parent);
	for (unsigned i = 0; i < NR_CHILDREN; i++)
		maps_unref(children[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_overlap_inside),
		cmocka_unit_test(test_overlap_many),
		cmocka_unit_test(test_empty_map_is_none),
		cmocka_unit_test(test_clone_is_apart),
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_former_maps),
		cmocka_unit_test(test_many_changes_of_many_sets),
		cmocka_unit_test(test_changed_children_do_not_copy_all),
		cmocka_unit_test(test_without_memory_nothing_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
