/* SPDX-License-Identifier: MIT */
/* A load whose stack is full of random bytes: dumps of it cannot be compressed. Runs until it is ended. */
#include <stdint.h>

static uint64_t fill(volatile uint64_t *stack, unsigned nr, uint64_t seed)
{
	for (unsigned i = 0; i < nr; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		stack[i] = seed;
	}
	return seed;
}

int main(void)
{
	volatile uint64_t stack[2048];

	for (uint64_t seed = 88172645463325252ull;;)
		seed = fill(stack, sizeof(stack) / sizeof(stack[0]), seed);
}
