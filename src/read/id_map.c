/* SPDX-License-Identifier: MIT */
#include "read/id_map.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

void id_map_fini(struct id_map *map)
{
	free(map->slots);
	*map = (struct id_map){0};
}

/* The slot of the id, or the free one where it belongs; there is always a free one. */
static struct id_map_slot *slot_of(const struct id_map *map, uint64_t id)
{
	/* Ids come densely from a counter of the kernel: the golden ratio spreads them. */
	size_t at = (id * 0x9e3779b97f4a7c15ull) >> 32;

	for (;; at++) {
		struct id_map_slot *slot = &map->slots[at & (map->nr_slots - 1)];
		if (!slot->index_plus_1 || slot->id == id)
			return slot;
	}
}

static int grow(struct id_map *map)
{
	struct id_map bigger = {.nr_slots = map->nr_slots ? map->nr_slots * 2 : FIRST_SLOTS, .nr = map->nr};

	bigger.slots = calloc(bigger.nr_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->nr_slots; i++) {
		if (map->slots[i].index_plus_1)
			*slot_of(&bigger, map->slots[i].id) = map->slots[i];
	}
	free(map->slots);
	*map = bigger;
	return 0;
}

int id_map_add(struct id_map *map, uint64_t id, size_t index)
{
	if (map->nr * 2 >= map->nr_slots) {
		int err = grow(map);
		if (err)
			return err;
	}
	struct id_map_slot *slot = slot_of(map, id);
	if (slot->index_plus_1)
		return 0;
	*slot = (struct id_map_slot){id, index + 1};
	map->nr++;
	return 0;
}

ptrdiff_t id_map_find(const struct id_map *map, uint64_t id)
{
	if (!map->nr)
		return -1;
	return (ptrdiff_t)slot_of(map, id)->index_plus_1 - 1;
}
