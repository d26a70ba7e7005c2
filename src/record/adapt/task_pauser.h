/* SPDX-License-Identifier: MIT */
/*
 * task_pauser: stops the recorded tasks when the memory before the writer runs short, and continues them when there is
 * room again, or when the recorder is gone (--on-pressure=freeze). Owned by the recording; made and ended by the main
 * thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stream/batch_pool.h"

struct ledger;

/* One stop, in CLOCK_MONOTONIC. */
struct frozen_time {
	uint64_t from_ns, to_ns;
};

/* A child process that continues the tasks when the recorder is gone, however that ended, SIGKILL included. */
struct watchdog {
	pid_t pid; /* 0: there is none */
	int fd;    /* write end of a pipe: the child waits for its end; nothing is ever written */
};

struct task_pauser {
	struct memory_pressure pressure; /* for the pool, whose lock orders the calls */
	pid_t *pids;                     /* heap; as for kill(2): below 0 a process group */
	int *pidfds;                     /* heap; of each, -1: by its number; pidfd_open(2): numbers are used again */
	size_t nr_pids;
	atomic_bool *frozen; /* mapped, shared with the watchdog: while set, it has to continue the tasks */
	struct watchdog watchdog;
	struct frozen_time *times; /* heap; the first TIMES_MAX stops, when they are over */
	atomic_size_t nr_times;
	size_t nr_noted;
	uint64_t since_ns; /* while they are stopped */
	uint64_t nr_stops, total_ns;
	uint64_t nr_unguarded; /* times that they were not stopped, because the watchdog was gone */
};

/* Copies the list. Before the first thread starts and the first event opens. 0 or -errno. */
int task_pauser_open(struct task_pauser *task_pauser, const pid_t pids[], size_t nr_pids);

/* The stops since the last such call, as entries of CLOCK_MONOTONIC. One thread at a time. 0 or -ENOMEM. */
int task_pauser_note(struct task_pauser *task_pauser, struct ledger *ledger);

/* Stopped tasks continue. Zeroed is fine; idempotent. */
void task_pauser_close(struct task_pauser *task_pauser);
