/* SPDX-License-Identifier: MIT */
/*
 * workload: the command that is recorded. Its process is forked first, and waits before its exec until all events are
 * open, so that the recording is complete. Used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct diag;

struct workload {
	pid_t pid; /* 0: none */
	/*
	 * write end of a pipe: a byte makes the process exec, closing it makes the process end; -1 after
	 * workload_release()
	 */
	int cork;
	int failure;      /* read end of a pipe: receives errno when the exec fails */
	bool reaped;      /* wait_status is valid */
	bool own_session; /* the process leads a session and a process group of its own */
	int wait_status;
};

enum workload_flags {
	WORKLOAD_STDOUT_TO_STDERR = 1, /* stdout carries the recording */
	/*
	 * The command and its children are a process group, which can be stopped as a whole. It gets a session of its
	 * own, too: in ours, if we died, the group could become orphaned, and the kernel sends SIGHUP to the stopped
	 * processes of an orphaned group.
	 */
	WORKLOAD_OWN_SESSION = 2,
};

/*
 * Forks the process. argv ends with NULL. sigmask: the signal mask (sigset_t) for the command, which is the one from
 * before the recorder changed it. Makes sure that SIGCHLD is not ignored in this process. 0 or -errno.
 */
int workload_fork(struct workload *workload, char *const argv[], enum workload_flags flags, const void *sigmask,
		  struct diag *reterr);

/* The file that would be run, as execvp(3) looks for it: heap. NULL: there is none, or it cannot be run. */
char *workload_find_program(const char *program);

/*
 * Why the kernel ends the events of a task that runs this program, but for those of whole CPUs: it gets other rights
 * by that, or may not be read. Static text, such as "is set-user-ID"; NULL: no reason is known.
 */
const char *workload_why_not_watched(const char *program);

/* Makes the process exec. 0, or -errno of the exec, with the program's name in the diag. */
int workload_release(struct workload *workload, const char *program, struct diag *reterr);

/* Whether the process has ended; then wait_status is valid. Never blocks. */
bool workload_ended(struct workload *workload);

/*
 * Sends SIGTERM to the process if it still runs (with WORKLOAD_OWN_SESSION: to its group), and waits for its end. When
 * a signal other than SIGCHLD is read from signal_fd, a non-blocking signalfd(2), it is killed by SIGKILL. May be
 * called with a zeroed workload, and twice.
 */
void workload_end(struct workload *workload, int signal_fd);
