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

static int grow(struct id_map *map)
{
	struct id_map bigger = {.nr_slots = map->nr_slots ? map->nr_slots * 2 : FIRST_SLOTS, .nr = map->nr};

	bigger.slots = calloc(bigger.nr_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->nr_slots; i++) {
		if (map->slots[i].index_plus_1)
			*id_map_slot_of(&bigger, map->slots[i].id) = map->slots[i];
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
	struct id_map_slot *slot = id_map_slot_of(map, id);
	if (slot->index_plus_1)
		return 0;
	*slot = (struct id_map_slot){id, index + 1};
	map->nr++;
	return 0;
}
