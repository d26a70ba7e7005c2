/* SPDX-License-Identifier: MIT */
/*
 * map_history: which object was mapped at which addresses of which process, and when.
 *
 * Records may be added in any order of time (a file may hold one ring after the other); all lookups come after the last
 * record. So a map is found also when its record comes behind the samples in it. One owner, one thread. All times are
 * those of records, in ns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "perfdata/object_id.h"

struct task_event;

enum { HISTORY_KERNEL_PID = -1 };

struct history_object {
	char *name; /* heap; as in the record that mapped it */
	struct object_id id;
	uint64_t first_ns; /* when it was first mapped; 0: before the recording */
	uint64_t name_hash;
	bool kernel;            /* the kernel or a module */
	bool anonymous;         /* memory without a file; or path_is_memory(): the caller says if it is an ELF file */
	bool sampled;           /* set by map_history_mark() */
	struct elf_id build_id; /* for the caller to set */
};

struct history_map {
	uint64_t start, last; /* first and last address */
	uint64_t time_ns;
	uint64_t max_last; /* the largest `last` of all maps up to this one; valid once they are sorted by start */
	size_t object;
};

/* From this time on the process has none of its earlier maps. */
struct history_reset {
	uint64_t time_ns;
	int32_t parent; /* of a fork: it has the maps of this process; HISTORY_NO_PARENT: an exec, it has none */
};
enum { HISTORY_NO_PARENT = -2 };

struct history_process {
	int32_t pid; /* HISTORY_KERNEL_PID: the kernel */
	bool sorted;
	bool code_ran; /* set by map_history_mark(): an anonymous object that it mapped was sampled, here or in a child
			*/
	bool inherited_code_ran;  /* set by map_history_mark(): it ran such an object of a parent */
	struct history_map *maps; /* heap */
	size_t nr_maps, maps_room;
	struct history_reset *resets; /* heap */
	size_t nr_resets, resets_room;
};

/* Zeroed: empty. */
struct map_history {
	struct history_object *objects; /* heap; in the order in which they came */
	size_t nr_objects, objects_room;
	uint64_t nr_ran_anonymous;
	struct history_process *processes; /* heap; likewise */
	size_t nr_processes, processes_room;
	struct hash_table object_numbers;  /* by hash of name and identity: index + 1 */
	struct hash_table process_numbers; /* by pid: index + 1 */
};

void map_history_fini(struct map_history *history);

/* Adds COMM of an exec, FORK, MMAP and MMAP2; ignores other records. 0 or -ENOMEM. */
int map_history_add(struct map_history *history, const struct task_event *event, uint64_t time_ns);

/* Marks as sampled the objects that were mapped at these addresses of the process between the two times. */
struct history_range {
	uint64_t start, last;
	uint64_t first_ns, last_ns;
};
void map_history_mark(struct map_history *history, int32_t pid, const struct history_range *range);

/*
 * Sets *ret to when the process began to run the program that has written the names of its code, which was compiled at
 * run time, to a file, last between the two times; first_ns > last_ns: it is not known when. 0: what it ran at first.
 * A program without such code, as a launcher, writes them for the next one that has some. false: it is not known.
 */
bool map_history_find_writer(struct map_history *history, int32_t pid, uint64_t first_ns, uint64_t last_ns,
			     uint64_t *ret);
