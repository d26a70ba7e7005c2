/* SPDX-License-Identifier: MIT */
/* target: the tasks or CPUs to record. Resolved once, before events are opened; owned by the recording. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cpuset.h"
#include "event/parse/configure.h"

struct diag;

/* As typed; NULL or false: not given. */
struct target_request {
	bool all_cpus;        /* -a */
	const char *cpu_list; /* -C */
	const char *pids;     /* -p: processes with all their threads */
	const char *tids;     /* -t: these threads only */
	const char *user;     /* -u: the processes of this one, by name or number */
	bool per_thread;      /* --per-thread: one ring per thread instead of one per CPU */
	bool has_workload;    /* a command follows */
};

struct target {
	enum event_target kind;
	bool per_thread;
	bool names_cpus;    /* -C */
	struct cpuset cpus; /* to open on: online ones, or those of -C */
	/* with -C the other online CPUs, whose task events are recorded, too, because tasks may come from there */
	struct cpuset other_cpus;
	pid_t *tids; /* heap; of -p and -t; the workload's is added when it has been forked */
	size_t nr_tids;
	pid_t *pids; /* heap; of -p, as typed */
	size_t nr_pids;
};

/* -EINVAL, -ESRCH, -ENOMEM, with the reason. */
int target_resolve(const struct target_request *request, struct target *ret, struct diag *reterr);
int target_add_tid(struct target *target, pid_t tid); /* 0 or -ENOMEM */
void target_fini(struct target *target);
