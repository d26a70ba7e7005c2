/* SPDX-License-Identifier: MIT */
/*
 * syscalls: each thread calls getppid(2) exactly N times; the k-th call of a thread, from 0 on, carries k as an argument,
 * which getppid(2) does not look at and raw_syscalls:sys_enter shows. Nothing else in this program does, so a recording of
 * raw_syscalls:sys_enter (or of syscalls:sys_enter_getppid) must have threads * N of them. At its end it prints a line
 * "TID N" for each thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "args.h"

enum { THREADS_MAX = 1024 };

struct worker {
	pthread_t thread;
	long tid;
	unsigned calls;
};

static void *work(void *arg)
{
	struct worker *worker = arg;

	worker->tid = syscall(SYS_gettid);
	for (unsigned i = 0; i < worker->calls; i++)
		syscall(SYS_getppid, (unsigned long)i);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	struct args args[] = {{'t', 1, "threads (1 also stands for a thread beside the main one)"},
			      {'n', 1000, "getppid() calls of each thread"},
			      {0}};

	args_parse(args, argc, argv);
	unsigned threads = args[0].value;
	if (!threads || threads > THREADS_MAX)
		return 2;
	for (unsigned i = 0; i < threads; i++) {
		workers[i].calls = args[1].value;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < threads; i++)
		printf("%ld %u\n", workers[i].tid, workers[i].calls);
	return 0;
}
