/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: a thread that sets its affinity waits for 0.4 s before it runs there, as on a CPU that is busy. */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
	const struct timespec wait = {.tv_nsec = 400000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
	return (int)syscall(SYS_sched_setaffinity, pid, bytes, set);
}
