/* SPDX-License-Identifier: MIT */
#include "record/hit_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/hit_pages.h"

enum {
	FIRST_SLOTS = 256,
	/* generations without an exec that are followed: a loop in damaged records ends here */
	FORKS_MAX = 4096,
};

int hit_world_init(struct hit_world *world)
{
	*world = (struct hit_world){
		.object_slots = calloc(FIRST_SLOTS, sizeof(size_t)),
		.process_slots = calloc(FIRST_SLOTS, sizeof(size_t)),
		.object_mask = FIRST_SLOTS - 1,
		.process_mask = FIRST_SLOTS - 1,
	};
	if (world->object_slots && world->process_slots)
		return 0;
	hit_world_fini(world);
	return -ENOMEM;
}

void hit_world_fini(struct hit_world *world)
{
	for (size_t i = 0; i < world->nr_objects; i++)
		free(world->objects[i].name);
	for (size_t i = 0; i < world->nr_processes; i++) {
		free(world->processes[i].maps);
		free(world->processes[i].resets);
	}
	free(world->objects);
	free(world->processes);
	free(world->object_slots);
	free(world->process_slots);
	*world = (struct hit_world){0};
}

/* Room for one more element of `size` bytes in the heap array. */
static int array_reserve(void *array, size_t nr, size_t *room, size_t size)
{
	void *old;

	if (nr < *room)
		return 0;
	memcpy(&old, array, sizeof(old));
	void *grown = reallocarray(old, *room ? 2 * *room : 8, size);
	if (!grown)
		return -ENOMEM;
	*room = *room ? 2 * *room : 8;
	memcpy(array, &grown, sizeof(grown));
	return 0;
}

static uint32_t pid_hash(int32_t pid)
{
	return (uint32_t)(((uint64_t)(uint32_t)pid * 0x9e3779b97f4a7c15ull) >> 32);
}

/* FNV-1a */
static uint32_t name_hash(struct span name)
{
	const uint8_t *bytes = name.ptr;
	uint32_t hash = 0x811c9dc5;

	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ bytes[i]) * 0x01000193;
	return hash;
}

/* A table of twice the size, filled with index + 1 by the hashes that `hash_at` tells. */
static int slots_grow(size_t **slots, size_t *mask, size_t nr, const struct hit_world *world,
		      uint32_t (*hash_at)(const struct hit_world *, size_t))
{
	size_t new_mask = 2 * *mask + 1;

	if (2 * (nr + 1) <= *mask)
		return 0;
	size_t *grown = calloc(new_mask + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		size_t at = hash_at(world, i) & new_mask;
		while (grown[at])
			at = (at + 1) & new_mask;
		grown[at] = i + 1;
	}
	free(*slots);
	*slots = grown;
	*mask = new_mask;
	return 0;
}

static uint32_t object_hash_at(const struct hit_world *world, size_t i)
{
	return world->objects[i].hash;
}

static uint32_t process_hash_at(const struct hit_world *world, size_t i)
{
	return pid_hash(world->processes[i].pid);
}

static bool object_is(const struct hit_object *object, const struct hit_mapping *mapping, uint32_t hash)
{
	return object->hash == hash && object->ino == mapping->ino && object->kernel == mapping->kernel &&
	       !strncmp(object->name, mapping->name.ptr, mapping->name.len) &&
	       !object->name[mapping->name.len];
}

static int object_intern(struct hit_world *world, const struct hit_mapping *mapping, size_t *ret)
{
	uint32_t of_name = name_hash(mapping->name);
	uint32_t hash = (of_name ^ (uint32_t)mapping->ino ^ mapping->kernel) * 0x85ebca6b;
	int err = slots_grow(&world->object_slots, &world->object_mask, world->nr_objects, world,
			     object_hash_at);

	err = err ? err
		  : array_reserve(&world->objects, world->nr_objects, &world->objects_room,
				  sizeof(*world->objects));
	if (err)
		return err;
	size_t at = hash & world->object_mask;
	for (; world->object_slots[at]; at = (at + 1) & world->object_mask) {
		*ret = world->object_slots[at] - 1;
		if (object_is(&world->objects[*ret], mapping, hash))
			return 0;
	}
	char *name = strndup(mapping->name.ptr, mapping->name.len);
	if (!name)
		return -ENOMEM;
	world->objects[world->nr_objects] = (struct hit_object){
		.name = name,
		.ino = mapping->ino,
		.name_hash = of_name,
		.hash = hash,
		.pid = mapping->pid,
		.kernel = mapping->kernel,
	};
	*ret = world->nr_objects++;
	world->object_slots[at] = world->nr_objects;
	return 0;
}

static struct hit_process *process_find(const struct hit_world *world, int32_t pid)
{
	for (size_t at = pid_hash(pid) & world->process_mask; world->process_slots[at];
	     at = (at + 1) & world->process_mask) {
		struct hit_process *process = &world->processes[world->process_slots[at] - 1];
		if (process->pid == pid)
			return process;
	}
	return NULL;
}

static int process_intern(struct hit_world *world, int32_t pid, struct hit_process **ret)
{
	*ret = process_find(world, pid);
	if (*ret)
		return 0;
	int err = slots_grow(&world->process_slots, &world->process_mask, world->nr_processes, world,
			     process_hash_at);
	err = err ? err
		  : array_reserve(&world->processes, world->nr_processes, &world->processes_room,
				  sizeof(*world->processes));
	if (err)
		return err;
	size_t at = pid_hash(pid) & world->process_mask;
	while (world->process_slots[at])
		at = (at + 1) & world->process_mask;
	*ret = &world->processes[world->nr_processes++];
	**ret = (struct hit_process){.pid = pid};
	world->process_slots[at] = world->nr_processes;
	return 0;
}

int hit_world_map(struct hit_world *world, const struct hit_mapping *mapping)
{
	struct hit_process *process;
	size_t object;

	if (mapping->bytes == 0)
		return 0;
	int err = object_intern(world, mapping, &object);
	err = err ? err : process_intern(world, mapping->kernel ? HIT_KERNEL_PID : mapping->pid, &process);
	err = err ? err
		  : array_reserve(&process->maps, process->nr_maps, &process->maps_room,
				  sizeof(*process->maps));
	if (err)
		return err;
	uint64_t last = mapping->start + (mapping->bytes - 1);
	process->maps[process->nr_maps++] = (struct hit_map){
		.start = mapping->start,
		.last = last < mapping->start ? UINT64_MAX : last,
		.time_ns = mapping->time_ns,
		.object = object,
	};
	process->sorted = false;
	return 0;
}

int hit_world_fork(struct hit_world *world, int32_t pid, int32_t parent, uint64_t time_ns)
{
	struct hit_process *process;
	int err = process_intern(world, pid, &process);

	err = err ? err
		  : array_reserve(&process->resets, process->nr_resets, &process->resets_room,
				  sizeof(*process->resets));
	if (err)
		return err;
	process->resets[process->nr_resets++] = (struct hit_reset){.time_ns = time_ns, .parent = parent};
	process->sorted = false;
	return 0;
}

int hit_world_exec(struct hit_world *world, int32_t pid, uint64_t time_ns)
{
	return hit_world_fork(world, pid, HIT_NO_PARENT, time_ns);
}

static int map_by_start(const void *a, const void *b)
{
	const struct hit_map *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int reset_by_time(const void *a, const void *b)
{
	const struct hit_reset *left = a, *right = b;

	return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

static void process_sort(struct hit_process *process)
{
	uint64_t max_last = 0;

	if (process->sorted)
		return;
	process->sorted = true;
	if (process->nr_resets)
		qsort(process->resets, process->nr_resets, sizeof(*process->resets), reset_by_time);
	if (process->nr_maps)
		qsort(process->maps, process->nr_maps, sizeof(*process->maps), map_by_start);
	for (size_t i = 0; i < process->nr_maps; i++) {
		if (process->maps[i].last > max_last)
			max_last = process->maps[i].last;
		process->maps[i].max_last = max_last;
	}
}

/* How many maps start at or below the address: those that may lie under it stand before. */
static size_t maps_from(const struct hit_process *process, uint64_t addr)
{
	size_t low = 0, high = process->nr_maps;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (process->maps[middle].start <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The latest reset not after the time. NULL: none. */
static const struct hit_reset *reset_before(const struct hit_process *process, uint64_t time_ns)
{
	size_t low = 0, high = process->nr_resets;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (process->resets[middle].time_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &process->resets[low - 1] : NULL;
}

/* A page and the time in which it was hit. */
struct hit {
	uint64_t start, last; /* addresses */
	uint64_t first_ns, last_ns;
};

enum mark_which { MARK_LATER, MARK_AT };

/*
 * MARK_LATER: marks what was mapped under the page after first_ns and not after last_ns; MARK_AT: what was
 * mapped at `since_ns`. Returns the time of the latest map from since_ns to first_ns; UINT64_MAX: there is
 * none.
 */
static uint64_t maps_mark(struct hit_world *world, const struct hit_process *process, const struct hit *hit,
			  uint64_t since_ns, enum mark_which which)
{
	uint64_t latest = UINT64_MAX;

	for (size_t i = maps_from(process, hit->last); i-- > 0;) {
		const struct hit_map *map = &process->maps[i];

		if (map->max_last < hit->start)
			break;
		if (map->last < hit->start)
			continue;
		bool later = map->time_ns > hit->first_ns && map->time_ns <= hit->last_ns;
		if (which == MARK_LATER ? later : map->time_ns == since_ns)
			world->objects[map->object].hit = true;
		if (map->time_ns >= since_ns && map->time_ns <= hit->first_ns &&
		    (latest == UINT64_MAX || map->time_ns > latest))
			latest = map->time_ns;
	}
	return latest;
}

/*
 * Marks what lay under the page when it was first hit and what came there until it was last hit. Where the
 * process has mapped nothing itself since its fork, it has what its parent had then.
 */
static void lineage_mark(struct hit_world *world, int32_t pid, struct hit hit)
{
	for (unsigned generation = 0; generation < FORKS_MAX; generation++) {
		struct hit_process *process = process_find(world, pid);

		if (!process)
			return;
		process_sort(process);
		const struct hit_reset *reset = reset_before(process, hit.first_ns);
		uint64_t latest = maps_mark(world, process, &hit, reset ? reset->time_ns : 0, MARK_LATER);

		if (latest != UINT64_MAX) {
			maps_mark(world, process, &hit, latest, MARK_AT);
			return;
		}
		if (!reset || reset->parent == HIT_NO_PARENT)
			return;
		pid = reset->parent;
		hit.first_ns = hit.last_ns = reset->time_ns;
	}
}

void hit_world_mark(struct hit_world *world, const struct hit_page *page)
{
	uint64_t start = (page->page - 1) << HIT_PAGE_SHIFT;
	struct hit hit = {start, start | ((1u << HIT_PAGE_SHIFT) - 1), page->first_ns, page->last_ns};

	lineage_mark(world, page->pid, hit);
	const struct hit_process *process = process_find(world, page->pid);
	for (size_t i = process ? process->nr_resets : 0; i-- > 0;) {
		const struct hit_reset *reset = &process->resets[i];

		if (reset->time_ns <= hit.first_ns)
			break;
		/* the pid came again while the page was being hit */
		if (reset->time_ns <= hit.last_ns && reset->parent != HIT_NO_PARENT) {
			struct hit then = {hit.start, hit.last, reset->time_ns, reset->time_ns};
			lineage_mark(world, reset->parent, then);
		}
	}
}
