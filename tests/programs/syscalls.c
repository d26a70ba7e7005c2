/* SPDX-License-Identifier: MIT */
/*
 * syscalls: each thread calls getppid(2) exactly N times; the k-th call of a thread, from 0 on, carries k as an
 * argument, which getppid(2) does not look at and raw_syscalls:sys_enter shows. Nothing else in this program does, so a
 * recording of raw_syscalls:sys_enter (or of syscalls:sys_enter_getppid) must have threads * N of them. With -c 1 no
 * thread changes its CPU, so that what a CPU did is numbered, too. At its end it prints a line "TID N" for each thread.
 */
#include <pthread.h>
#include <sched.h>
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

/* Gives the k-th thread to be made the k-th CPU that this process may use, again and again. */
static int keep_on_cpu(pthread_attr_t *attr, unsigned k)
{
	cpu_set_t all, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(all), &all))
		return -1;
	for (unsigned left = k % (unsigned)CPU_COUNT(&all) + 1; left; left -= CPU_ISSET(cpu, &all) ? 1 : 0)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return pthread_attr_setaffinity_np(attr, sizeof(one), &one);
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	struct args args[] = {{'t', 1, "threads (1 also stands for a thread beside the main one)"},
			      {'n', 1000, "getppid() calls of each thread"},
			      {'c', 0, "1: each thread stays on a CPU"},
			      {0}};

	pthread_attr_t attr;

	args_parse(args, argc, argv);
	unsigned threads = args[0].value;
	if (!threads || threads > THREADS_MAX)
		return 2;
	pthread_attr_init(&attr);
	for (unsigned i = 0; i < threads; i++) {
		workers[i].calls = args[1].value;
		if (args[2].value && keep_on_cpu(&attr, i))
			return 1;
		if (pthread_create(&workers[i].thread, &attr, work, &workers[i]))
			return 1;
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_attr_destroy(&attr);
	for (unsigned i = 0; i < threads; i++)
		printf("%ld %u\n", workers[i].tid, workers[i].calls);
	return 0;
}
