/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: a thread that sets its affinity or its priority waits for 0.2 s before it goes on, as on a CPU that
 * is busy. Not the first thread.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_cpu(void)
{
	const struct timespec wait = {.tv_nsec = 200000000};

	if (gettid() != getpid())
		clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
}

int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
	wait_for_cpu();
	return (int)syscall(SYS_sched_setaffinity, pid, bytes, set);
}

int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	wait_for_cpu();
	return (int)syscall(SYS_sched_setscheduler, pid, policy, param);
}
