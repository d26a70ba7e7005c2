/* SPDX-License-Identifier: MIT */
/*
 * mill: the workload of `make demo`. Four kinds of threads do real work for a given time: sorting, hashing, sieving
 * primes, and passing bytes through a pipe (so that the kernel has its share).
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NUMBERS = 20000, SIEVE = 200000, CHUNK = 4096, THREADS = 4 };

static double seconds = 2;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_numbers(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static uint64_t sort_round(unsigned round)
{
	static uint32_t numbers[NUMBERS];
	uint32_t state = round + 1;

	for (int i = 0; i < NUMBERS; i++) {
		state = state * 1664525u + 1013904223u;
		numbers[i] = state;
	}
	qsort(numbers, NUMBERS, sizeof(numbers[0]), compare_numbers);
	return numbers[NUMBERS / 2];
}

static uint64_t hash_bytes(const unsigned char *bytes, size_t len, uint64_t hash)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	return hash;
}

static uint64_t hash_round(unsigned round)
{
	static unsigned char bytes[1 << 20];

	memset(bytes, (int)round, sizeof(bytes));
	return hash_bytes(bytes, sizeof(bytes), 14695981039346656037u);
}

static void strike_out(bool *composite, unsigned prime)
{
	for (unsigned i = prime * prime; i < SIEVE; i += prime)
		composite[i] = true;
}

static uint64_t sieve_round(unsigned round)
{
	static bool composite[SIEVE];
	uint64_t primes = round;

	memset(composite, 0, sizeof(composite));
	for (unsigned i = 2; i < SIEVE; i++) {
		if (composite[i])
			continue;
		primes++;
		if (i < SIEVE / i)
			strike_out(composite, i);
	}
	return primes;
}

static uint64_t pipe_round(unsigned round)
{
	char chunk[CHUNK];
	int ends[2];
	ssize_t sum = 0;

	memset(chunk, (int)round, sizeof(chunk));
	if (pipe(ends))
		return 0;
	for (int i = 0; i < 64; i++) {
		sum += write(ends[1], chunk, sizeof(chunk));
		sum += read(ends[0], chunk, sizeof(chunk));
	}
	close(ends[0]);
	close(ends[1]);
	return (uint64_t)sum;
}

struct job {
	const char *name;
	uint64_t (*round)(unsigned round);
	uint64_t sum;
};

static void *job_run(void *arg)
{
	struct job *job = arg;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);

	pthread_setname_np(pthread_self(), job->name);
	for (unsigned round = 0; now_ns() < end; round++)
		job->sum += job->round(round);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct job jobs[THREADS] = {
		{"mill-sort", sort_round, 0},
		{"mill-hash", hash_round, 0},
		{"mill-sieve", sieve_round, 0},
		{"mill-pipe", pipe_round, 0},
	};
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	if (argc > 1)
		seconds = atof(argv[1]);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, job_run, &jobs[i]))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += jobs[i].sum;
	}
	fprintf(stderr, "mill: %d threads, %.1f s, sum %llx\n", THREADS, seconds, (unsigned long long)sum);
	return 0;
}
