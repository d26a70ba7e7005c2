/* SPDX-License-Identifier: MIT */
/*
 * steps: the same work in each run, on any machine and under any recorder: main -> steps_outer ->
 * steps_middle -> steps_leaf, and reads of zeros, which is work of the kernel. Usage: steps [ROUNDS [READS]]
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static volatile uint64_t sink;
static char zeros[65536];

/* One step. The compiler neither leaves it out nor takes many at once. */
static inline uint64_t step(uint64_t x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 6364136223846793005u + 1442695040888963407u;
}

/* Keeps no frame of its own: its caller's address is in the link register only. */
static uint64_t __attribute__((noinline)) steps_leaf(unsigned rounds)
{
	uint64_t x = rounds;

	for (unsigned i = 0; i < rounds; i++)
		x = step(x);
	return x;
}

static uint64_t __attribute__((noinline)) steps_middle(unsigned rounds)
{
	uint64_t x = steps_leaf(rounds);

	for (unsigned i = 0; i < rounds; i++)
		x = step(x);
	return x;
}

static void __attribute__((noinline)) steps_outer(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++)
		sink += steps_middle(5000);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	unsigned reads = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	steps_outer(rounds);
	for (unsigned i = 0; i < reads; i++)
		if (read(fd, zeros, sizeof(zeros)) != (ssize_t)sizeof(zeros))
			return 1;
	return 0;
}
