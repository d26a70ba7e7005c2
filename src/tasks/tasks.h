/* SPDX-License-Identifier: MIT */
/*
 * tasks: the tasks as of the records so far, fed in the order of time: which process each belongs to, its name, its
 * maps. While recording those that have ended are forgotten; a reader keeps them, for samples point at them. One owner,
 * one thread; several threads may look up while none changes anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maps;
struct task_event;

/*
 * A name as an object that does not change its address: until a record names the task the text is ":TID", from then on
 * what the first such record says. A task that takes another name gets another object.
 */
struct comm {
	const char *text;  /* heap */
	struct comm *next; /* private: the one before */
};

/* To be read only. */
struct task {
	uint32_t pid; /* UINT32_MAX: unknown */
	uint32_t tid;
	uint32_t parent;     /* the tid of the task that forked it; UINT32_MAX: unknown */
	uint32_t parent_pid; /* the process of that task */
	uint32_t epoch;      /* another number after each change of pid, comm, or which maps it has */
	bool is_named;       /* by a record; else ":TID" */
	uint8_t ended;       /* private: 0: no record told its end; else see tasks_note_end() */
	struct {
		uint64_t device, inode; /* 0: no record told; set by readers */
	} cgroup_namespace;
	struct comm *comm;
	struct maps *maps; /* shared by the tasks of the process; NULL: another task has the tid now */
	struct task *next; /* private: ended before */
};

enum tasks_flags {
	TASKS_KEEP = 1, /* tasks and names stay valid until tasks_free(); else until the next change */
};

struct tasks;
struct tasks *tasks_new(enum tasks_flags flags); /* NULL: out of memory */
void tasks_free(struct tasks *tasks);            /* NULL is fine */

/* The task that has this tid now; NULL: none. */
struct task *tasks_find(const struct tasks *tasks, uint32_t tid);

/* The same, made when there is none; its pid is set when it was unknown. NULL: out of memory. */
struct task *tasks_make(struct tasks *tasks, uint32_t pid, uint32_t tid);

/* A child of `parent` (NULL: unknown), with its name and, unless the record says otherwise, its maps. 0 or -ENOMEM. */
int tasks_fork(struct tasks *tasks, const struct task_event *fork, struct task *parent);

/* 0 or -ENOMEM. */
int tasks_name(struct tasks *tasks, struct task *task, const char *comm);

/* The process of the task has one thread and no maps from now on. */
void tasks_exec(struct tasks *tasks, struct task *task);

/* Another task may have its tid from now on. */
void tasks_end(struct tasks *tasks, struct task *task);

/*
 * For readers that never come to an end. The task has ended; samples of its last moments may still come, so the second
 * tasks_forget() from now on frees it.
 */
void tasks_note_end(struct task *task);

/* Frees the tasks that have ended and that is_used() does not want: neither them nor their names. 0 or -ENOMEM. */
int tasks_forget(struct tasks *tasks, bool (*is_used)(const void *ctx, const struct task *task), const void *ctx);

/* All tasks that have their tid, in no order; for free(). 0 or -ENOMEM. */
int tasks_list(const struct tasks *tasks, struct task ***ret, size_t *ret_nr);
