/* SPDX-License-Identifier: MIT */
/*
 * mapping_processes: opens files that are not under their path any more, in living processes that have mapped them.
 * What that takes does not grow with the product of objects and mappings, and all of it has an end: a process can map
 * tens of thousands of deleted files. Private to build_ids. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sysinfo/object_file.h"
#include "tasks/map_history.h"

struct process_file;

struct object_processes {
	size_t first, last; /* entries, + 1; 0: none */
	unsigned nr;
};

struct object_process {
	size_t process; /* of the history */
	size_t next;    /* entry, + 1; 0: it is the last one */
};

/* Zeroed: nothing is known yet. */
struct mapping_processes {
	struct object_processes *objects; /* heap; NULL: not made yet */
	struct object_process *entries;   /* heap; at most MAPPING_PROCESSES_MAX for each object */
	size_t nr_entries, entries_room;
	uint64_t nr_failed;  /* processes in which a file was not found */
	uint64_t maps_bytes; /* that were read of /proc/PID/maps */
	/* Of the process whose maps were read last; of each file its first map. */
	int32_t pid;                /* 0: none */
	struct process_file *files; /* heap; sorted */
	size_t nr_files, files_room;
};

enum {
	MAPPING_PROCESSES_MAX = 64,
	MAPPING_FAILED_MAX = 1 << 16,     /* of all objects: 1 or 2 s */
	MAPPING_MAPS_MAX_BYTES = 1 << 28, /* likewise: 2 or 3 s */
};

void mapping_processes_fini(struct mapping_processes *list);

/*
 * The file of an object of the history, which must not grow after the first call. `mapped` NULL: whatever has its name.
 * A descriptor, or -errno.
 */
int mapping_processes_open(struct mapping_processes *list, const struct map_history *history, size_t object,
			   const struct object_mapping *mapped);

/*
 * A file that a living process has mapped, whatever its path: `mapped` has its inode. The maps of a process are read
 * when another one was asked for before. A descriptor, or -errno.
 */
int mapping_processes_open_map(struct mapping_processes *list, pid_t pid, const struct object_mapping *mapped);
