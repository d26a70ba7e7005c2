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

/* The key whose place, without a secret, is that of this product: the multiplication and the fold are undone. */
static uint64_t key_of_product(uint64_t product)
{
	const uint64_t folded = product * 0xf1de83e19937733d;

	return folded ^ folded >> 32;
}

/* Slots in use one behind the other, at most: so many has the search for a missing key to pass. */
static size_t longest_row(const struct hash_table *table)
{
	size_t nr = 0, longest = 0;

	for (size_t i = 0; i < 2 * table->nr_slots; i++) {
		nr = table->slots[i & (table->nr_slots - 1)].number ? nr + 1 : 0;
		longest = nr > longest ? nr : longest;
	}
	return longest;
}

/* Keys that were chosen to be searched for from one slot on, and those that fill slots one behind the other. */
static void test_chosen_keys(void **state)
{
	static const unsigned shifts[] = {0, 49};
	enum { SLOT_SHIFT = 49 /* of 2^15 slots, which MANY keys take */ };

	(void)state;
	for (size_t s = 0; s < sizeof(shifts) / sizeof(shifts[0]); s++) {
		struct hash_table table = {0};
		size_t far = 0;
		for (uint64_t i = 0; i < MANY; i++) {
			const uint64_t key = key_of_product(i << shifts[s]);
			assert_int_equal(((key ^ key >> 32) * 0x9e3779b97f4a7c15) >> SLOT_SHIFT, shifts[s] ? i : 0);
			assert_int_equal(hash_table_add_number(&table, key, i + 1), 0);
			if (i % 1000 == 0)
				assert_true(longest_row(&table) < 1000);
		}
		assert_int_equal(table.nr, MANY);
		assert_int_equal(table.nr_slots, UINT64_C(1) << (64 - SLOT_SHIFT));
		assert_true(longest_row(&table) < 1000);
		for (uint64_t i = 0; i < MANY; i++) {
			const uint64_t key = key_of_product(i << shifts[s]);
			struct hash_slot *slot = hash_table_find(&table, key);
			assert_non_null(slot);
			assert_int_equal(slot->number, i + 1);
			far += ((size_t)(slot - table.slots) - hash_table_place(&table, key)) & (table.nr_slots - 1);
		}
		assert_true(far < 2 * MANY);
		for (uint64_t i = 0; i < MANY; i += 2)
			hash_table_remove(&table, hash_table_find(&table, key_of_product(i << shifts[s])));
		for (uint64_t i = 0; i < MANY; i++)
			assert_int_equal(hash_table_find_number(&table, key_of_product(i << shifts[s])),
					 i % 2 ? i + 1 : 0);
		hash_table_fini(&table);
	}
}

/* Items whose keys are equal cannot be told apart by a secret: they stay what they are. */
static void test_many_of_one_key(void **state)
{
	struct hash_table table = {0};
	size_t seen = 0;

	(void)state;
	for (uint64_t i = 0; i < 2000; i++)
		assert_int_equal(hash_table_add_number(&table, 7, i + 1), 0);
	for (struct hash_slot *slot = hash_table_find(&table, 7); slot; slot = hash_table_next(&table, slot))
		seen++;
	assert_int_equal(seen, 2000);
	hash_table_fini(&table);
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

/* What is filled again with as much does not grow again; one that had much more once does not stay large. */
static void test_clear_keeps_slots(void **state)
{
	struct hash_table table = {0};

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(hash_table_add_number(&table, i, 1), 0);
	const size_t nr_slots = table.nr_slots;
	hash_table_clear(&table);
	assert_int_equal(table.nr_slots, nr_slots);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(hash_table_add_number(&table, i, 1), 0);
	hash_table_clear(&table);
	assert_int_equal(table.nr_slots, 0);
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

/* Of two words: that make good for each other; and which differ in bits that a multiplication leaves alone. */
static void test_chosen_bytes(void **state)
{
	enum { BYTES = 16 };
	struct hash_table table = {0};

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		const uint64_t words[BYTES / 8] = {i, stable_hash_mix(BYTES, i) ^ 0x1234567};
		const uint64_t stable = stable_hash_mix(stable_hash_mix(BYTES, words[0]), words[1]);
		assert_int_equal(stable, stable_hash_mix(0, 0x1234567));
		const uint64_t hash = hash_bytes(words, BYTES);
		assert_null(hash_table_find(&table, hash));
		assert_int_equal(hash_table_add_number(&table, hash, 1), 0);
	}
	hash_table_fini(&table);
	for (uint64_t i = 0; i < MANY; i++) {
		const uint64_t top = UINT64_C(1) << 63, folded = top >> 32;
		const uint64_t stable = stable_hash_mix(stable_hash_mix(i, 5), 6), hash = hash_mix(hash_mix(i, 5), 6);
		assert_int_equal(stable_hash_mix(stable_hash_mix(i, 5 ^ top), 6 ^ top ^ folded), stable);
		assert_true(hash_mix(hash_mix(i, 5 ^ top), 6 ^ top ^ folded) != hash);
	}
}

/* They are in databases. */
static void test_stable_hashes(void **state)
{
	(void)state;
	assert_int_equal(stable_hash_text(""), 0);
	assert_int_equal(stable_hash_text("main"), 0x8ba76d2ed28ab4b3);
	assert_int_equal(stable_hash_text("std::vector<int>::push_back"), 0xd0e5ab94eb7c9de9);
	assert_int_equal(stable_hash_mix(1, 0xffffffff81000000), 0x9811862b8c5bfa3e);
	assert_int_equal(stable_hash_mix(stable_hash_mix(0, stable_hash_text("main")), stable_hash_text("work")),
			 0xf815af7f6efa6dcc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_spreads),
		cmocka_unit_test(test_chosen_keys),
		cmocka_unit_test(test_many_of_one_key),
		cmocka_unit_test(test_same_key),
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_clear_keeps_slots),
		cmocka_unit_test(test_hashes),
		cmocka_unit_test(test_chosen_bytes),
		cmocka_unit_test(test_stable_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
