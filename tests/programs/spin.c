/* SPDX-License-Identifier: MIT */
/*
 * spin: each thread burns the given CPU time in functions of known names: spin_thread -> spin_outer -> spin_left or
 * spin_right (three times as long as spin_left). Compiled with frame pointers. Thread i calls itself "spin-i" while it
 * does that, and "spin" before and after: what bears the name has none of the threads' start and end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "args.h"

enum { THREADS_MAX = 256 };

static unsigned milliseconds;
static volatile uint64_t sink;

static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t __attribute__((noinline)) spin_left(unsigned rounds)
{
	uint64_t x = rounds;

	for (unsigned i = 0; i < rounds; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static uint64_t __attribute__((noinline)) spin_right(unsigned rounds)
{
	uint64_t x = rounds + 1;

	for (unsigned i = 0; i < 3 * rounds; i++)
		x = x * 2862933555777941757u + 3037000493u;
	return x;
}

static void __attribute__((noinline)) spin_outer(void)
{
	sink += spin_left(20000);
	sink += spin_right(20000);
}

static void *spin_thread(void *arg)
{
	uint64_t end = thread_ns() + (uint64_t)milliseconds * 1000000u; /* binds the symbols of the loop */
	char name[16];

	snprintf(name, sizeof(name), "spin-%u", (unsigned)(uintptr_t)arg);
	prctl(PR_SET_NAME, name);
	while (thread_ns() < end)
		spin_outer();
	prctl(PR_SET_NAME, "spin");
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t workers[THREADS_MAX];
	struct args args[] = {{'t', 2, "threads"}, {'m', 300, "milliseconds of CPU time of each thread"}, {0}};

	args_parse(args, argc, argv);
	milliseconds = args[1].value;
	if (!args[0].value || args[0].value > THREADS_MAX)
		return 2;
	for (unsigned i = 0; i < args[0].value; i++)
		if (pthread_create(&workers[i], NULL, spin_thread, (void *)(uintptr_t)i))
			return 1;
	for (unsigned i = 0; i < args[0].value; i++)
		pthread_join(workers[i], NULL);
	return 0;
}
