/* SPDX-License-Identifier: MIT */
/* Signal handlers that interrupt code anywhere. With an argument they have a stack of their own. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile unsigned long sink;
static volatile sig_atomic_t left = 100000;

static __attribute__((noinline)) void in_handler(void)
{
	for (unsigned long i = 0; i < 1000000; i++)
		sink += i;
	left -= left > 0;
}

static void handler(int nr)
{
	(void)nr;
	in_handler();
}

static __attribute__((noinline)) void interrupted(void)
{
	while (left)
		sink++;
}

int main(int argc, char **argv)
{
	static char stack[65536];
	const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const struct sigaction action = {.sa_handler = handler, .sa_flags = argc > 1 ? SA_ONSTACK : 0};
	const struct itimerval every = {{0, 2000}, {0, 2000}};

	(void)argv;
	sigaltstack(&other, 0);
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &every, 0);
	interrupted();
	return 0;
}
