/* SPDX-License-Identifier: MIT */
/*
 * polls: what a reader sleeps on: two eventfds, and the fds through which its rings wake it. Owned by the reader; one
 * thread. The fds are borrowed.
 *
 * poll(2) of an event takes the wake-up of its ring away: all fds of a ring are in the polls of one thread.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum { POLLS_STOP, POLLS_WAKE, POLLS_FIRST };

struct polls {
	struct pollfd *fds; /* heap */
	bool *is_task;      /* heap; of each fd: an event of a task whose end is to be told */
	size_t nr, room;
};

int polls_init(struct polls *polls, size_t room); /* for so many fds of rings. 0 or -ENOMEM */
void polls_fini(struct polls *polls);             /* zeroed is fine */

void polls_set_own(struct polls *polls, int stop_fd, int wake_fd);
void polls_add(struct polls *polls, int fd, short events, bool is_task);
size_t polls_count_tasks(const struct polls *polls);

/* What has hung up is polled no more. How many tasks' events did. After a poll(2) that found something. */
size_t polls_drop_hung_up(struct polls *polls);
