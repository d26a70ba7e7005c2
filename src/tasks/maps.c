/* SPDX-License-Identifier: MIT */
#include "tasks/maps.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The maps themselves; shared by the sets of a parent and its children until one changes. */
struct map_array {
	unsigned refs;
	size_t nr, room;
	struct map maps[];
};

struct maps {
	unsigned refs;
	struct map_array *array; /* NULL: empty */
	uint64_t generation;
};

/* Over all sets, so that a generation stands for one state of one set, also after that set is gone. */
static uint64_t next_generation(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void array_unref(struct map_array *array)
{
	if (array && --array->refs == 0)
		free(array);
}

struct maps *maps_new(void)
{
	struct maps *maps = calloc(1, sizeof(*maps));

	if (maps)
		maps->refs = 1;
	return maps;
}

struct maps *maps_ref(struct maps *maps)
{
	maps->refs++;
	return maps;
}

void maps_unref(struct maps *maps)
{
	if (!maps || --maps->refs)
		return;
	array_unref(maps->array);
	free(maps);
}

struct maps *maps_clone(struct maps *maps)
{
	struct maps *clone = maps_new();

	if (clone && maps->array) {
		clone->generation = maps->generation; /* it has the same maps */
		clone->array = maps->array;
		clone->array->refs++;
	}
	return clone;
}

void maps_clear(struct maps *maps)
{
	array_unref(maps->array);
	maps->array = NULL;
	maps->generation = next_generation();
}

/* An array of our own with room for `more` maps. */
static int array_prepare(struct maps *maps, size_t more)
{
	struct map_array *old = maps->array;
	size_t nr = old ? old->nr : 0;

	maps->generation = next_generation();
	if (old && old->refs == 1 && old->room - nr >= more)
		return 0;
	size_t room = (nr + more) + (nr + more) / 2 + 8;
	struct map_array *array = malloc(sizeof(*array) + room * sizeof(array->maps[0]));
	if (!array)
		return -ENOMEM;
	array->refs = 1;
	array->nr = nr;
	array->room = room;
	if (nr)
		memcpy(array->maps, old->maps, nr * sizeof(array->maps[0]));
	array_unref(old);
	maps->array = array;
	return 0;
}

int maps_mark_former(struct maps *maps)
{
	if (!maps->array)
		return 0;
	if (array_prepare(maps, 0))
		return -ENOMEM;
	for (size_t i = 0; i < maps->array->nr; i++)
		maps->array->maps[i].is_former = true;
	return 0;
}

/* Index of the first map that ends behind `address`. */
static size_t array_lower(const struct map_array *array, uint64_t address)
{
	size_t low = 0, high = array ? array->nr : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (array->maps[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Puts `nr_new` maps in place of those in [at, at + nr_old). There is room. */
static void array_replace(struct map_array *array, size_t at, size_t nr_old, const struct map *new, size_t nr_new)
{
	memmove(array->maps + at + nr_new, array->maps + at + nr_old,
		(array->nr - at - nr_old) * sizeof(array->maps[0]));
	if (nr_new)
		memcpy(array->maps + at, new, nr_new * sizeof(*new));
	array->nr = array->nr - nr_old + nr_new;
}

int maps_insert(struct maps *maps, const struct map *map)
{
	if (map->start >= map->end)
		return 0;
	if (array_prepare(maps, 2))
		return -ENOMEM;

	struct map_array *array = maps->array;
	size_t first = array_lower(array, map->start), behind = first;
	while (behind < array->nr && array->maps[behind].start < map->end)
		behind++;

	/* What the first and the last of those in the way keep on their far sides. */
	struct map put[3];
	size_t nr = 0;
	if (first < behind && array->maps[first].start < map->start) {
		put[nr] = array->maps[first];
		put[nr++].end = map->start;
	}
	put[nr++] = *map;
	if (first < behind && array->maps[behind - 1].end > map->end) {
		put[nr] = array->maps[behind - 1];
		put[nr].pgoff += map->end - put[nr].start;
		put[nr++].start = map->end;
	}
	array_replace(array, first, behind - first, put, nr);
	return 0;
}

int maps_remove(struct maps *maps, uint64_t address)
{
	size_t at = array_lower(maps->array, address);

	if (!maps->array || at == maps->array->nr || maps->array->maps[at].start > address)
		return 0;
	if (array_prepare(maps, 0))
		return -ENOMEM;
	array_replace(maps->array, at, 1, NULL, 0);
	return 0;
}

static bool array_holds(const struct map_array *array, size_t at, uint64_t address)
{
	return at < array->nr && array->maps[at].start <= address && address < array->maps[at].end;
}

const struct map *maps_find(const struct maps *maps, uint64_t address)
{
	const struct map_array *array = maps->array;
	size_t at = array_lower(array, address);

	return array && array_holds(array, at, address) ? &array->maps[at] : NULL;
}

const struct map *maps_list(const struct maps *maps, size_t *ret_nr)
{
	*ret_nr = maps->array ? maps->array->nr : 0;
	return maps->array ? maps->array->maps : NULL;
}

unsigned maps_users(const struct maps *maps)
{
	return maps->refs;
}

uint64_t maps_generation(const struct maps *maps)
{
	return maps->generation;
}
