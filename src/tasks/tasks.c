/* SPDX-License-Identifier: MIT */
#include "tasks/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_table.h"
#include "base/text.h"
#include "perfdata/record.h"
#include "tasks/maps.h"
#include "tasks/task_event.h"

struct tasks {
	enum tasks_flags flags;
	struct hash_table by_tid; /* of struct task */
	struct hash_table by_pid; /* without TASKS_KEEP: one task of each process */
	struct task *past;        /* with TASKS_KEEP */
};

struct tasks *tasks_new(enum tasks_flags flags)
{
	struct tasks *tasks = calloc(1, sizeof(*tasks));

	if (tasks)
		tasks->flags = flags;
	return tasks;
}

static void task_free(struct task *task)
{
	while (task->comm) {
		struct comm *comm = task->comm;
		task->comm = comm->next;
		free((char *)comm->text);
		free(comm);
	}
	maps_unref(task->maps);
	free(task);
}

void tasks_free(struct tasks *tasks)
{
	if (!tasks)
		return;
	for (size_t i = 0; i < tasks->by_tid.nr_slots; i++)
		if (tasks->by_tid.slots[i].item)
			task_free(tasks->by_tid.slots[i].item);
	while (tasks->past) {
		struct task *task = tasks->past;
		tasks->past = task->next;
		task_free(task);
	}
	hash_table_fini(&tasks->by_tid);
	hash_table_fini(&tasks->by_pid);
	free(tasks);
}

struct task *tasks_find(const struct tasks *tasks, uint32_t tid)
{
	return hash_table_find_item(&tasks->by_tid, tid);
}

/* Threads share the maps of their process, that is of the task whose tid is the pid. NULL: out of memory. */
static struct maps *process_maps(struct tasks *tasks, uint32_t pid, uint32_t tid)
{
	if (pid == tid || pid == UINT32_MAX)
		return maps_new();
	struct task *leader = tasks->flags & TASKS_KEEP ? tasks_make(tasks, pid, pid) : tasks_find(tasks, pid);
	if (leader)
		return maps_ref(leader->maps);
	/* While recording no leader is made: there would be no record that ends it. */
	return tasks->flags & TASKS_KEEP ? NULL : maps_new();
}

/* Of a task without one: ":4711", as perf calls it. Heap; NULL: out of memory. */
static char *made_up_name(uint32_t tid)
{
	char name[1 + 1 + DIGITS_ROOM + 1], *at = name;
	int number = (int)tid;

	*at++ = ':';
	if (number < 0)
		*at++ = '-';
	at = digits_put_decimal(at, number < 0 ? -(uint64_t)number : (uint64_t)number);
	*at = '\0';
	return strdup(name);
}

/* To the tasks of its process. 0 or -ENOMEM. */
static int process_add(struct tasks *tasks, struct task *task)
{
	if (tasks->flags & TASKS_KEEP)
		return 0;
	struct task *other = hash_table_find_item(&tasks->by_pid, task->pid);
	task->process_next = task->process_previous = task;
	if (!other)
		return hash_table_add(&tasks->by_pid, task->pid, task);
	task->process_next = other->process_next;
	task->process_previous = other;
	task->process_next->process_previous = other->process_next = task;
	return 0;
}

static void process_remove(struct tasks *tasks, struct task *task)
{
	if (tasks->flags & TASKS_KEEP)
		return;
	struct hash_slot *slot = hash_table_find(&tasks->by_pid, task->pid);
	struct task *next = task->process_next;
	next->process_previous = task->process_previous;
	task->process_previous->process_next = next;
	if (!slot || slot->item != task)
		return;
	if (next == task)
		hash_table_remove(&tasks->by_pid, slot);
	else
		slot->item = next;
}

/* Takes over the reference. NULL: out of memory. */
static struct task *task_new(struct tasks *tasks, uint32_t pid, uint32_t tid, struct maps *maps)
{
	struct task *task = maps ? calloc(1, sizeof(*task)) : NULL;
	struct comm *comm = calloc(1, sizeof(*comm));
	char *text = made_up_name(tid);

	if (!task || !comm || !text) {
		maps_unref(maps);
		free(text);
		free(task);
		free(comm);
		return NULL;
	}
	comm->text = text;
	*task = (struct task){
		.pid = pid, .tid = tid, .parent = UINT32_MAX, .parent_pid = UINT32_MAX, .comm = comm, .maps = maps};
	if (process_add(tasks, task) || hash_table_add(&tasks->by_tid, tid, task)) {
		process_remove(tasks, task);
		task_free(task);
		return NULL;
	}
	return task;
}

struct task *tasks_make(struct tasks *tasks, uint32_t pid, uint32_t tid)
{
	struct task *task = tasks_find(tasks, tid);

	if (!task)
		return task_new(tasks, pid, tid, process_maps(tasks, pid, tid));
	if (task->pid != UINT32_MAX || pid == UINT32_MAX)
		return task;
	if (pid != tid) {
		struct maps *maps = process_maps(tasks, pid, tid);
		if (!maps)
			return NULL;
		maps_unref(task->maps);
		task->maps = maps;
	}
	process_remove(tasks, task);
	task->pid = pid;
	task->epoch++;
	return process_add(tasks, task) ? NULL : task;
}

int tasks_name(struct tasks *tasks, struct task *task, const char *text)
{
	if (strcmp(task->comm->text, text) != 0 || !task->is_named) {
		char *copy = strdup(text);
		struct comm *comm = task->is_named && tasks->flags & TASKS_KEEP ? calloc(1, sizeof(*comm)) : task->comm;
		if (!copy || !comm) {
			free(copy);
			if (comm != task->comm)
				free(comm);
			return -ENOMEM;
		}
		if (comm != task->comm) {
			comm->next = task->comm;
			task->comm = comm;
		} else if (task->is_named || !(tasks->flags & TASKS_KEEP)) {
			free((char *)comm->text);
		} else { /* what was seen before its name was told has it, too; ":TID" may still be in use */
			struct comm *before = calloc(1, sizeof(*before));
			if (!before) {
				free(copy);
				return -ENOMEM;
			}
			*before = *comm;
			comm->next = before;
		}
		comm->text = copy;
	}
	task->epoch++;
	task->is_named = true;
	task->ended = 0;
	return 0;
}

void tasks_end(struct tasks *tasks, struct task *task)
{
	struct hash_slot *slot = hash_table_find(&tasks->by_tid, task->tid);

	if (slot && slot->item == task)
		hash_table_remove(&tasks->by_tid, slot);
	if (!(tasks->flags & TASKS_KEEP)) {
		process_remove(tasks, task);
		task_free(task);
		return;
	}
	maps_unref(task->maps);
	task->maps = NULL;
	task->epoch++;
	task->next = tasks->past;
	tasks->past = task;
}

/* Ends the other threads of its process but `kept`, which may be the task itself. */
static void end_siblings(struct tasks *tasks, const struct task *task, const struct task *kept)
{
	for (struct task *at = task->process_next, *next; at != task; at = next) {
		next = at->process_next;
		if (at != kept)
			tasks_end(tasks, at);
	}
}

void tasks_exec(struct tasks *tasks, struct task *task)
{
	end_siblings(tasks, task, task);
	maps_clear(task->maps);
	task->epoch++;
}

int tasks_fork(struct tasks *tasks, const struct task_event *fork, struct task *parent)
{
	struct task *child = tasks_find(tasks, fork->tid);
	bool is_thread = fork->pid == fork->ppid;

	if (child && child != parent) { /* a tid that is used again */
		if (!is_thread && !(tasks->flags & TASKS_KEEP) && maps_users(child->maps) > 1)
			end_siblings(tasks, child, parent);
		tasks_end(tasks, child);
		child = NULL;
	}
	if (!child && is_thread && parent && parent->maps && parent->pid == fork->pid)
		child = task_new(tasks, fork->pid, fork->tid, maps_ref(parent->maps));
	else
		child = tasks_make(tasks, fork->pid, fork->tid);
	if (!child)
		return -ENOMEM;
	child->parent = fork->ptid;
	child->parent_pid = fork->ppid;
	if (!parent)
		return 0;
	if (parent->is_named && tasks_name(tasks, child, parent->comm->text))
		return -ENOMEM;
	/* Recorders that tell of running processes list their maps afterwards. */
	if (child->pid == parent->pid || !parent->maps || child->maps == parent->maps ||
	    fork->misc & RECORD_MISC_FORK_EXEC)
		return 0;
	struct maps *maps = maps_clone(parent->maps);
	if (!maps)
		return -ENOMEM;
	maps_unref(child->maps);
	child->maps = maps;
	child->epoch++;
	return 0;
}

int tasks_list(const struct tasks *tasks, struct task ***ret, size_t *ret_nr)
{
	struct task **list = calloc(tasks->by_tid.nr + 1, sizeof(struct task *));
	size_t nr = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < tasks->by_tid.nr_slots; i++)
		if (tasks->by_tid.slots[i].item)
			list[nr++] = tasks->by_tid.slots[i].item;
	*ret = list;
	*ret_nr = nr;
	return 0;
}

enum { END_NOTED = 1, END_OLD };

void tasks_note_end(struct task *task)
{
	if (!task->ended)
		task->ended = END_NOTED;
}

int tasks_forget(struct tasks *tasks, bool (*is_used)(const void *ctx, const struct task *task), const void *ctx)
{
	struct task **list;
	size_t nr;
	int err = tasks_list(tasks, &list, &nr);

	if (err)
		return err;
	for (size_t i = 0; i < nr; i++) {
		struct task *task = list[i];
		if (task->ended == END_OLD && !is_used(ctx, task)) {
			hash_table_remove(&tasks->by_tid, hash_table_find(&tasks->by_tid, task->tid));
			process_remove(tasks, task);
			task_free(task);
		} else if (task->ended == END_NOTED) {
			task->ended = END_OLD;
		}
	}
	free(list);
	for (struct task **at = &tasks->past; *at;) {
		struct task *task = *at;
		if (is_used(ctx, task)) {
			at = &task->next;
			continue;
		}
		*at = task->next;
		task_free(task);
	}
	return 0;
}
