/* SPDX-License-Identifier: MIT */
#include "record/polls.h"

#include <errno.h>
#include <stdlib.h>

int polls_init(struct polls *polls, size_t room)
{
	room += POLLS_FIRST;
	*polls = (struct polls){
		.fds = calloc(room, sizeof(*polls->fds)),
		.what = calloc(room, sizeof(*polls->what)),
		.room = room,
		.nr = POLLS_FIRST,
	};
	if (!polls->fds || !polls->what) {
		polls_fini(polls);
		return -ENOMEM;
	}
	polls_set_own(polls, -1, -1);
	return 0;
}

void polls_fini(struct polls *polls)
{
	free(polls->fds);
	free(polls->what);
	*polls = (struct polls){0};
}

void polls_set_own(struct polls *polls, int stop_fd, int wake_fd)
{
	polls->fds[POLLS_STOP] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
	polls->fds[POLLS_WAKE] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
}

void polls_add(struct polls *polls, int fd, short events, const struct polled *what)
{
	polls->what[polls->nr] = *what;
	polls->fds[polls->nr++] = (struct pollfd){.fd = fd, .events = events};
}

size_t polls_count(const struct polls *polls, enum polled_kind kind)
{
	size_t nr = 0;

	for (size_t i = POLLS_FIRST; i < polls->nr; i++)
		nr += polls->what[i].kind == kind;
	return nr;
}

/* poll(2) skips what is below 0, and -1 has hung up. */
void polls_mute(struct polls *polls, size_t ring, bool mute)
{
	for (size_t i = POLLS_FIRST; i < polls->nr; i++) {
		int *fd = &polls->fds[i].fd;
		if (polls->what[i].ring != ring || polls->what[i].kind == POLLED_CARRIER)
			continue;
		if (mute ? *fd > 0 : *fd < -1)
			*fd = ~*fd;
	}
}

void polls_change_carrier(struct polls *polls, size_t ring, int fd)
{
	for (size_t i = POLLS_FIRST; i < polls->nr; i++)
		if (polls->what[i].ring == ring && polls->what[i].kind == POLLED_CARRIER)
			polls->fds[i].fd = fd;
}

size_t polls_drop_hung_up(struct polls *polls)
{
	size_t nr_tasks = 0;

	for (size_t i = POLLS_FIRST; i < polls->nr; i++) {
		struct pollfd *polled = &polls->fds[i];
		if (polled->fd < 0 || !(polled->revents & (POLLHUP | POLLERR | POLLNVAL)))
			continue;
		polled->fd = -1;
		nr_tasks += polls->what[i].kind == POLLED_TASK;
	}
	return nr_tasks;
}

void polls_move_ring(struct polls *from, struct polls *to, size_t ring)
{
	size_t kept = POLLS_FIRST;

	for (size_t i = POLLS_FIRST; i < from->nr; i++) {
		bool goes = from->what[i].ring == ring;
		struct polls *polls = goes ? to : from;
		size_t at = goes ? to->nr++ : kept++;
		polls->fds[at] = from->fds[i];
		polls->what[at] = from->what[i];
		polls->fds[at].revents = 0;
	}
	from->nr = kept;
}
