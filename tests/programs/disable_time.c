/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: the file that DISABLE_TIME names gets the time, by CLOCK_MONOTONIC in ns, at which a program is about
 * to disable all its perf events.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
