/* SPDX-License-Identifier: MIT */
/*
 * tasks: the tasks that the records so far describe, fed in the order of time: the process of each task, its name, its
 * maps. While recording, tasks that have ended are freed; a reader keeps them (TASKS_KEEP), because samples point at
 * them. One owner, one thread; several threads may look up while none changes anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maps;
struct task_event;

/*
 * The name of a task, as an object whose address never changes. Its text is ":TID" until the first record that names
 * the task, and then the name in that record. When the task takes another name it gets another object.
 */
struct comm {
	const char *text;  /* heap */
	struct comm *next; /* private: the earlier name */
};

/* To be read only. */
struct task {
	uint32_t pid; /* UINT32_MAX: unknown */
	uint32_t tid;
	uint32_t parent;     /* the tid of the task that forked it; UINT32_MAX: unknown */
	uint32_t parent_pid; /* the process of that task */
	/* has a new value after each change of pid or comm, and when it gets another set of maps */
	uint32_t epoch;
	bool is_named; /* a record has named it; else its name is ":TID" */
	uint8_t ended; /* private: 0: no record of its end came; else see tasks_note_end() */
	struct {
		uint64_t device, inode; /* 0: unknown; set by readers */
	} cgroup_namespace;
	struct comm *comm;
	/* shared by the tasks of the process; NULL: this task has ended, and another task has its tid now */
	struct maps *maps;
	struct task *next;                            /* private: an earlier task with the same tid */
	struct task *process_next, *process_previous; /* private: a ring of the tasks of its process */
};

enum tasks_flags {
	TASKS_KEEP = 1, /* tasks and names are valid until tasks_free(); without it until the next change */
};

struct tasks;
struct tasks *tasks_new(enum tasks_flags flags); /* NULL: out of memory */
void tasks_free(struct tasks *tasks);            /* NULL is fine */

/* The task that has this tid now; NULL: none. */
struct task *tasks_find(const struct tasks *tasks, uint32_t tid);

/* The same, but makes the task when there is none, and sets its pid when it was unknown. NULL: out of memory. */
struct task *tasks_make(struct tasks *tasks, uint32_t pid, uint32_t tid);

/*
 * Adds the child of a FORK record. It inherits the name of `parent` (NULL: unknown) and, unless the record says
 * otherwise (RECORD_MISC_FORK_EXEC), its maps. 0 or -ENOMEM.
 */
int tasks_fork(struct tasks *tasks, const struct task_event *fork, struct task *parent);

/* The task has this name from now on. 0 or -ENOMEM. */
int tasks_name(struct tasks *tasks, struct task *task, const char *comm);

/* The process of the task has one thread and no maps from now on. Not with TASKS_KEEP. */
void tasks_exec(struct tasks *tasks, struct task *task);

/* The task has ended: another one may get its tid. */
void tasks_end(struct tasks *tasks, struct task *task);

/*
 * For readers of endless input (top). The task has ended, but its last samples may still come: so not the next
 * tasks_forget() frees it, but the one after that.
 */
void tasks_note_end(struct task *task);

/* Frees the tasks that have ended, and their names, unless is_used() returns true for the task. 0 or -ENOMEM. */
int tasks_forget(struct tasks *tasks, bool (*is_used)(const void *ctx, const struct task *task), const void *ctx);

/* Lists the tasks that tasks_find() can find, in no order; the caller frees *ret. 0 or -ENOMEM. */
int tasks_list(const struct tasks *tasks, struct task ***ret, size_t *ret_nr);
