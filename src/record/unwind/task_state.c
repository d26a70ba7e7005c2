/* SPDX-License-Identifier: MIT */
#include "record/unwind/task_state.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "perfdata/sample.h"
#include "record/order/time_queue.h"
#include "record/unwind/mapped_objects.h"
#include "tasks/maps.h"
#include "tasks/task_event.h"
#include "tasks/tasks.h"

enum { CHANGED_SLOTS = 4096 /* a power of two */ };

struct task_state {
	struct mapped_objects *objects;
	size_t trailer_bytes, waiting_bytes, max_waiting_bytes;
	struct tasks *tasks;
	struct time_queue events;                                           /* heap: copies of records */
	void (*applied)(void *ctx, const struct perf_event_header *record); /* NULL: not wanted */
	void *ctx;
	/* When a process last changed what it has mapped; processes of one slot share the latest time. */
	uint64_t changed_ns[CHANGED_SLOTS];
};

struct task_state *task_state_new(struct mapped_objects *objects, size_t trailer_bytes, size_t max_waiting_bytes)
{
	struct task_state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->objects = objects;
	state->trailer_bytes = trailer_bytes;
	state->max_waiting_bytes = max_waiting_bytes;
	state->tasks = tasks_new(0);
	if (!state->tasks) {
		free(state);
		return NULL;
	}
	return state;
}

static void drop_events(struct task_state *state)
{
	for (const struct time_entry *first; (first = time_queue_first(&state->events));) {
		if (state->applied)
			state->applied(state->ctx, first->item);
		free(first->item);
		time_queue_drop_first(&state->events);
	}
	time_queue_fini(&state->events);
	state->waiting_bytes = 0;
}

void task_state_free(struct task_state *state)
{
	if (!state)
		return;
	drop_events(state);
	tasks_free(state->tasks);
	free(state);
}

static int add_map(struct task_state *state, const struct task_event *event)
{
	struct map map = {.start = event->start, .pgoff = event->pgoff, .rights = event->prot & MAP_MAY_ALL};

	if (event->pid == UINT32_MAX || (event->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		return 0; /* the kernel's */
	struct task *task = tasks_make(state->tasks, event->pid, event->tid);
	if (!task)
		return -ENOMEM;
	if (__builtin_add_overflow(event->start, event->len, &map.end))
		map.end = UINT64_MAX;
	map.object = mapped_objects_find(state->objects, event);
	return task->maps ? maps_insert(task->maps, &map) : 0;
}

/* *ret_changed: the process that has other maps now; 0: none. */
static int apply(struct task_state *state, const struct task_event *event, uint32_t *ret_changed)
{
	struct task *task;

	*ret_changed = 0;
	switch (event->type) {
	case PERF_RECORD_COMM:
		task = event->misc & PERF_RECORD_MISC_COMM_EXEC ? tasks_find(state->tasks, event->tid) : NULL;
		if (!task)
			return 0;
		*ret_changed = event->pid;
		tasks_exec(state->tasks, task);
		return 0;
	case PERF_RECORD_FORK:
		*ret_changed = event->pid == event->ppid ? 0 : event->pid;
		task = tasks_find(state->tasks, event->ptid);
		return tasks_fork(state->tasks, event, task ? task : tasks_find(state->tasks, event->ppid));
	case PERF_RECORD_EXIT:
		task = tasks_find(state->tasks, event->tid);
		if (task && task->pid == event->pid)
			tasks_end(state->tasks, task);
		return 0;
	default: *ret_changed = event->pid; return add_map(state, event);
	}
}

int task_state_apply(struct task_state *state, const struct perf_event_header *record)
{
	struct task_event event;
	uint32_t changed;

	if (task_event_decode(record, record, state->trailer_bytes, &event) <= 0)
		return 0;
	return apply(state, &event, &changed);
}

static int apply_first(struct task_state *state)
{
	const struct time_entry first = *time_queue_first(&state->events);
	struct perf_event_header *record = first.item;
	struct task_event event;
	uint32_t changed = 0;
	int err = 0;

	time_queue_drop_first(&state->events);
	state->waiting_bytes -= record->size;
	if (task_event_decode(record, record, state->trailer_bytes, &event) > 0)
		err = apply(state, &event, &changed);
	if (state->applied)
		state->applied(state->ctx, record);
	free(record);
	if (changed) {
		uint64_t *changed_ns = &state->changed_ns[changed % CHANGED_SLOTS];
		*changed_ns = first.time_ns > *changed_ns ? first.time_ns : *changed_ns;
	}
	return err;
}

int task_state_advance(struct task_state *state, uint64_t time_ns)
{
	const struct time_entry *first;
	int err = 0;

	while (!err && (first = time_queue_first(&state->events)) && first->time_ns <= time_ns)
		err = apply_first(state);
	return err;
}

int task_state_put(struct task_state *state, const struct perf_event_header *record, uint64_t time_ns)
{
	struct time_entry entry = {.time_ns = time_ns, .item = malloc(record->size)};

	if (!entry.item)
		return -ENOMEM;
	memcpy(entry.item, record, record->size);
	if (time_queue_put(&state->events, &entry)) {
		free(entry.item);
		return -ENOMEM;
	}
	state->waiting_bytes += record->size;
	return 0;
}

uint64_t task_state_next_ns(const struct task_state *state)
{
	const struct time_entry *first = time_queue_first(&state->events);

	return first ? first->time_ns : UINT64_MAX;
}

int task_state_trim(struct task_state *state)
{
	int err = 0;

	while (!err && task_state_is_full(state))
		err = apply_first(state);
	return err;
}

bool task_state_is_full(const struct task_state *state)
{
	return state->waiting_bytes > state->max_waiting_bytes;
}

void task_state_observe(struct task_state *state, void (*applied)(void *ctx, const struct perf_event_header *record),
			void *ctx)
{
	state->applied = applied;
	state->ctx = ctx;
}

int task_state_forget(struct task_state *state)
{
	struct tasks *tasks = tasks_new(0);

	if (!tasks)
		return -ENOMEM;
	drop_events(state);
	tasks_free(state->tasks);
	state->tasks = tasks;
	return 0;
}

uint32_t task_state_changed_process(const struct perf_event_header *header, const uint32_t words[2])
{
	switch (header->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return words[0];
	case PERF_RECORD_FORK: return words[0] == words[1] ? 0 : words[0];
	case PERF_RECORD_COMM: return header->misc & PERF_RECORD_MISC_COMM_EXEC ? words[0] : 0;
	default: return 0;
	}
}

struct insertion {
	struct maps *maps;
	int err;
};

static void insert_map(const struct map *map, void *ctx)
{
	struct insertion *insertion = ctx;
	int err = maps_insert(insertion->maps, map);

	insertion->err = insertion->err ? insertion->err : err;
}

static int copy_process(struct tasks *tasks, const struct task *task)
{
	const struct task *other = tasks_make(tasks, task->pid, task->tid);

	if (!other)
		return -ENOMEM;
	struct insertion insertion = {.maps = other->maps};
	maps_visit(task->maps, insert_map, &insertion);
	return insertion.err;
}

int task_state_copy(struct task_state *state, const struct task_state *from)
{
	AUTO_FREE struct task **tasks = NULL;
	size_t nr;
	int err = tasks_list(from->tasks, &tasks, &nr);

	for (size_t i = 0; i < nr && !err; i++)
		if (tasks[i]->tid == tasks[i]->pid)
			err = copy_process(state->tasks, tasks[i]);
	memcpy(state->changed_ns, from->changed_ns, sizeof(state->changed_ns));
	return err;
}

struct visit {
	void (*mark)(void *ctx, struct mapped_object *object);
	void *ctx;
};

static void visit_map(const struct map *map, void *ctx)
{
	const struct visit *visit = ctx;

	if (map->object)
		visit->mark(visit->ctx, map->object);
}

int task_state_visit_objects(const struct task_state *state, void (*mark)(void *ctx, struct mapped_object *object),
			     void *ctx)
{
	struct visit visit = {mark, ctx};
	AUTO_FREE struct task **tasks = NULL;
	size_t nr;
	int err = tasks_list(state->tasks, &tasks, &nr);

	for (size_t i = 0; i < nr && !err; i++) {
		const struct task *task = tasks[i], *leader = NULL;
		if (task->tid != task->pid)
			leader = tasks_find(state->tasks, task->pid);
		if (task->maps && (!leader || leader->maps != task->maps))
			maps_visit(task->maps, visit_map, &visit);
	}
	return err;
}

/* Not inline: where the task is that of the last sample, task_state_maps() saves no registers then. */
__attribute__((noinline)) static void look_up(const struct task_state *state, uint32_t pid, uint32_t tid,
					      struct known_task *ret)
{
	const struct task *task = tasks_find(state->tasks, tid);

	if (!task || task->pid != pid)
		task = tasks_find(state->tasks, pid);
	*ret = (struct known_task){
		.pid = pid,
		.tid = tid,
		.maps = task ? task->maps : NULL,
		.generation = task && task->maps ? maps_generation(task->maps) : 0,
		.changed_ns = state->changed_ns[pid % CHANGED_SLOTS],
	};
}

enum task_state_known task_state_maps(const struct task_state *state, const struct sample *sample,
				      struct known_task *last)
{
	if (!last->maps || last->tid != sample->tid || last->pid != sample->pid)
		look_up(state, sample->pid, sample->tid, last);
	if (!last->maps)
		return TASK_STATE_NO_PROCESS;
	return sample->time < last->changed_ns ? TASK_STATE_TOO_LATE : TASK_STATE_KNOWN;
}
