/* SPDX-License-Identifier: MIT */
#include "tasks/task_table.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_table.h"
#include "perfdata/record.h"
#include "tasks/maps.h"
#include "tasks/task_event.h"
#include "tasks/tasks.h"

/* What the record of a map says beside the range: the object of struct map. */
struct mapped_file {
	struct mapped_file *next;
	bool in_use;               /* while unused ones are looked for */
	struct record_mmap2 fixed; /* a MMAP record fills the front */
	char name[];
};

struct task_table {
	size_t trailer_bytes;
	struct tasks *tasks;
	struct mapped_file *files;
	size_t nr_files, most_files; /* with more, those that no map has any more are freed */
};

enum { FIRST_MOST_FILES = 1024 };

struct task_table *task_table_new(size_t trailer_bytes)
{
	struct task_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->trailer_bytes = trailer_bytes;
	table->most_files = FIRST_MOST_FILES;
	table->tasks = tasks_new(0);
	if (table->tasks)
		return table;
	free(table);
	return NULL;
}

void task_table_free(struct task_table *table)
{
	if (!table)
		return;
	tasks_free(table->tasks);
	while (table->files) {
		struct mapped_file *file = table->files;
		table->files = file->next;
		free(file);
	}
	free(table);
}

static void use_file(const struct map *map, void *ctx)
{
	struct mapped_file *file = map->object;

	(void)ctx;
	file->in_use = true;
}

/*
 * Those that some task has mapped. Threads share the maps of their process, which are visited once; without memory to
 * note that, again for each thread.
 */
static void mark_used(struct task *const tasks[], size_t nr)
{
	struct hash_table visited = {0};

	for (size_t i = 0; i < nr; i++) {
		struct maps *maps = tasks[i]->maps;
		if (!maps || hash_table_find(&visited, (uintptr_t)maps))
			continue;
		maps_visit(maps, use_file, NULL);
		if (maps_users(maps) > 1)
			(void)!hash_table_add(&visited, (uintptr_t)maps, maps);
	}
	hash_table_fini(&visited);
}

/* Most files are mapped by processes that end soon. Without memory for the list of tasks it is done another time. */
static void free_unused_files(struct task_table *table)
{
	struct task **tasks;
	size_t nr_tasks;

	if (tasks_list(table->tasks, &tasks, &nr_tasks))
		return;
	for (struct mapped_file *file = table->files; file; file = file->next)
		file->in_use = false;
	mark_used(tasks, nr_tasks);
	free(tasks);
	for (struct mapped_file **at = &table->files; *at;) {
		struct mapped_file *file = *at;
		if (file->in_use) {
			at = &file->next;
			continue;
		}
		*at = file->next;
		free(file);
		table->nr_files--;
	}
	table->most_files = 2 * table->nr_files + FIRST_MOST_FILES;
}

static int add_map(struct task_table *table, const struct task_event *event, const struct perf_event_header *record)
{
	if (event->pid == UINT32_MAX)
		return 0; /* the kernel's are listed anew whenever they are needed */
	struct task *task = tasks_make(table->tasks, event->pid, event->tid);
	struct mapped_file *file = task ? calloc(1, sizeof(*file) + event->name.len + 1) : NULL;
	struct map map = {.start = event->start, .pgoff = event->pgoff, .object = file};

	if (!file)
		return -ENOMEM;
	memcpy(&file->fixed, record,
	       event->type == PERF_RECORD_MMAP2 ? sizeof(struct record_mmap2) : sizeof(struct record_mmap));
	memcpy(file->name, event->name.ptr, event->name.len);
	file->next = table->files;
	table->files = file;
	table->nr_files++;
	if (__builtin_add_overflow(event->start, event->len, &map.end))
		map.end = UINT64_MAX;
	int err = maps_insert(task->maps, &map);
	if (table->nr_files > table->most_files)
		free_unused_files(table);
	return err;
}

int task_table_take(struct task_table *table, const struct perf_event_header *record)
{
	struct task_event event;
	struct task *task;

	if (task_event_decode(record, record, table->trailer_bytes, &event) <= 0)
		return 0;
	switch (event.type) {
	case PERF_RECORD_COMM:
		task = tasks_make(table->tasks, event.pid, event.tid);
		if (!task || tasks_name(table->tasks, task, event.name.ptr))
			return -ENOMEM;
		if (event.misc & PERF_RECORD_MISC_COMM_EXEC)
			tasks_exec(table->tasks, task);
		return 0;
	case PERF_RECORD_FORK: return tasks_fork(table->tasks, &event, tasks_find(table->tasks, event.ptid));
	case PERF_RECORD_EXIT:
		task = tasks_find(table->tasks, event.tid);
		if (task && task->pid == event.pid)
			tasks_end(table->tasks, task);
		return 0;
	default: return add_map(table, &event, record);
	}
}

static void put_task(const struct task_table *table, const struct task *task, struct buf *out)
{
	/* Threads are those of the leader, which stands before them. */
	uint32_t parent = task->tid == task->pid ? task->parent_pid : task->pid;
	const struct record_fork fork = {
		.header = {.type = PERF_RECORD_FORK, .misc = RECORD_MISC_FORK_EXEC},
		.pid = task->pid,
		.ppid = parent,
		.tid = task->tid,
		.ptid = parent,
	};
	const struct record_comm comm = {
		.header = {.type = PERF_RECORD_COMM},
		.pid = task->pid,
		.tid = task->tid,
	};

	if (parent && parent != UINT32_MAX)
		record_put(out, &fork, sizeof(fork), (struct span){0}, table->trailer_bytes);
	if (task->is_named)
		record_put(out, &comm, sizeof(comm), (struct span){task->comm->text, strlen(task->comm->text)},
			   table->trailer_bytes);
}

struct map_writer {
	const struct task_table *table;
	const struct task *task;
	struct buf *out;
};

static void put_map(const struct map *map, void *ctx)
{
	const struct map_writer *writer = ctx;
	const struct mapped_file *file = map->object;
	struct record_mmap2 fixed = file->fixed;
	bool is_mmap2 = fixed.header.type == PERF_RECORD_MMAP2;

	fixed.pid = fixed.tid = writer->task->pid; /* it may be the map of its parent */
	fixed.addr = map->start;
	fixed.len = map->end - map->start;
	fixed.pgoff = map->pgoff;
	record_put(writer->out, &fixed, is_mmap2 ? sizeof(fixed) : sizeof(struct record_mmap),
		   (struct span){file->name, strlen(file->name)}, writer->table->trailer_bytes);
}

/* By process, the leader first. */
static int by_process(const void *a, const void *b)
{
	const struct task *left = *(struct task *const *)a, *right = *(struct task *const *)b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	if ((left->tid == left->pid) != (right->tid == right->pid))
		return left->tid == left->pid ? -1 : 1;
	return (left->tid > right->tid) - (left->tid < right->tid);
}

void task_table_put(const struct task_table *table, struct buf *out)
{
	struct task **tasks;
	size_t nr;

	if (tasks_list(table->tasks, &tasks, &nr)) {
		out->failed = true;
		return;
	}
	qsort(tasks, nr, sizeof(struct task *), by_process);
	for (size_t i = 0; i < nr; i++) {
		bool has_maps_of_last = i && tasks[i]->maps == tasks[i - 1]->maps;
		if (tasks[i]->tid == tasks[i]->pid)
			put_task(table, tasks[i], out);
		if (!has_maps_of_last)
			maps_visit(tasks[i]->maps, put_map, &(struct map_writer){table, tasks[i], out});
		if (tasks[i]->tid != tasks[i]->pid)
			put_task(table, tasks[i], out);
	}
	free(tasks);
}
