/* SPDX-License-Identifier: MIT */
/*
 * maps: what one address space has mapped now, as far as records say. Maps of one set never overlap.
 *
 * The threads of a process share one set (counted references). A fork copies it, but the copy is only made when one of
 * the two changes: most children exec at once. One thread; several may look up while none changes the set.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a process may do there: PROT_READ, PROT_WRITE and PROT_EXEC of mmap(2), and one more. */
enum map_rights { MAP_MAY_READ = 1, MAP_MAY_WRITE = 2, MAP_MAY_EXECUTE = 4, MAP_MAY_ALL = 7, MAP_IS_SHARED = 8 };

struct map {
	uint64_t start, end; /* end exclusive */
	uint64_t pgoff;      /* where in the file `start` is */
	void *object;        /* what is mapped: the caller's, in the reader a dso */
	uint64_t inode;      /* of the file; 0: unknown */
	uint8_t rights;      /* enum map_rights */
	bool identity;       /* addresses inside the object are those of memory (no file behind it; the kernel) */
};

struct maps;

struct maps *maps_new(void); /* empty, one reference; NULL: out of memory */
struct maps *maps_ref(struct maps *maps);
void maps_unref(struct maps *maps);         /* NULL is fine */
struct maps *maps_clone(struct maps *maps); /* one reference; NULL: out of memory */
void maps_clear(struct maps *maps);

/* Adds the map, and removes what other maps have in its range. Empty maps are left out. 0 or -ENOMEM. */
int maps_insert(struct maps *maps, const struct map *map);

/* Takes out the map that holds `address`, if there is one. 0 or -ENOMEM. */
int maps_remove(struct maps *maps, uint64_t address);

/* NULL: nothing there. Valid until the set changes. */
const struct map *maps_find(const struct maps *maps, uint64_t address);

unsigned maps_users(const struct maps *maps); /* references to it */

/* Another number after each change. Sets with the same number have the same maps; 0: empty. */
uint64_t maps_generation(const struct maps *maps);

/* All maps by address. Valid until the set changes. */
const struct map *maps_list(const struct maps *maps, size_t *ret_nr);

static inline uint64_t map_address(const struct map *map, uint64_t ip)
{
	return map->identity ? ip : ip - map->start + map->pgoff;
}
