/* SPDX-License-Identifier: MIT */
/*
 * hash_table: maps a key of 64 bits to a pointer or a number. One owner, one thread; several threads may search at once
 * while nothing is added or removed.
 *
 * If the whole identity of an item fits into the key (an id, a pid, two numbers of 32 bits), an equal key is a match.
 * If it does not (a text, a struct), the key is a hash of it; different items may have the same key, and the caller
 * compares them:
 *
 * 	for (struct hash_slot *slot = hash_table_find(table, key); slot; slot = hash_table_next(table, slot))
 * 		if (same(slot->item, wanted))
 * 			return slot->item;
 *
 * Open addressing with linear probing. A slot is valid until the next add, remove or clear. The items belong to the
 * caller.
 *
 * Keys come from recordings and from processes, which may be hostile. Where keys were chosen so that searches begin at
 * the same slots, the first long row of slots in use makes the table look for keys where a secret of this process says:
 * searches stay short. Texts and structs that were chosen to have one key do not: hash_mix() uses that secret, too.
 * So its hashes are others in each run: they are not stored (stable_hash_mix() is for that), and the order of slots is
 * not shown. Nothing helps a caller who gives many items one key, by a hash that leaves out in what they differ.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_slot {
	uint64_t key;
	union {
		void *item;
		uint64_t number;
	}; /* NULL, 0: a free slot */
};
_Static_assert(sizeof(void *) == sizeof(uint64_t), "a NULL item is the number 0");

/* Zeroed is an empty table. */
struct hash_table {
	struct hash_slot *slots; /* heap */
	size_t nr_slots, nr;     /* nr_slots: 0 or a power of two; nr: slots in use */
	bool mixes_keys;         /* private: places are those of hash_mix() of a key */
};

void hash_table_fini(struct hash_table *table); /* leaves an empty, usable table */
/* The same, cheaper for a table that is filled again: it keeps its slots if it was small, or had used many of them. */
void hash_table_clear(struct hash_table *table);

/* Room for one more, so that the next add cannot fail. 0 or -ENOMEM. */
int hash_table_reserve(struct hash_table *table);

/* Adds an item (not NULL) or a number (not 0) with that key. Earlier ones with the same key stay. 0 or -ENOMEM. */
int hash_table_add(struct hash_table *table, uint64_t key, void *item);
int hash_table_add_number(struct hash_table *table, uint64_t key, uint64_t number);

void hash_table_remove(struct hash_table *table, struct hash_slot *slot);

/*
 * A hash of bytes and of a text. hash_mix() takes one more value into a hash, and costs a multiplication. It resists
 * those who do not know the secret as the step of wyhash does: no way to choose values of one hash is known, but that
 * is not a proof. Who must not take equal hashes for equal contents uses unwind/siphash.h, which costs several times as
 * much for a short text. Of a hash that is cut the upper half is good; of an even product the lowest bits are not.
 */
uint64_t hash_bytes(const void *bytes, size_t len);
uint64_t hash_text(const char *text);

extern uint64_t hash_secret[2]; /* private: random numbers, set before main() */

static inline uint64_t hash_mix(uint64_t hash, uint64_t value)
{
	unsigned __int128 product = (unsigned __int128)(hash ^ hash_secret[0]) * (value ^ hash_secret[1]);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Private; not inline, as searches are on the path of each sample that is read, and few tables need it. */
uint64_t hash_table_mixed_key(uint64_t key) __attribute__((cold));

/* The number of the slot at which the search for the key begins. */
static inline size_t hash_table_place(const struct hash_table *table, uint64_t key)
{
	/*
	 * 2^64 / golden ratio spreads consecutive keys; the fold mixes in their upper bits. The upper bits of the
	 * product are the slot number: in a table of twice the size items keep their order, so growing the table reads
	 * and writes memory sequentially.
	 */
	if (__builtin_expect(table->mixes_keys, 0))
		key = hash_table_mixed_key(key);
	return ((key ^ key >> 32) * 0x9e3779b97f4a7c15ull) >> (__builtin_clzll(table->nr_slots) + 1);
}

/* The first slot with that key, probing from slot `at` on; NULL: none. Used by the two functions below. */
static inline struct hash_slot *hash_table_probe(const struct hash_table *table, size_t at, uint64_t key)
{
	for (;; at++) {
		struct hash_slot *slot = &table->slots[at & (table->nr_slots - 1)];
		if (!slot->number)
			return NULL;
		if (slot->key == key)
			return slot;
	}
}

/* The first slot with that key; NULL: none. */
static inline struct hash_slot *hash_table_find(const struct hash_table *table, uint64_t key)
{
	return table->nr ? hash_table_probe(table, hash_table_place(table, key), key) : NULL;
}

/* The next one with the key of `slot`; NULL: no other. */
static inline struct hash_slot *hash_table_next(const struct hash_table *table, const struct hash_slot *slot)
{
	return hash_table_probe(table, (size_t)(slot - table->slots) + 1, slot->key);
}

static inline void *hash_table_find_item(const struct hash_table *table, uint64_t key)
{
	const struct hash_slot *slot = hash_table_find(table, key);

	return slot ? slot->item : NULL;
}

/* The number that was added with that key; 0: none. */
static inline uint64_t hash_table_find_number(const struct hash_table *table, uint64_t key)
{
	const struct hash_slot *slot = hash_table_find(table, key);

	return slot ? slot->number : 0;
}

/*
 * For files and databases: a hash that is the same in every run and on every machine. Who chooses what is hashed can
 * choose the hash, too, so it is no key of a table.
 */
uint64_t stable_hash_text(const char *text);

static inline uint64_t stable_hash_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull; /* 2^64 / golden ratio */
	return hash ^ hash >> 32;
}
