/* SPDX-License-Identifier: MIT */
/*
 * forkstorm: makes exactly N children in each of P processes; each child calls getppid(2) once and exits. With -x 1
 * each child executes this program again (which then only calls getppid(2) and exits).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"

static int call_once(void)
{
	syscall(SYS_getppid);
	return 0;
}

static int wait_for(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) != pid || status;
}

static int storm(unsigned children, unsigned execute)
{
	for (unsigned i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			if (execute)
				execl("/proc/self/exe", "forkstorm", "child", NULL);
			_exit(execute ? 1 : call_once());
		}
		if (wait_for(pid))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct args args[] = {{'p', 1, "processes that fork at the same time"},
			      {'n', 100, "children of each"},
			      {'x', 0, "1: children execute a program"},
			      {0}};
	int failed = 0;

	if (argc == 2 && strcmp(argv[1], "child") == 0)
		return call_once();
	args_parse(args, argc, argv);
	for (unsigned i = 0; i < args[0].value; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0)
			_exit(storm(args[1].value, args[2].value));
	}
	for (int status; wait(&status) > 0;)
		failed |= status != 0;
	return failed;
}
