/* SPDX-License-Identifier: MIT */
/*
 * trap: main -> trap_leaf, which a signal interrupts -> trap_handler -> trap_work, which takes the time. trap_leaf has
 * no frame: where it was called from is in the link register alone. Usage: trap [ROUNDS]
 */
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

static volatile unsigned long sink;

static void __attribute__((noinline)) trap_work(void)
{
	for (unsigned i = 0; i < 1000000; i++)
		sink += i;
}

static void trap_handler(int nr, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	(void)nr;
	(void)info;
	trap_work();
	interrupted->uc_mcontext.pc += 4; /* behind the instruction */
}

static void __attribute__((noinline)) trap_leaf(void)
{
	__asm__ volatile("brk #0");
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	const struct sigaction action = {.sa_sigaction = trap_handler, .sa_flags = SA_SIGINFO};

	if (sigaction(SIGTRAP, &action, 0))
		return 1;
	for (unsigned i = 0; i < rounds; i++) {
		trap_leaf();
		sink++;
	}
	return 0;
}
