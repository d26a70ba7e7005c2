/* SPDX-License-Identifier: MIT */
/*
 * end_signals: the signals that end a recording, whose file is whole then: SIGINT, SIGTERM, and of SIGHUP, SIGQUIT,
 * SIGALRM and SIGUSR1 those that are not ignored. They come by a signalfd(2), as SIGCHLD and SIGUSR2 do, and are
 * blocked for this thread and those that it starts. Used by the main thread.
 */
#pragma once

#include <signal.h>

struct diag;

struct end_signals {
	int fd;            /* non-blocking; -1: none */
	sigset_t old_mask; /* of this thread, from before */
};

/* 0, or -errno and why; the mask is not changed then. */
int end_signals_catch(struct end_signals *signals, struct diag *reterr);

/*
 * Opening a FIFO and writing into a full pipe wait for their reader as long as that takes: a signal ends us there as it
 * did before. Nothing is lost then: the workload has not begun. Threads that are started in between end here, too.
 */
void end_signals_unblock(const struct end_signals *signals, sigset_t *ret_blocked);
void end_signals_block(const sigset_t *blocked);

void end_signals_close(struct end_signals *signals); /* the mask stays */
