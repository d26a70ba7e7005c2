/* SPDX-License-Identifier: MIT */
#include "record/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/eventset.h"
#include "record/reader.h"
#include "record/workload.h"

/* A signal that ends the recording, or 0. */
static int read_signals(int fd)
{
	struct signalfd_siginfo info;
	int ended_by = 0;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD && !ended_by)
			ended_by = (int)info.ssi_signo;
	return ended_by;
}

/* Milliseconds until the events are to be enabled; -1: that is not to come. */
static int wait_ms(const struct supervision *supervision, uint64_t enable_at_ns)
{
	enum { AT_MOST = 60000 };

	if (supervision->enable_after_ms <= 0)
		return -1;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t left_ms = now < enable_at_ns ? (enable_at_ns - now) / 1000000 + 1 : 0;
	return left_ms < AT_MOST ? (int)left_ms : AT_MOST;
}

static int enable_when_due(struct supervision *supervision, uint64_t enable_at_ns)
{
	if (supervision->enable_after_ms <= 0 || clock_ns(CLOCK_MONOTONIC) < enable_at_ns)
		return 0;
	supervision->enable_after_ms = 0;
	return eventset_enable(supervision->set);
}

int supervise(struct supervision *supervision, int *ret_signal)
{
	struct pollfd fds[] = {
		{.fd = supervision->signal_fd, .events = POLLIN},
		{.fd = supervision->control->news_fd, .events = POLLIN},
	};
	uint64_t enable_at_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)supervision->enable_after_ms * 1000000;

	*ret_signal = 0;
	for (;;) {
		int ready = poll(fds, 2, wait_ms(supervision, enable_at_ns));
		if (ready < 0 && errno != EINTR)
			return -errno;
		int err = enable_when_due(supervision, enable_at_ns);
		if (err)
			return err;
		if (ready <= 0)
			continue;
		if (fds[0].revents)
			*ret_signal = read_signals(supervision->signal_fd);
		if (*ret_signal || fds[1].revents || workload_ended(supervision->workload))
			return 0;
	}
}
