/* SPDX-License-Identifier: MIT */
/*
 * deep: calls itself `d` times, each call with a frame of `b` bytes that is full of "STACK-SECRET-4711 ", and burns CPU
 * time innermost: main -> deep_call -> ... -> deep_call -> deep_burn. Children do the same. The text is put together at
 * run time, and is in no file. Compiled without frame pointers. In the frame of main, `a` bytes have no memory.
 */
#include <alloca.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "args.h"

static volatile uint64_t sink;

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void __attribute__((noinline)) deep_burn(uint64_t end_ns)
{
	while (cpu_ns() < end_ns)
		for (unsigned i = 0; i < 10000; i++)
			sink += i;
}

static void __attribute__((noinline)) deep_call(unsigned depth, unsigned bytes, uint64_t end_ns)
{
	static const char halves[2][16] = {"TERCES-KCATS", "-4711 "};
	volatile char *frame = alloca(bytes);
	char text[20] = "";

	for (unsigned i = 0; i < 12; i++)
		text[i] = halves[0][11 - i];
	strcpy(text + 12, halves[1]);
	text[0] = 'S'; /* "STACK-SECRET-4711 ", of 18 bytes */
	for (unsigned i = 0; i < bytes; i++)
		frame[i] = text[i % 18];
	if (depth)
		deep_call(depth - 1, bytes, end_ns);
	else
		deep_burn(end_ns);
	sink += (uint64_t)frame[bytes - 1];
}

int main(int argc, char **argv)
{
	struct args args[] = {
		{'d', 20, "calls"},   {'b', 128, "bytes of a frame"},   {'m', 300, "milliseconds of CPU time"},
		{'c', 0, "children"}, {'a', 0, "bytes without memory"}, {0}};

	args_parse(args, argc, argv);
	if (args[4].value) { /* in whole pages */
		uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), bytes = (args[4].value / page + 1) * page;
		uintptr_t start = (uintptr_t)alloca(bytes + page);
		madvise((void *)((start + page - 1) / page * page), bytes, MADV_DONTNEED);
	}
	for (unsigned i = 0; i < args[3].value; i++) {
		if (fork())
			continue;
		deep_call(args[0].value, args[1].value + 1, cpu_ns() + args[2].value * 1000000ull);
		_exit(0);
	}
	deep_call(args[0].value, args[1].value + 1, cpu_ns() + args[2].value * 1000000ull);
	while (wait(NULL) > 0)
		;
	return 0;
}
