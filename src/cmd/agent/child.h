/* SPDX-License-Identifier: MIT */
/*
 * child: a process that is forked to run one function of this program. Its standard error is kept for the process that
 * started it. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct diag;

/* Zeroed: none. */
struct child {
	pid_t pid; /* 0: none runs */
	int message_fd;
	uint64_t started_ns; /* CLOCK_MONOTONIC */
};

/* `run` returns its exit status. Signals are as at the start of a program; SIGINT is left to the parent. */
int child_start(struct child *child, int (*run)(void *ctx), void *ctx, struct diag *reterr);

/*
 * To be called now and then while it runs: what it has written is in memory, and only the last of it is kept. Has it
 * ended? Then *ret_status is as of waitpid(2), and child_message() must be called, once.
 */
bool child_reap(struct child *child, int *ret_status);

enum { CHILD_MESSAGE_BYTES = 512 };

/* The last line of its standard error, without the name of the program; "": none. Closes message_fd. */
void child_message(struct child *child, char message[CHILD_MESSAGE_BYTES]);

/*
 * Starts one and waits for its end: *ret_status and the message are those of child_reap() and child_message(). 0, or
 * -errno and why: it could not be started.
 */
int child_run(int (*run)(void *ctx), void *ctx, int *ret_status, char message[CHILD_MESSAGE_BYTES],
	      struct diag *reterr);

/* Sends a signal, if it runs. */
void child_signal(const struct child *child, int signal_number);
