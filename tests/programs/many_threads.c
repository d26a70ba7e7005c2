/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: a program has as many threads as MANY_THREADS says, beside its own, from its start on, as on a
 * machine with many CPUs. They do nothing. Programs that are started do not inherit this.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void *wait_for_end(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void __attribute__((constructor)) start_threads(void)
{
	const char *nr = getenv("MANY_THREADS");
	pthread_t thread;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own */
	for (int i = nr ? atoi(nr) : 0; i > 0; i--)
		if (pthread_create(&thread, NULL, wait_for_end, NULL))
			abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	unsetenv("MANY_THREADS");
}
