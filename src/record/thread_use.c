/* SPDX-License-Identifier: MIT */
#include "record/thread_use.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

/* "cpu_ns waited_ns slices": Documentation/scheduler/sched-stats.rst. */
static uint64_t waited_ns(void)
{
	char text[96], *at = text;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	strtoull(at, &at, 10);
	return strtoull(at, NULL, 10);
}

struct thread_use thread_use_now(void)
{
	struct thread_use use = {.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), .waited_ns = waited_ns()};
	struct rusage usage;

	if (!getrusage(RUSAGE_THREAD, &usage)) {
		use.sleeps = (uint64_t)usage.ru_nvcsw;
		use.preemptions = (uint64_t)usage.ru_nivcsw;
	}
	return use;
}
