/* SPDX-License-Identifier: MIT */
/*
 * maps: the present maps of one address space, as the records describe them. The maps of a set never overlap.
 *
 * The threads of a process share one set, with a reference count. After a fork the sets of parent and child share the
 * memory of what is equal in both: one change takes as much as a few maps do, however many there are. One thread, for
 * all sets that were cloned from each other; several may look up while none changes the set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Access rights of a map: as PROT_READ, PROT_WRITE and PROT_EXEC of mmap(2); and whether it is MAP_SHARED. */
enum map_rights { MAP_MAY_READ = 1, MAP_MAY_WRITE = 2, MAP_MAY_EXECUTE = 4, MAP_MAY_ALL = 7, MAP_IS_SHARED = 8 };

struct map {
	uint64_t start, end; /* end exclusive */
	uint64_t pgoff;      /* file offset of `start` */
	void *object;        /* what is mapped: owned by the caller; for readers a struct dso */
	uint64_t inode;      /* of the file; 0: unknown */
	uint8_t rights;      /* enum map_rights */
	bool identity;       /* addresses inside the object equal those in memory (no file, or the kernel) */
	uint32_t nr_marked;  /* private: see maps_is_former() */
};

struct maps;

struct maps *maps_new(void); /* empty, one reference; NULL: out of memory */
struct maps *maps_ref(struct maps *maps);
void maps_unref(struct maps *maps);         /* NULL is fine */
struct maps *maps_clone(struct maps *maps); /* one reference; NULL: out of memory */
void maps_clear(struct maps *maps);

/* All that are in the set are former ones: of what the process ran before an exec. */
void maps_mark_former(struct maps *maps);
bool maps_is_former(const struct maps *maps, const struct map *map); /* of that set */

/* Adds the map, and removes its range from the other maps. Does nothing for an empty map. 0 or -ENOMEM. */
int maps_insert(struct maps *maps, const struct map *map);

/* Removes the map that contains `address`, if there is one. 0 or -ENOMEM. */
int maps_remove(struct maps *maps, uint64_t address);

/* The map that contains `address`; NULL: none. Valid until the set changes. */
const struct map *maps_find(const struct maps *maps, uint64_t address);

unsigned maps_users(const struct maps *maps); /* number of references */

/* A new number after each change. Two sets with the same number have equal maps; 0: the set is empty. */
uint64_t maps_generation(const struct maps *maps);
void maps_distinguish(struct maps *maps); /* gives a clone a number of its own before it changes */

/* Calls visit() for each map, by address. */
void maps_visit(const struct maps *maps, void (*visit)(const struct map *map, void *ctx), void *ctx);

/* NULL: nothing is mapped there. Old recordings do not say what may be done with a map. */
static inline bool map_may_be_code(const struct map *map)
{
	return map && (map->rights & MAP_MAY_EXECUTE || !(map->rights & MAP_MAY_ALL));
}

static inline uint64_t map_address(const struct map *map, uint64_t ip)
{
	return map->identity ? ip : ip - map->start + map->pgoff;
}
