/* SPDX-License-Identifier: MIT */
/* Functions that align the stack to 32 bytes: gcc -O3 -mavx2. */
#include <stdlib.h>
#include <string.h>

typedef double wide __attribute__((vector_size(32)));

static volatile double sink;

static __attribute__((noinline)) void inner(wide *numbers, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		for (unsigned k = 0; k < 50; k++)
			numbers[i] = numbers[i] * 1.0000001 + (double)k;
}

/* Aligned, and of a size that is only known here: the frame is found by what rbp - 8 has. */
static __attribute__((noinline)) double work(unsigned nr, double from)
{
	wide fixed[8];
	wide *some = __builtin_alloca(nr * sizeof(wide));

	for (unsigned i = 0; i < 8; i++)
		fixed[i] = (wide){from, i, i + 1, i + 2};
	for (unsigned i = 0; i < nr; i++)
		some[i] = fixed[i % 8] + from;
	inner(fixed, 8);
	inner(some, nr);
	return fixed[3][1] + some[nr / 2][2];
}

static __attribute__((noinline)) double recurse(unsigned depth, double from)
{
	wide here = {from, 1, 2, 3};

	inner(&here, 1);
	return depth ? recurse(depth - 1, here[0]) + here[2] : work(16, here[1]);
}

int main(void)
{
	for (unsigned i = 0; i < 150000000; i++)
		sink = sink * 0.5 + recurse(i % 8, i);
	return 0;
}
