/* SPDX-License-Identifier: MIT */
/*
 * workload: the command that is recorded. It is forked first and held before its exec until everything is open, so
 * that nothing of it is missed. Used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct diag;

struct workload {
	pid_t pid;        /* 0: none */
	int cork;         /* a byte lets it exec, closing it ends it; -1 when released */
	int failure;      /* its errno arrives here when exec fails */
	bool reaped;      /* wait_status is valid */
	bool own_session; /* it leads one, and a process group */
	int wait_status;
};

enum workload_flags {
	WORKLOAD_STDOUT_TO_STDERR = 1, /* stdout carries the recording */
	/*
	 * It and what it starts are a process group, which can be stopped as a whole. In a session of its own, for the
	 * kernel ends the stopped ones of a group (SIGHUP) when no process outside of it is left in its session: when
	 * we die.
	 */
	WORKLOAD_OWN_SESSION = 2,
};

/*
 * argv ends with NULL. Its signals are as they were before the recorder changed them (give that mask). From then on
 * SIGCHLD is not ignored here.
 */
int workload_fork(struct workload *workload, char *const argv[], enum workload_flags flags, const void *sigmask,
		  struct diag *reterr);

/* Lets it run. -errno of its exec when that failed: the diag names the program. */
int workload_release(struct workload *workload, const char *program, struct diag *reterr);

/* Has it ended? Never blocks. */
bool workload_ended(struct workload *workload);

/*
 * Ends it (with WORKLOAD_OWN_SESSION: its group) with SIGTERM if it still runs, waits, frees. A signal other than
 * SIGCHLD on signal_fd, a signalfd(2) that does not block, ends the wait with SIGKILL. Safe on a zeroed workload and
 * when called twice.
 */
void workload_end(struct workload *workload, int signal_fd);
