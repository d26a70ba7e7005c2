/* SPDX-License-Identifier: MIT */
#include "record/thread_use.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

/* "cpu_ns waited_ns slices": Documentation/scheduler/sched-stats.rst. */
static struct thread_times read_schedstat(const char *path)
{
	struct thread_times stat = {0};
	char text[96], *at = text;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return stat;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	stat.cpu_ns = strtoull(at, &at, 10);
	stat.waited_ns = strtoull(at, NULL, 10);
	return stat;
}

struct thread_times thread_times_of(pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	return read_schedstat(path);
}

struct thread_use thread_use_now(void)
{
	struct thread_use use = {.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), .waited_ns = read_schedstat("/proc/thread-self/schedstat").waited_ns};
	struct rusage usage;

	if (!getrusage(RUSAGE_THREAD, &usage)) {
		use.sleeps = (uint64_t)usage.ru_nvcsw;
		use.preemptions = (uint64_t)usage.ru_nivcsw;
	}
	return use;
}
