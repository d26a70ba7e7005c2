/* SPDX-License-Identifier: MIT */
/*
 * Waits in a known way, in one or more threads named after what they do, for some time, and prints for each thread what
 * the kernel says of it: its tid, its name, and in nanoseconds how long it lived, ran on a CPU, and was ready to run,
 * from when to when by CLOCK_MONOTONIC, and how often it was switched out in that time.
 *
 * waits KIND THREADS MILLISECONDS [FILE]
 * KIND: sleep   sleeps of 10 ms, 30 of them or more: beside other load they take longer
 *       futex   threads hand a token on in a circle; each holds it for 1 ms of sleep
 *       pipe    a byte goes round through pipes, without a pause
 *       read    reads FILE with O_DIRECT
 *       fault   maps FILE and touches a page of it after the other
 *       spin    computes: waits for a CPU when there are more threads than CPUs
 *       lock    two or more threads take a mutex that each holds for 2 ms of computing
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 64, READ_BYTES = 4096, LEAST_SLEEPS = 30 };

struct worker {
	pthread_t thread;
	unsigned index;
	uint64_t tid, from_ns, to_ns, cpu_ns, ready_ns, nr_switches;
};

static const char *kind, *file;
static unsigned nr_workers;
static uint64_t end_ns;
static struct worker workers[MOST_THREADS];
static int pipes[MOST_THREADS][2];
static _Atomic uint32_t turn;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void __attribute__((noreturn)) exit_with(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static bool is_over(void)
{
	return now_ns(CLOCK_MONOTONIC) >= end_ns;
}

static void sleep_us(unsigned us)
{
	struct timespec time = {.tv_nsec = (long)us * 1000};

	nanosleep(&time, NULL);
}

static void compute_ns(uint64_t ns)
{
	uint64_t from = now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) - from < ns)
		;
}

/* The last one to hold it leaves it to all, so that none waits for ever. */
static void hand_on(unsigned index)
{
	uint32_t seen;

	while ((seen = atomic_load(&turn)) % nr_workers != index && !is_over())
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, &(struct timespec){.tv_nsec = 50000000}, NULL, 0);
	sleep_us(1000);
	atomic_store(&turn, index + 1);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static bool pass_byte(unsigned index)
{
	char byte;

	return read(pipes[index][0], &byte, 1) == 1 && write(pipes[(index + 1) % nr_workers][1], &byte, 1) == 1 &&
	       byte == 'g';
}

static void read_directly(void)
{
	static _Alignas(READ_BYTES) char blocks[MOST_THREADS][READ_BYTES];
	int fd = open(file, O_RDONLY | O_DIRECT);
	off_t at = 0;

	if (fd < 0)
		exit_with(file);
	while (!is_over()) {
		if (pread(fd, blocks[0], READ_BYTES, at) != READ_BYTES)
			at = 0;
		at += READ_BYTES;
	}
	close(fd);
}

static void touch_pages(void)
{
	int fd = open(file, O_RDONLY);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	const volatile char *pages = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (pages == MAP_FAILED || madvise((void *)pages, (size_t)size, MADV_RANDOM))
		exit_with(file);
	for (off_t at = 0; at < size && !is_over(); at += READ_BYTES)
		(void)pages[at];
	close(fd);
}

static void wait_in_kind(unsigned index)
{
	bool sleeps = !strcmp(kind, "sleep"), futex = !strcmp(kind, "futex"), lock = !strcmp(kind, "lock");

	if (!strcmp(kind, "read")) {
		read_directly();
		return;
	}
	if (!strcmp(kind, "fault")) {
		touch_pages();
		return;
	}
	if (!strcmp(kind, "pipe")) {
		while (pass_byte(index))
			if (index == 0 && is_over())
				break;
		if (index == 0) /* all others end, one after the other */
			(void)!write(pipes[1 % nr_workers][1], "e", 1);
		return;
	}
	/* Beside other load a thread may begin when the time is over: it waits once all the same. */
	for (unsigned nr = 0; !is_over() || nr < (sleeps ? LEAST_SLEEPS : 1); nr++) {
		if (sleeps) {
			sleep_us(10000);
		} else if (futex) {
			hand_on(index);
		} else if (lock) {
			pthread_mutex_lock(&mutex);
			compute_ns(2000000);
			pthread_mutex_unlock(&mutex);
			sleep_us(100);
		} else {
			compute_ns(1000000);
		}
	}
}

/* Both clocks at one time: not when the thread lost its CPU between the two. Returns the wall clock. */
static uint64_t read_clocks(uint64_t *ret_cpu_ns)
{
	uint64_t before, after;

	do {
		before = now_ns(CLOCK_MONOTONIC);
		*ret_cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
		after = now_ns(CLOCK_MONOTONIC);
	} while (after - before > 20000);
	return before;
}

/* Documentation/scheduler/sched-stats.rst: the second number is the time on a run queue, in nanoseconds. */
static void read_statistics(struct worker *worker)
{
	unsigned long long ready = 0;
	FILE *stat = fopen("/proc/thread-self/schedstat", "r");

	if (!stat || fscanf(stat, "%*u %llu", &ready) != 1)
		exit_with("schedstat");
	fclose(stat);
	worker->ready_ns = ready;
}

static uint64_t count_switches(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		exit_with("getrusage");
	return (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static void *work(void *arg)
{
	struct worker *worker = arg, before;
	before.tid = worker->tid = (uint64_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, kind);
	read_statistics(&before);
	worker->from_ns = read_clocks(&before.cpu_ns);
	before.nr_switches = count_switches();
	wait_in_kind(worker->index);
	worker->nr_switches = count_switches() - before.nr_switches;
	worker->to_ns = read_clocks(&worker->cpu_ns);
	read_statistics(worker);
	worker->cpu_ns -= before.cpu_ns;
	worker->ready_ns -= before.ready_ns;
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: waits KIND THREADS MILLISECONDS [FILE]\n");
		return 1;
	}
	kind = argv[1];
	nr_workers = (unsigned)strtoul(argv[2], NULL, 0);
	file = argv[4];
	if (!nr_workers || nr_workers > MOST_THREADS)
		return 1;
	end_ns = now_ns(CLOCK_MONOTONIC) + strtoull(argv[3], NULL, 0) * 1000000;
	for (unsigned i = 0; i < nr_workers; i++)
		if (pipe(pipes[i]))
			exit_with("pipe");
	(void)!write(pipes[0][1], "g", 1);
	for (unsigned i = 0; i < nr_workers; i++) {
		workers[i].index = i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			exit_with("pthread_create");
	}
	for (unsigned i = 0; i < nr_workers; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < nr_workers; i++)
		printf("%llu %s %llu %llu %llu %llu %llu %llu\n", (unsigned long long)workers[i].tid, kind,
		       (unsigned long long)(workers[i].to_ns - workers[i].from_ns),
		       (unsigned long long)workers[i].cpu_ns, (unsigned long long)workers[i].ready_ns,
		       (unsigned long long)workers[i].from_ns, (unsigned long long)workers[i].to_ns,
		       (unsigned long long)workers[i].nr_switches);
	return 0;
}
