/* SPDX-License-Identifier: MIT */
/*
 * fd_closer: a process that closes the event fds of a recorder that has ended. The last close(2) of a tracepoint waits
 * some 20 ms for RCU, with a mutex of the kernel held (perf_trace_destroy(), kernel/trace/trace_event_perf.c):
 * thousands of them take minutes, in which the file has been finished for long, and in which a recorder that was killed
 * does not end either.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct event_list;

/* Are there so many tracepoints that closing them takes time that a user notices? */
bool fd_closer_is_worth_it(const struct event_list *events);

/*
 * Starts the process, in a session of its own: it shares our table of fds, also what is opened later, and waits until
 * this process has ended, in whatever way. Then it closes all fds that are no events, disables the events, and ends,
 * which closes them. What this process leaves open is closed then. Before any thread is started. 0 or -errno: without
 * it, the process that opened the events closes them.
 */
int fd_closer_start(void);
