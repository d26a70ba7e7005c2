/* SPDX-License-Identifier: MIT */
/*
 * crowd N M COMMAND…: runs COMMAND while N processes sleep, each with M maps more than it was born with. For
 * bench/start-up.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Neighbours of different rights stay maps of their own; half of them may run, so that a recording tells them. */
static void make_maps(int nr)
{
	long page = sysconf(_SC_PAGESIZE);
	char *area = mmap(NULL, (size_t)(nr * page), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; area != MAP_FAILED && i < nr; i += 2)
		mprotect(area + i * page, (size_t)page, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	int nr = argc > 3 ? atoi(argv[1]) : 0, status = 1;

	if (nr < 1) {
		fprintf(stderr, "Usage: crowd N M COMMAND [ARGS]\n");
		return 2;
	}
	make_maps(atoi(argv[2])); /* once: children inherit them */
	for (int i = 0; i < nr; i++) {
		pid_t pid = fork();
		if (pid < 0) {
			perror("fork");
			return 1; /* those that there are end with us */
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	pid_t command = fork();
	if (command == 0) {
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		_exit(127);
	}
	waitpid(command, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
