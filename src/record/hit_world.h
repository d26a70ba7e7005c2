/* SPDX-License-Identifier: MIT */
/*
 * hit_world: which object was mapped where, in which process, when. Private to hits.
 *
 * Fed by records in any order of time (a file holds one ring after the other), asked when all are in: so a
 * map that stands behind the samples that fell on it is found as well. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct hit_page;

struct hit_object {
	char *name; /* heap; as in the record that mapped it */
	uint64_t ino;
	uint32_t name_hash, hash; /* of the name; of name, inode and owner */
	int32_t pid;              /* of a process that mapped it */
	bool kernel;              /* the kernel or a module */
	bool hit;
	uint8_t id_bytes; /* 0: not read, or there is none */
	uint8_t id[20];   /* build-id */
};

struct hit_map {
	uint64_t start, last; /* first and last address */
	uint64_t time_ns;
	uint64_t max_last; /* of all maps up to this one, once they are sorted by start */
	size_t object;
};

/* From here on the process has none of the maps that it had before. */
struct hit_reset {
	uint64_t time_ns;
	int32_t parent; /* a fork: it has this one's; HIT_NO_PARENT: an exec */
};
enum { HIT_NO_PARENT = -2 };

struct hit_process {
	int32_t pid; /* HIT_KERNEL_PID: the kernel */
	bool sorted;
	struct hit_map *maps; /* heap */
	size_t nr_maps, maps_room;
	struct hit_reset *resets; /* heap */
	size_t nr_resets, resets_room;
};

struct hit_world {
	struct hit_object *objects; /* heap; in the order of their first sight */
	size_t nr_objects, objects_room;
	struct hit_process *processes; /* heap */
	size_t nr_processes, processes_room;
	size_t *object_slots, *process_slots; /* heap; hash tables of index + 1 */
	size_t object_mask, process_mask;
};

struct hit_mapping {
	int32_t pid;
	bool kernel;
	uint64_t start, bytes, time_ns, ino;
	struct span name;
};

int hit_world_init(struct hit_world *world);
void hit_world_fini(struct hit_world *world);

/* 0 or -ENOMEM. */
int hit_world_map(struct hit_world *world, const struct hit_mapping *mapping);
int hit_world_exec(struct hit_world *world, int32_t pid, uint64_t time_ns);
int hit_world_fork(struct hit_world *world, int32_t pid, int32_t parent, uint64_t time_ns);

/* Marks the objects that lay under the page while it was hit. */
void hit_world_mark(struct hit_world *world, const struct hit_page *page);
