/* SPDX-License-Identifier: MIT */
/* id_map: from the kernel's id of an event's fd to the index of the event. One owner (id_map_fini), one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct id_map {
	struct id_map_slot {
		uint64_t id;
		uint64_t index_plus_1; /* 0: free */
	} * slots;
	size_t nr_slots, nr; /* slots: a power of two */
};

void id_map_fini(struct id_map *map);

/* The first index that was given for an id stays. 0 or -ENOMEM. */
int id_map_add(struct id_map *map, uint64_t id, size_t index);

/* The slot of the id, or the free one where it belongs; there is always a free one. Not of a map that is empty. */
static inline struct id_map_slot *id_map_slot_of(const struct id_map *map, uint64_t id)
{
	/* Ids come densely from a counter of the kernel: the golden ratio spreads them. */
	size_t at = (id * 0x9e3779b97f4a7c15ull) >> 32;

	for (;; at++) {
		struct id_map_slot *slot = &map->slots[at & (map->nr_slots - 1)];
		if (!slot->index_plus_1 || slot->id == id)
			return slot;
	}
}

/* The index, or -1. */
static inline ptrdiff_t id_map_find(const struct id_map *map, uint64_t id)
{
	return map->nr ? (ptrdiff_t)id_map_slot_of(map, id)->index_plus_1 - 1 : -1;
}
