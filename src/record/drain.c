/* SPDX-License-Identifier: MIT */
#include "record/drain.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "record/eventset.h"
#include "record/workload.h"
#include "stream/stream.h"

enum {
	/*
	 * The kernel wakes a reader at half a ring and then stays silent until half a ring more has come: what lies
	 * below the mark is collected when this much time has passed without a wake-up.
	 */
	IDLE_MS = 1000,
};

struct watch {
	struct pollfd *fds; /* [0]: signals; then rings, or every fd of a recording of tasks */
	size_t nr;
	size_t nr_tasks; /* fds that hang up when their task ends; 0: the recording has no tasks to outlive */
};

/*
 * A ring is watched through the fd that carries it. The fd of a task hangs up when the task ends, though others may
 * still fill the ring: of those every one is watched.
 */
static int make_watch(const struct drain *drain, struct watch *ret)
{
	const struct eventset *set = drain->eventset;
	const struct plan *plan = set->plan;
	struct watch watch = {.fds = calloc(plan->nr_slots + plan->nr_rings + 1, sizeof(struct pollfd))};

	if (!watch.fds)
		return -ENOMEM;
	watch.fds[watch.nr++] = (struct pollfd){.fd = drain->signal_fd, .events = POLLIN};
	for (size_t i = 0; i < plan->nr_slots; i++) {
		if (set->fds[i] < 0)
			continue;
		bool task = plan->slots[i].pid > 0;
		if (!task && set->fds[i] != set->ring_fds[plan->slots[i].ring])
			continue;
		watch.fds[watch.nr++] = (struct pollfd){.fd = set->fds[i], .events = POLLIN};
		watch.nr_tasks += task;
	}
	*ret = watch;
	return 0;
}

/* Stops watching what hung up. Have all tasks ended? */
static bool all_hung_up(struct watch *watch)
{
	size_t before = watch->nr_tasks;

	for (size_t i = 1; i < watch->nr; i++) {
		if (watch->fds[i].fd >= 0 && (watch->fds[i].revents & (POLLHUP | POLLERR | POLLNVAL))) {
			watch->fds[i].fd = -1; /* poll(2) skips it */
			if (watch->nr_tasks)
				watch->nr_tasks--;
		}
	}
	return before && !watch->nr_tasks;
}

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

/* Does one of the signals that arrived end the recording? */
static bool signals_end(struct drain *drain, enum drain_end *ret)
{
	drain->signal = read_signals(drain->signal_fd);
	*ret = drain->signal ? DRAIN_SIGNAL : DRAIN_WORKLOAD_ENDED;
	return drain->signal || workload_ended(drain->workload);
}

/* Milliseconds until the events are to be enabled, or until rings are looked at without a wake-up. */
static int wait_ms(const struct drain *drain, uint64_t enable_at_ns)
{
	if (drain->enable_after_ms <= 0)
		return IDLE_MS;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t left_ms = now < enable_at_ns ? (enable_at_ns - now) / 1000000 + 1 : 0;
	return left_ms < IDLE_MS ? (int)left_ms : IDLE_MS;
}

static void enable_when_due(struct drain *drain, uint64_t enable_at_ns)
{
	if (drain->enable_after_ms > 0 && clock_ns(CLOCK_MONOTONIC) >= enable_at_ns) {
		drain->enable_after_ms = 0;
		eventset_enable(drain->eventset);
	}
}

int drain_run(struct drain *drain, enum drain_end *ret)
{
	struct watch watch;
	int err = make_watch(drain, &watch);
	if (err)
		return err;
	AUTO_FREE struct pollfd *fds = watch.fds;
	uint64_t enable_at_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)drain->enable_after_ms * 1000000;

	for (;;) {
		int ready = poll(fds, watch.nr, wait_ms(drain, enable_at_ns));
		if (ready < 0 && errno != EINTR)
			return -errno;
		drain->wakeups++;
		enable_when_due(drain, enable_at_ns);
		int64_t moved = stream_pump(drain->stream, ready > 0 ? STREAM_FLOW : STREAM_ALL);
		if (moved < 0) {
			drain->err = (int)moved;
			*ret = DRAIN_WRITER_FAILED;
			return 0;
		}
		if (ready <= 0)
			continue;
		if (fds[0].revents && signals_end(drain, ret))
			return 0;
		if (all_hung_up(&watch)) {
			*ret = DRAIN_TARGETS_ENDED;
			return 0;
		}
	}
}
