/* SPDX-License-Identifier: MIT */
#include "analyze/interned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64, FIRST_SLOTS = 128 };

/* Numbers and slots must not wrap; so many things are beyond any recording that fits in memory. */
static const uint32_t most = UINT32_MAX / 4;

void interned_fini(struct interned *interned)
{
	free(interned->things);
	free(interned->slots);
	*interned = (struct interned){0};
}

static uint32_t hash_of(const uint32_t *thing, uint32_t words)
{
	uint64_t hash = 1;

	for (uint32_t i = 0; i < words; i++) {
		hash = (hash ^ thing[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return (uint32_t)hash;
}

static int grow_things(struct interned *interned, uint32_t words)
{
	uint32_t room = interned->room ? interned->room * 2 : FIRST_ROOM;
	uint32_t *things = room <= most ? reallocarray(interned->things, room, words * sizeof(*things)) : NULL;

	if (!things)
		return -ENOMEM;
	interned->things = things;
	interned->room = room;
	return 0;
}

static int grow_slots(struct interned *interned, uint32_t words)
{
	uint32_t nr_slots = interned->nr_slots ? interned->nr_slots * 2 : FIRST_SLOTS, mask = nr_slots - 1;
	uint32_t *slots = calloc(nr_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < interned->nr; i++) {
		uint32_t at = hash_of(interned_at(interned, words, i), words) & mask;
		while (slots[at])
			at = (at + 1) & mask;
		slots[at] = i + 1;
	}
	free(interned->slots);
	interned->slots = slots;
	interned->nr_slots = nr_slots;
	return 0;
}

/* For one more thing. */
static int reserve(struct interned *interned, uint32_t words)
{
	int err = interned->nr == interned->room ? grow_things(interned, words) : 0;

	if (!err && interned->nr >= interned->nr_slots / 4 * 3)
		err = grow_slots(interned, words);
	return err;
}

int interned_find(struct interned *interned, const void *thing, uint32_t words, uint32_t *ret)
{
	const size_t bytes = words * sizeof(*interned->things);

	if (reserve(interned, words))
		return -ENOMEM;
	uint32_t mask = interned->nr_slots - 1, at = hash_of(thing, words) & mask;
	for (; interned->slots[at]; at = (at + 1) & mask) {
		uint32_t number = interned->slots[at] - 1;
		if (memcmp(interned_at(interned, words, number), thing, bytes) == 0) {
			*ret = number;
			return 0;
		}
	}
	memcpy(interned->things + (size_t)interned->nr * words, thing, bytes);
	*ret = interned->nr++;
	interned->slots[at] = interned->nr;
	return 0;
}
