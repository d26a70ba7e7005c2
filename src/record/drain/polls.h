/* SPDX-License-Identifier: MIT */
/*
 * polls: the descriptors that a reader sleeps on in poll(2): two eventfds, and those of events whose rings wake it.
 * Owned by the reader; one thread. The fds are borrowed.
 *
 * poll(2) on an event consumes the wake-up of its ring, so all fds of a ring must be in the polls of the same thread.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum { POLLS_STOP, POLLS_WAKE, POLLS_FIRST };

struct polls {
	struct pollfd *fds; /* heap */
	bool *is_task;      /* heap; by fd: it is an event of a task, and polls_drop_hung_up() counts its end */
	size_t nr, room;
};

int polls_init(struct polls *polls, size_t room); /* for so many fds of rings. 0 or -ENOMEM */
void polls_fini(struct polls *polls);             /* zeroed is fine */

void polls_set_own(struct polls *polls, int stop_fd, int wake_fd);
void polls_add(struct polls *polls, int fd, short events, bool is_task);
size_t polls_count_tasks(const struct polls *polls);

/*
 * To be called after a poll(2) that returned more than 0: removes fds that have hung up. Returns how many of them had
 * is_task.
 */
size_t polls_drop_hung_up(struct polls *polls);
