/* SPDX-License-Identifier: MIT */
/*
 * fd_closer: a process that closes the event fds of a recorder that has ended. The last close(2) of a tracepoint waits
 * some 20 ms for RCU, with a mutex of the kernel held (perf_trace_destroy(), kernel/trace/trace_event_perf.c). So
 * thousands of tracepoints take minutes, and during these minutes the recorder would not end, although the file is
 * finished, or although the recorder was killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct event_list;

/* Whether there are so many tracepoints that a user would notice the time to close them. */
bool fd_closer_is_worth_it(const struct event_list *events);

/*
 * Starts the process, in a session of its own. It shares our file descriptor table, also for descriptors that are
 * opened later, and waits until this process has ended for any reason. Then it closes all descriptors that are no
 * events, disables the events, and exits, which closes the events. To be called before any thread is started. 0 or
 * -errno; after an error this process must close the events itself.
 */
int fd_closer_start(void);

/*
 * While tracepoints are opened the closers of other recorders pause: both need that mutex, and beside them opening
 * takes seconds. Returns a descriptor: when it is closed, or this process ends, they go on. -1: they do not pause.
 */
int fd_closer_pause_others(const struct event_list *events);
