/* SPDX-License-Identifier: MIT */
/* The hash table finds what was added, and nothing else, while it grows and while entries are removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash_table.h"

enum { MANY = 20000 };

static void test_empty(void **state)
{
	struct hash_table table = {0};

	(void)state;
	assert_null(hash_table_find(&table, 0));
	assert_int_equal(hash_table_find_number(&table, 7), 0);
	hash_table_clear(&table);
	hash_table_fini(&table);
	hash_table_fini(&table);
}

static void test_numbers(void **state)
{
	static const uint64_t steps[] = {1, 4096, UINT64_C(1) << 32, UINT64_C(1) << 48};

	(void)state;
	for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
		struct hash_table table = {0};
		for (uint64_t i = 0; i < MANY; i++)
			assert_int_equal(hash_table_add_number(&table, i * steps[s], i + 1), 0);
		assert_int_equal(table.nr, MANY);
		for (uint64_t i = 0; i < MANY; i++)
			assert_int_equal(hash_table_find_number(&table, i * steps[s]), i + 1);
		assert_null(hash_table_find(&table, MANY * steps[s]));
		assert_null(hash_table_find(&table, 3 * steps[s] + 1 + (steps[s] == 1) * MANY));
		hash_table_fini(&table);
	}
}

/* Ids of a counter, addresses of pages and pairs of numbers all get short probes. */
static void test_spreads(void **state)
{
	static const uint64_t steps[] = {1, 8, 4096, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, 0x5851f42d4c957f2d};

	(void)state;
	for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
		struct hash_table table = {0};
		size_t far = 0;
		for (uint64_t i = 0; i < MANY; i++)
			assert_int_equal(hash_table_add_number(&table, i * steps[s], 1), 0);
		for (uint64_t i = 0; i < MANY; i++) {
			size_t at = (size_t)(hash_table_find(&table, i * steps[s]) - table.slots);
			far += (at - hash_table_place(&table, i * steps[s])) & (table.nr_slots - 1);
		}
		assert_true(far < 2 * MANY);
		hash_table_fini(&table);
	}
}

static void test_same_key(void **state)
{
	struct hash_table table = {0};
	const char *texts[] = {"a", "b", "c"};
	unsigned seen = 0;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(hash_table_add(&table, 5, (void *)(uintptr_t)texts[i]), 0);
	assert_int_equal(hash_table_add(&table, 6, &table), 0);
	for (struct hash_slot *slot = hash_table_find(&table, 5); slot; slot = hash_table_next(&table, slot)) {
		assert_string_equal(slot->item, texts[seen]); /* in the order in which they were added */
		seen++;
	}
	assert_int_equal(seen, 3);
	assert_ptr_equal(hash_table_find_item(&table, 6), &table);
	hash_table_fini(&table);
}

/* Against an array as the model: keys are few, so that probes wrap and holes are filled. */
static void test_remove(void **state)
{
	enum { KEYS = 500, STEPS = 200000 };
	struct hash_table table = {0};
	uint64_t model[KEYS] = {0}, random = 1;
	size_t nr = 0;

	(void)state;
	for (uint64_t step = 1; step <= STEPS; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint64_t key = (random >> 33) % KEYS;
		struct hash_slot *slot = hash_table_find(&table, key * 64);
		assert_int_equal(slot ? slot->number : 0, model[key]);
		if (slot) {
			hash_table_remove(&table, slot);
			model[key] = 0;
			nr--;
		} else {
			assert_int_equal(hash_table_add_number(&table, key * 64, step), 0);
			model[key] = step;
			nr++;
		}
		assert_int_equal(table.nr, nr);
	}
	for (uint64_t key = 0; key < KEYS; key++)
		assert_int_equal(hash_table_find_number(&table, key * 64), model[key]);
	hash_table_fini(&table);
}

static void test_clear(void **state)
{
	struct hash_table table = {0};

	(void)state;
	for (unsigned nr = 10; nr <= 1000; nr *= 10) {
		for (unsigned i = 0; i < nr; i++)
			assert_int_equal(hash_table_add_number(&table, i, 1), 0);
		hash_table_clear(&table);
		assert_int_equal(table.nr, 0);
		for (unsigned i = 0; i < nr; i++)
			assert_null(hash_table_find(&table, i));
	}
	hash_table_fini(&table);
}

static void test_hashes(void **state)
{
	const char text[] = "0123456789abcdef";

	(void)state;
	for (size_t a = 0; a < sizeof(text); a++)
		for (size_t b = 0; b < a; b++)
			assert_true(hash_bytes(text, a) != hash_bytes(text, b));
	assert_int_equal(hash_text("0123"), hash_bytes(text, 4));
	assert_true(hash_bytes("\0", 1) != hash_bytes("\0\0", 2));
	assert_true(hash_mix(1, 2) != hash_mix(2, 1) || hash_mix(1, 2) != hash_mix(1, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),    cmocka_unit_test(test_numbers), cmocka_unit_test(test_spreads),
		cmocka_unit_test(test_same_key), cmocka_unit_test(test_remove),  cmocka_unit_test(test_clear),
		cmocka_unit_test(test_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
