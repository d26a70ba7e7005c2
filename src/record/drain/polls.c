/* SPDX-License-Identifier: MIT */
#include "record/drain/polls.h"

#include <errno.h>
#include <stdlib.h>

int polls_init(struct polls *polls, size_t room)
{
	room += POLLS_FIRST;
	*polls = (struct polls){
		.fds = calloc(room, sizeof(*polls->fds)),
		.is_task = calloc(room, sizeof(*polls->is_task)),
		.room = room,
		.nr = POLLS_FIRST,
	};
	if (!polls->fds || !polls->is_task) {
		polls_fini(polls);
		return -ENOMEM;
	}
	polls_set_own(polls, -1, -1);
	return 0;
}

void polls_fini(struct polls *polls)
{
	free(polls->fds);
	free(polls->is_task);
	*polls = (struct polls){0};
}

void polls_set_own(struct polls *polls, int stop_fd, int wake_fd)
{
	polls->fds[POLLS_STOP] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
	polls->fds[POLLS_WAKE] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
}

void polls_add(struct polls *polls, int fd, short events, bool is_task)
{
	polls->is_task[polls->nr] = is_task;
	polls->fds[polls->nr++] = (struct pollfd){.fd = fd, .events = events};
}

size_t polls_count_tasks(const struct polls *polls)
{
	size_t nr = 0;

	for (size_t i = POLLS_FIRST; i < polls->nr; i++)
		nr += polls->is_task[i];
	return nr;
}

size_t polls_drop_hung_up(struct polls *polls)
{
	size_t nr_tasks = 0;

	for (size_t i = POLLS_FIRST; i < polls->nr; i++) {
		struct pollfd *polled = &polls->fds[i];
		if (polled->fd < 0 || !(polled->revents & (POLLHUP | POLLERR | POLLNVAL)))
			continue;
		polled->fd = -1;
		nr_tasks += polls->is_task[i];
	}
	return nr_tasks;
}
