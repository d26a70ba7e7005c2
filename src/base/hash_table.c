/* SPDX-License-Identifier: MIT */
#include "base/hash_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

void hash_table_fini(struct hash_table *table)
{
	free(table->slots);
	*table = (struct hash_table){0};
}

void hash_table_clear(struct hash_table *table)
{
	if (table->nr_slots > FIRST_SLOTS)
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

int hash_table_reserve(struct hash_table *table)
{
	/* Longer probes from 5/8 on cost more than the memory. */
	if (table->nr < table->nr_slots / 8 * 5)
		return 0;
	struct hash_table grown = {.nr_slots = table->nr_slots ? table->nr_slots * 2 : FIRST_SLOTS, .nr = table->nr};
	grown.slots = calloc(grown.nr_slots, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_slots; i++)
		if (table->slots[i].number)
			*free_slot(&grown, table->slots[i].key) = table->slots[i];
	free(table->slots);
	*table = grown;
	return 0;
}

int hash_table_add_number(struct hash_table *table, uint64_t key, uint64_t number)
{
	int err = hash_table_reserve(table);

	if (err)
		return err;
	*free_slot(table, key) = (struct hash_slot){.key = key, .number = number};
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
