/* SPDX-License-Identifier: MIT */
#include "base/hash_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	FIRST_SLOTS = 64,
	/* Random keys fill more slots in a row once in 10^10 times, in a table that is as full as it gets. */
	MOST_IN_A_ROW = 256,
	MOST_SLOTS_PER_ITEM = 8, /* else it is cheaper to make a table that is cleared anew as it grows */
};

/* These numbers are for a kernel without the call: nothing else depends on them being secret. */
uint64_t hash_secret[2] = {0xa0761d6478bd642f, 0xe7037ed1a0b428db};

__attribute__((constructor)) static void choose_secret(void)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), GRND_NONBLOCK) == sizeof(random))
		memcpy(hash_secret, random, sizeof(random));
}

uint64_t hash_table_mixed_key(uint64_t key)
{
	return hash_mix(0, key);
}

void hash_table_fini(struct hash_table *table)
{
	free(table->slots);
	*table = (struct hash_table){0};
}

void hash_table_clear(struct hash_table *table)
{
	if (table->nr_slots > FIRST_SLOTS && table->nr < table->nr_slots / MOST_SLOTS_PER_ITEM)
		hash_table_fini(table);
	else if (table->nr)
		memset(table->slots, 0, table->nr_slots * sizeof(*table->slots));
	table->nr = 0;
}

static struct hash_slot *free_slot(const struct hash_table *table, uint64_t key)
{
	size_t at = hash_table_place(table, key);

	while (table->slots[at].number)
		at = (at + 1) & (table->nr_slots - 1);
	return &table->slots[at];
}

/* Whether too many slots before and behind this one are in use: a search may have to pass them all. */
static bool is_in_long_row(const struct hash_table *table, const struct hash_slot *slot)
{
	const size_t mask = table->nr_slots - 1, at = (size_t)(slot - table->slots);
	size_t before = 0, behind = 0;

	while (table->slots[(at - before - 1) & mask].number)
		before++;
	while (table->slots[(at + behind + 1) & mask].number)
		behind++;
	return before + behind >= MOST_IN_A_ROW;
}

/* Into so many slots. 0 or -ENOMEM. */
static int rebuild(struct hash_table *table, size_t nr_slots, bool mixes_keys)
{
	struct hash_table built = {.nr_slots = nr_slots, .nr = table->nr, .mixes_keys = mixes_keys};

	built.slots = calloc(nr_slots, sizeof(*built.slots));
	if (!built.slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_slots; i++)
		if (table->slots[i].number)
			*free_slot(&built, table->slots[i].key) = table->slots[i];
	free(table->slots);
	*table = built;
	return 0;
}

int hash_table_reserve(struct hash_table *table)
{
	/* Longer probes from 5/8 on cost more than the memory. */
	if (table->nr < table->nr_slots / 8 * 5)
		return 0;
	return rebuild(table, table->nr_slots ? table->nr_slots * 2 : FIRST_SLOTS, table->mixes_keys);
}

int hash_table_add_number(struct hash_table *table, uint64_t key, uint64_t number)
{
	int err = hash_table_reserve(table);

	if (err)
		return err;
	struct hash_slot *slot = free_slot(table, key);
	/* Without memory for it the table is slow, and nothing else. */
	if (!table->mixes_keys && is_in_long_row(table, slot) && !rebuild(table, table->nr_slots, true))
		slot = free_slot(table, key);
	*slot = (struct hash_slot){.key = key, .number = number};
	table->nr++;
	return 0;
}

int hash_table_add(struct hash_table *table, uint64_t key, void *item)
{
	return hash_table_add_number(table, key, (uintptr_t)item);
}

void hash_table_remove(struct hash_table *table, struct hash_slot *slot)
{
	size_t mask = table->nr_slots - 1, hole = (size_t)(slot - table->slots);

	/* What was put behind the hole because its place was taken moves up, so that no probe ends too early. */
	for (size_t at = (hole + 1) & mask; table->slots[at].number; at = (at + 1) & mask) {
		size_t wanted = hash_table_place(table, table->slots[at].key);
		if (((at - wanted) & mask) < ((at - hole) & mask))
			continue;
		table->slots[hole] = table->slots[at];
		hole = at;
	}
	table->slots[hole] = (struct hash_slot){0};
	table->nr--;
}

uint64_t hash_bytes(const void *bytes, size_t len)
{
	const uint8_t *from = bytes;
	uint64_t hash = len, word;

	for (; len >= sizeof(word); len -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		hash = hash_mix(hash, word);
	}
	word = 0;
	memcpy(&word, from, len);
	return hash_mix(hash, word);
}

uint64_t hash_text(const char *text)
{
	return hash_bytes(text, strlen(text));
}

uint64_t stable_hash_text(const char *text)
{
	size_t len = strlen(text);
	uint64_t hash = len, word;

	for (; len >= sizeof(word); len -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		hash = stable_hash_mix(hash, word);
	}
	word = 0;
	memcpy(&word, text, len);
	return stable_hash_mix(hash, word);
}
