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

enum polled_kind {
	POLLED_OWN,     /* one of the two eventfds */
	POLLED_TASK,    /* an event of a task whose end is to be told */
	POLLED_SLOT,    /* another event */
	POLLED_CARRIER, /* of a ring of ours */
};

struct polled {
	enum polled_kind kind;
	size_t ring; /* of the plan */
};

struct polls {
	struct pollfd *fds;  /* heap */
	struct polled *what; /* heap; of each fd */
	size_t nr, room;
};

int polls_init(struct polls *polls, size_t room); /* for so many fds of rings. 0 or -ENOMEM */
void polls_fini(struct polls *polls);             /* zeroed is fine */

void polls_set_own(struct polls *polls, int stop_fd, int wake_fd);
void polls_add(struct polls *polls, int fd, short events, const struct polled *what);
size_t polls_count(const struct polls *polls, enum polled_kind kind);

/* Leaves the events of a ring out, or no longer; its carriers stay. */
void polls_mute(struct polls *polls, size_t ring, bool mute);
void polls_change_carrier(struct polls *polls, size_t ring, int fd);

/* What has hung up is polled no more. How many tasks' events did. After a poll(2) that found something. */
size_t polls_drop_hung_up(struct polls *polls);

/* All fds of the ring. `to` has room. */
void polls_move_ring(struct polls *from, struct polls *to, size_t ring);
