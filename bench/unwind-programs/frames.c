/* SPDX-License-Identifier: MIT */
/* Calls through libc, recursion, leaf functions: plain C. */
#include <stdlib.h>
#include <string.h>

static volatile unsigned long sink;

static int compare(const void *left, const void *right)
{
	unsigned a = *(const unsigned *)left, b = *(const unsigned *)right;

	sink += a ^ b;
	return a < b ? -1 : a > b;
}

static __attribute__((noinline)) unsigned long deep(unsigned depth, unsigned *numbers)
{
	if (!depth) {
		qsort(numbers, 256, sizeof(*numbers), compare);
		return numbers[3];
	}
	return deep(depth - 1, numbers) + depth;
}

int main(void)
{
	for (unsigned round = 0; round < 60000000; round++) {
		unsigned numbers[256], seed = round;
		for (unsigned i = 0; i < 256; i++)
			numbers[i] = (unsigned)rand_r(&seed);
		sink += deep(round % 30, numbers);
		sink += strlen(getenv("PATH"));
	}
	return 0;
}
