/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: the file that DISABLE_TIME names gets the time, by CLOCK_MONOTONIC in ns, at which a program is about
 * to disable all its perf events. With DISABLE_SLOWLY it waits for 0.1 s before it disables the first one by itself, as
 * a program that loses its CPU there.
 */
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void note_time(void)
{
	const char *path = getenv("DISABLE_TIME");
	struct timespec now;
	FILE *file = path ? fopen(path, "w") : NULL;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!file)
		return;
	fprintf(file, "%" PRIu64 "\n", (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	fclose(file);
}

int ioctl(int fd, unsigned long request, ...)
{
	const struct timespec wait = {.tv_nsec = 100000000};
	static bool waited;
	va_list args;

	va_start(args, request);
	void *value = va_arg(args, void *);
	va_end(args);
	if (request == PERF_EVENT_IOC_DISABLE && !waited && getenv("DISABLE_SLOWLY")) {
		waited = true;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
	}
	return (int)syscall(SYS_ioctl, fd, request, value);
}

int prctl(int option, ...)
{
	unsigned long values[4];
	va_list args;

	va_start(args, option);
	for (unsigned i = 0; i < 4; i++)
		values[i] = va_arg(args, unsigned long);
	va_end(args);
	if (option == PR_TASK_PERF_EVENTS_DISABLE)
		note_time();
	return (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
}
