/* SPDX-License-Identifier: MIT */
/* machine_priv: what the files of a machine share. */
#pragma once

#include "analyze/dso.h"
#include "analyze/kernel.h"
#include "analyze/lookup.h"
#include "analyze/machine.h"
#include "analyze/pool.h"
#include "base/span.h"

struct inlines;
struct maps;
struct unwinder;

struct task {
	struct task *next; /* in its hash chain */
	uint32_t pid, tid, parent;
	struct comm *comm; /* in the machine's pool */
	bool comm_told;    /* by a record; else ":TID" */
	struct maps *maps; /* those of the process; NULL: the tid was reused, this task is past */
	uint32_t epoch;    /* another number after each change of the above */
};

enum { TASK_CHAINS = 1024 };

/* What an address was, for as long as no record has changed anything. */
struct resolved {
	uint64_t epoch;    /* 0: empty */
	const void *space; /* whose maps; NULL: the kernel's, or nobody's */
	uint8_t cpumode;
	struct location location;
};

enum { RESOLVED_BITS = 12 };

struct lookup {
	struct machine *machine; /* borrowed */
	bool fixed;              /* the machine must not change */
	bool missed;             /* something would have changed it */
	struct task *last;       /* found last, */
	uint64_t last_epoch;     /* and when */
	struct resolved resolved[1 << RESOLVED_BITS];
};

struct machine {
	struct machine_options options;
	struct session *session; /* borrowed */
	struct pool pool;        /* tasks and their names */
	struct task *tasks[TASK_CHAINS];
	struct dso_table dsos;
	struct kernel kernel;
	struct unwinder *unwinder; /* NULL: not needed yet */
	struct inlines *inlines;   /* likewise */
	uint64_t epoch;            /* another number after each change of what is mapped anywhere */
	uint64_t world_epoch;      /* likewise, and is not one task's alone */
	struct lookup own;         /* of those who ask the machine itself */
};

/* The task with this tid; NULL: none yet. */
struct task *machine_find_task(const struct machine *machine, uint32_t tid);

/* That it belongs to this process would be news. */
static inline bool task_lacks_pid(const struct task *task, uint32_t pid)
{
	return pid != task->pid && pid != UINT32_MAX && task->pid == UINT32_MAX;
}

/* The task with this tid, which there is now, and which knows its process. NULL: out of memory. */
struct task *machine_make_task(struct machine *machine, uint32_t pid, uint32_t tid);

/* The BUILD_ID feature's records, or one such record. 0 or -ENOMEM. */
int machine_learn_build_ids(struct machine *machine, struct span records);
