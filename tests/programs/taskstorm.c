/* SPDX-License-Identifier: MIT */
/*
 * taskstorm: makes task events as fast as it can. First P processes that sleep, each of which is to be found in /proc;
 * it tells so with a line on its standard output. Then T threads that each rename themselves N times; without threads
 * one that maps and unmaps executable memory until it is killed. The processes end with it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "args.h"

static pthread_barrier_t all_there;
static unsigned nr_names;

static void *rename_often(void *arg)
{
	char name[16];

	pthread_barrier_wait(&all_there);
	for (unsigned i = 0; i < nr_names; i++) {
		snprintf(name, sizeof(name), "n%u.%u", (unsigned)(uintptr_t)arg % 100000, i % 10000);
		prctl(PR_SET_NAME, name);
	}
	return NULL;
}

static int rename_all(unsigned nr)
{
	enum { STACK_BYTES = 64 << 10 };
	pthread_t *threads = calloc(nr, sizeof(*threads));
	pthread_attr_t attr;

	if (!threads || pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, STACK_BYTES) ||
	    pthread_barrier_init(&all_there, NULL, nr))
		return 1;
	for (unsigned i = 0; i < nr; i++)
		if (pthread_create(&threads[i], &attr, rename_often, (void *)(uintptr_t)i))
			return 1;
	for (unsigned i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return 0;
}

static int map_for_ever(void)
{
	for (;;) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED || munmap(page, 4096))
			return 1;
	}
}

int main(int argc, char **argv)
{
	struct args args[] = {{'p', 0, "processes that sleep"},
			      {'t', 0, "threads that rename themselves; 0: maps and unmaps instead"},
			      {'n', 1, "times each does it"},
			      {0}};

	args_parse(args, argc, argv);
	for (unsigned i = 0; i < args[0].value; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	puts("ready");
	fflush(stdout);
	nr_names = (unsigned)args[2].value;
	return args[1].value ? rename_all((unsigned)args[1].value) : map_for_ever();
}
