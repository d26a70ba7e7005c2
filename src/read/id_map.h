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

/* The index, or -1. */
ptrdiff_t id_map_find(const struct id_map *map, uint64_t id);
