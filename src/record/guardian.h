/* SPDX-License-Identifier: MIT */
/*
 * guardian: a child process that does one thing when its parent is gone, however that ended, SIGKILL included. Owned by
 * the recording; used by the main thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct guardian {
	pid_t pid; /* 0: there is none */
	int fd;    /* the child waits for the end of what is written here: nothing ever is */
};

/*
 * Before any thread is started and anything is opened that must not outlive us. `will` runs in the child, with the memory
 * as it was now but for what is shared, and with no descriptors. 0 or -errno.
 */
int guardian_start(struct guardian *guardian, void (*will)(void *arg), void *arg);

/* Any thread: does it still live? One system call. */
bool guardian_watches(const struct guardian *guardian);

/* The will is done and the child has ended when it returns. Zeroed is fine; idempotent. */
void guardian_stop(struct guardian *guardian);
