/* SPDX-License-Identifier: MIT */
#include "record/build_ids/mapping_processes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "sysinfo/proc_maps.h"

struct process_file {
	uint64_t inode;
	uint32_t major, minor;
	uint64_t start, end; /* of its first map */
};

void mapping_processes_fini(struct mapping_processes *list)
{
	free(list->objects);
	free(list->entries);
	free(list->files);
	*list = (struct mapping_processes){0};
}

/* 0 or -ENOMEM. */
static int put_process(struct mapping_processes *list, size_t object, size_t process)
{
	struct object_processes *its = &list->objects[object];

	if (its->nr == MAPPING_PROCESSES_MAX || (its->nr && list->entries[its->last - 1].process == process))
		return 0;
	int err = array_room(list->entries, list->nr_entries, list->entries_room);
	if (err)
		return err;
	list->entries[list->nr_entries++] = (struct object_process){.process = process};
	*(its->nr ? &list->entries[its->last - 1].next : &its->first) = list->nr_entries;
	its->last = list->nr_entries;
	its->nr++;
	return 0;
}

static int put_processes(struct mapping_processes *list, const struct map_history *history)
{
	int err = 0;

	list->objects = calloc(history->nr_objects, sizeof(*list->objects));
	if (!list->objects)
		return -ENOMEM;
	for (size_t i = 0; i < history->nr_processes; i++) {
		const struct history_process *process = &history->processes[i];
		for (size_t k = 0; k < process->nr_maps && process->pid > 0 && !err; k++)
			err = put_process(list, process->maps[k].object, i);
	}
	return err;
}

static int file_compare(const void *a, const void *b)
{
	const struct process_file *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->major != y->major)
		return x->major < y->major ? -1 : 1;
	return x->minor < y->minor ? -1 : x->minor > y->minor;
}

/* Of several maps of a file any will do. */
static int read_files(struct mapping_processes *list, int32_t pid)
{
	AUTO_BUF struct buf maps = {0};
	struct proc_map map;
	char path[32];

	list->pid = 0;
	list->nr_files = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	int err = list->maps_bytes < MAPPING_MAPS_MAX_BYTES
			  ? fd_slurp(path, MAPPING_MAPS_MAX_BYTES - list->maps_bytes, &maps)
			  : -ENOENT;
	list->maps_bytes = err == -EFBIG ? MAPPING_MAPS_MAX_BYTES : list->maps_bytes + maps.len;
	for (struct span rest = buf_span(&maps); !err && proc_maps_next(&rest, &map);) {
		if (!map.ino)
			continue;
		err = array_room(list->files, list->nr_files, list->files_room);
		if (!err)
			list->files[list->nr_files++] =
				(struct process_file){map.ino, map.maj, map.min, map.start, map.end};
	}
	if (!err && list->nr_files)
		qsort(list->files, list->nr_files, sizeof(*list->files), file_compare);
	list->pid = err ? 0 : pid;
	return err;
}

int mapping_processes_open_map(struct mapping_processes *list, pid_t pid, const struct object_mapping *mapped)
{
	const struct process_file wanted = {mapped->file.inode, mapped->file.major, mapped->file.minor, 0, 0};
	int err = list->pid == pid ? 0 : read_files(list, pid);
	const struct process_file *file =
		err || !list->nr_files ? NULL
				       : bsearch(&wanted, list->files, list->nr_files, sizeof(wanted), file_compare);

	return file ? object_file_open_map(pid, file->start, file->end, mapped) : err ? err : -ENOENT;
}

int mapping_processes_open(struct mapping_processes *list, const struct map_history *history, size_t object,
			   const struct object_mapping *mapped)
{
	int err = list->objects ? 0 : put_processes(list, history);

	if (err)
		return err;
	for (size_t at = list->objects[object].first; at && list->nr_failed < MAPPING_FAILED_MAX;
	     at = list->entries[at - 1].next) {
		const int32_t pid = history->processes[list->entries[at - 1].process].pid;
		int fd = object_file_open_below_root(pid, history->objects[object].name, mapped);
		if (fd < 0 && mapped && mapped->file.inode)
			fd = mapping_processes_open_map(list, pid, mapped);
		if (fd >= 0)
			return fd;
		list->nr_failed++;
	}
	return -ENOENT;
}
