/* SPDX-License-Identifier: MIT */
#include "tasks/map_history.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/span.h"
#include "perfdata/record.h"
#include "tasks/task_event.h"

/* Generations without an exec that are followed: a loop in damaged records ends here. */
enum { FORKS_MAX = 4096 };

void map_history_fini(struct map_history *history)
{
	for (size_t i = 0; i < history->nr_objects; i++)
		free(history->objects[i].name);
	for (size_t i = 0; i < history->nr_processes; i++) {
		free(history->processes[i].maps);
		free(history->processes[i].resets);
	}
	free(history->objects);
	free(history->processes);
	hash_table_fini(&history->object_numbers);
	hash_table_fini(&history->process_numbers);
	*history = (struct map_history){0};
}

static bool object_is(const struct history_object *object, const struct task_event *map, bool kernel)
{
	return object->kernel == kernel &&
	       !memcmp(&object->id.build_id, &map->id.build_id, sizeof(object->id.build_id)) &&
	       object->id.file.inode == map->id.file.inode && file_id_equal(&object->id.file, &map->id.file) &&
	       !strcmp(object->name, map->name.ptr);
}

static int object_intern(struct map_history *history, const struct task_event *map, bool kernel, uint64_t time_ns,
			 size_t *ret)
{
	uint64_t name_hash = hash_bytes(map->name.ptr, map->name.len), of_build;
	struct hash_table *numbers = &history->object_numbers;

	memcpy(&of_build, map->id.build_id.bytes, sizeof(of_build));
	uint64_t key = hash_mix(hash_mix(name_hash, map->id.file.inode), of_build ^ kernel);
	for (struct hash_slot *slot = hash_table_find(numbers, key); slot; slot = hash_table_next(numbers, slot)) {
		struct history_object *object = &history->objects[slot->number - 1];
		if (!object_is(object, map, kernel))
			continue;
		if (time_ns < object->first_ns)
			object->first_ns = time_ns;
		if (!object->id.file.generation)
			object->id.file.generation = map->id.file.generation;
		*ret = slot->number - 1;
		return 0;
	}
	int err = array_room(history->objects, history->nr_objects, history->objects_room);
	char *name = err ? NULL : strdup(map->name.ptr);
	if (!name || hash_table_add_number(numbers, key, history->nr_objects + 1)) {
		free(name);
		return -ENOMEM;
	}
	*ret = history->nr_objects++;
	history->objects[*ret] = (struct history_object){
		.name = name,
		.id = map->id,
		.first_ns = time_ns,
		.name_hash = name_hash,
		.kernel = kernel,
		.anonymous = !kernel && (task_event_is_anonymous(map) || path_is_memory(map->name.ptr))};
	return 0;
}

static struct history_process *process_find(const struct map_history *history, int32_t pid)
{
	uint64_t number = hash_table_find_number(&history->process_numbers, (uint32_t)pid);

	return number ? &history->processes[number - 1] : NULL;
}

static int process_intern(struct map_history *history, int32_t pid, struct history_process **ret)
{
	*ret = process_find(history, pid);
	if (*ret)
		return 0;
	if (array_room(history->processes, history->nr_processes, history->processes_room) ||
	    hash_table_add_number(&history->process_numbers, (uint32_t)pid, history->nr_processes + 1))
		return -ENOMEM;
	*ret = &history->processes[history->nr_processes++];
	**ret = (struct history_process){.pid = pid};
	return 0;
}

static int add_map(struct map_history *history, const struct task_event *map, uint64_t time_ns)
{
	bool kernel = (map->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	uint64_t last = map->start + (map->len - 1);
	struct history_process *process;
	size_t object;

	if (map->len == 0 || map->misc & PERF_RECORD_MISC_MMAP_DATA)
		return 0; /* nothing runs there */
	int err = object_intern(history, map, kernel, time_ns, &object);
	err = err ? err : process_intern(history, kernel ? HISTORY_KERNEL_PID : (int32_t)map->pid, &process);
	err = err ? err : array_room(process->maps, process->nr_maps, process->maps_room);
	if (err)
		return err;
	process->maps[process->nr_maps++] = (struct history_map){
		.start = map->start,
		.last = last < map->start ? UINT64_MAX : last,
		.time_ns = time_ns,
		.object = object,
	};
	process->sorted = false;
	return 0;
}

static int add_reset(struct map_history *history, int32_t pid, int32_t parent, uint64_t time_ns)
{
	struct history_process *process;
	int err = process_intern(history, pid, &process);

	err = err ? err : array_room(process->resets, process->nr_resets, process->resets_room);
	if (err)
		return err;
	process->resets[process->nr_resets++] = (struct history_reset){.time_ns = time_ns, .parent = parent};
	process->sorted = false;
	return 0;
}

int map_history_add(struct map_history *history, const struct task_event *event, uint64_t time_ns)
{
	int32_t pid = (int32_t)event->pid;

	switch (event->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return add_map(history, event, time_ns);
	case PERF_RECORD_COMM:
		return event->misc & PERF_RECORD_MISC_COMM_EXEC ? add_reset(history, pid, HISTORY_NO_PARENT, time_ns)
								: 0;
	case PERF_RECORD_FORK:
		if (event->pid == event->ppid)
			return 0; /* a thread: it has the maps of its process */
		return add_reset(history, pid,
				 event->misc & RECORD_MISC_FORK_EXEC ? HISTORY_NO_PARENT : (int32_t)event->ppid,
				 time_ns);
	default: return 0;
	}
}

static int map_by_start(const void *a, const void *b)
{
	const struct history_map *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int reset_by_time(const void *a, const void *b)
{
	const struct history_reset *left = a, *right = b;

	return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

static void process_sort(struct history_process *process)
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
static size_t maps_from(const struct history_process *process, uint64_t addr)
{
	return partition_point(process->nr_maps, i, process->maps[i].start <= addr);
}

/* The latest reset not after the time. NULL: none. */
static const struct history_reset *reset_before(const struct history_process *process, uint64_t time_ns)
{
	const size_t behind = partition_point(process->nr_resets, i, process->resets[i].time_ns <= time_ns);
	return behind ? &process->resets[behind - 1] : NULL;
}

enum mark_which { MARK_LATER, MARK_AT };

static void mark_object(struct map_history *history, size_t nr)
{
	struct history_object *object = &history->objects[nr];

	object->sampled = true;
	history->nr_ran_anonymous += object->anonymous;
}

/*
 * MARK_LATER: marks what was mapped in the range after first_ns and not after last_ns; MARK_AT: what was
 * mapped at `since_ns`. Returns the time of the latest map from since_ns to first_ns; UINT64_MAX: there is
 * none.
 */
static uint64_t maps_mark(struct map_history *history, const struct history_process *process,
			  const struct history_range *range, uint64_t since_ns, enum mark_which which)
{
	uint64_t latest = UINT64_MAX;

	for (size_t i = maps_from(process, range->last); i-- > 0;) {
		const struct history_map *map = &process->maps[i];

		if (map->max_last < range->start)
			break;
		if (map->last < range->start)
			continue;
		bool later = map->time_ns > range->first_ns && map->time_ns <= range->last_ns;
		if (which == MARK_LATER ? later : map->time_ns == since_ns)
			mark_object(history, map->object);
		if (map->time_ns >= since_ns && map->time_ns <= range->first_ns &&
		    (latest == UINT64_MAX || map->time_ns > latest))
			latest = map->time_ns;
	}
	return latest;
}

/*
 * Marks what lay in the range at its first time and what came there until its last. Where the
 * process has mapped nothing itself since its fork, it has what its parent had then.
 */
static void lineage_mark(struct map_history *history, int32_t pid, struct history_range range)
{
	for (unsigned generation = 0; generation < FORKS_MAX; generation++) {
		struct history_process *process = process_find(history, pid);

		if (!process)
			return;
		process_sort(process);
		const uint64_t before = history->nr_ran_anonymous;
		const struct history_reset *reset = reset_before(process, range.first_ns);
		uint64_t latest = maps_mark(history, process, &range, reset ? reset->time_ns : 0, MARK_LATER);

		if (latest != UINT64_MAX)
			maps_mark(history, process, &range, latest, MARK_AT);
		process->code_ran |= history->nr_ran_anonymous != before;
		if (latest != UINT64_MAX || !reset || reset->parent == HISTORY_NO_PARENT)
			return;
		pid = reset->parent;
		range.first_ns = range.last_ns = reset->time_ns;
	}
}

void map_history_mark(struct map_history *history, int32_t pid, const struct history_range *range)
{
	const uint64_t before = history->nr_ran_anonymous;

	lineage_mark(history, pid, *range);
	struct history_process *process = process_find(history, pid);
	if (process)
		process->inherited_code_ran |= history->nr_ran_anonymous != before;
	for (size_t i = process ? process->nr_resets : 0; i-- > 0;) {
		const struct history_reset *reset = &process->resets[i];

		if (reset->time_ns <= range->first_ns)
			break;
		/* the pid was used again between the two times */
		if (reset->time_ns <= range->last_ns && reset->parent != HISTORY_NO_PARENT) {
			struct history_range then = {range->start, range->last, reset->time_ns, reset->time_ns};
			lineage_mark(history, reset->parent, then);
		}
	}
}

/* Number i of the programs of the process: it began with the reset before; 0: what was there at first. */
static uint64_t program_start(const struct history_process *process, size_t i)
{
	return i ? process->resets[i - 1].time_ns : 0;
}

static bool program_has_code(const struct map_history *history, const struct history_process *process, size_t i)
{
	for (size_t k = 0; k < process->nr_maps; k++) {
		const struct history_map *map = &process->maps[k];
		if (history->objects[map->object].anonymous && map->time_ns >= program_start(process, i) &&
		    (i == process->nr_resets || map->time_ns < program_start(process, i + 1)))
			return true;
	}
	return false;
}

/* With code of its parent alone. 0: there is none. */
static uint64_t last_fork(const struct history_process *process)
{
	for (size_t i = process ? process->nr_resets : 0; i-- > 0;)
		if (process->resets[i].parent != HISTORY_NO_PARENT)
			return process->resets[i].time_ns;
	return 0;
}

bool map_history_find_writer(struct map_history *history, int32_t pid, uint64_t first_ns, uint64_t last_ns,
			     uint64_t *ret)
{
	struct history_process *process = process_find(history, pid);
	size_t nr_writers = 0, only = 0, nr_at_once = 0, at_once = 0;

	if (process)
		process_sort(process);
	for (size_t i = 0; process && process->nr_resets && i <= process->nr_resets; i++) {
		if (!program_has_code(history, process, i))
			continue;
		/* What launchers before it wrote is its, too. */
		const uint64_t since_ns = nr_writers ? program_start(process, only + 1) : 0;
		const uint64_t until_ns = i < process->nr_resets ? program_start(process, i + 1) : UINT64_MAX;
		nr_writers++;
		only = i;
		if (last_ns >= since_ns && (first_ns < until_ns || until_ns == UINT64_MAX)) {
			nr_at_once++;
			at_once = i;
		}
	}
	if (nr_writers > 1 && (first_ns > last_ns || nr_at_once != 1))
		return false;
	*ret = nr_writers ? program_start(process, nr_writers > 1 ? at_once : only) : last_fork(process);
	return true;
}
