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

/* A time in which the tasks were stopped, in CLOCK_MONOTONIC. */
struct frozen_time {
	uint64_t from_ns, to_ns;
};

/* A child process that continues the tasks (SIGCONT) when the recorder has ended for any reason, SIGKILL included. */
struct watchdog {
	pid_t pid; /* 0: there is none */
	int fd;    /* write end of a pipe: the child waits for end of file; nothing is ever written */
};

struct task_pauser {
	struct memory_pressure pressure; /* called by the pool, under its lock */
	pid_t *pids;                     /* heap; as for kill(2): below 0 a process group */
	/* heap; the pidfd of each, because the kernel reuses pids; -1: none, kill(2) is used */
	int *pidfds;
	size_t nr_pids;
	/* in memory that is shared with the watchdog: while true, the watchdog has to continue the tasks */
	atomic_bool *frozen;
	struct watchdog watchdog;
	struct frozen_time *times; /* heap; the first TIMES_MAX stops that have ended */
	atomic_size_t nr_times;
	size_t nr_noted;
	uint64_t since_ns; /* CLOCK_MONOTONIC: since when the tasks are stopped; valid while they are */
	uint64_t nr_stops, total_ns;
	uint64_t nr_unguarded; /* how often the tasks were not stopped, because the watchdog had ended */
};

/* Copies the list. Before the first thread starts and the first event opens. 0 or -errno. */
int task_pauser_open(struct task_pauser *task_pauser, const pid_t pids[], size_t nr_pids);

/*
 * Adds the stops since the last call to the ledger, as LEDGER_FROZEN entries with times of CLOCK_MONOTONIC. One thread
 * at a time. 0 or -ENOMEM.
 */
int task_pauser_note(struct task_pauser *task_pauser, struct ledger *ledger);

/* Stopped tasks continue. Zeroed is fine; idempotent. */
void task_pauser_close(struct task_pauser *task_pauser);
