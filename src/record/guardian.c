/* SPDX-License-Identifier: MIT */
#include "record/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A session of its own: what is sent to the recorder's group, from a terminal or by kill(1), does not end this, too. */
static void __attribute__((noreturn)) guard(int fd, void (*will)(void *), void *arg)
{
	char byte;

	prctl(PR_SET_NAME, "millrace-guard");
	setsid();
	signal(SIGTERM, SIG_IGN);
	dup2(fd, STDIN_FILENO);
	/* Events, outputs and the write end that others hold would stay open with us. */
	if (close_range(STDIN_FILENO + 1, ~0u, 0))
		for (int other = (int)sysconf(_SC_OPEN_MAX); other > STDIN_FILENO; other--)
			close(other);
	while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
		;
	will(arg);
	_exit(0);
}

int guardian_start(struct guardian *guardian, void (*will)(void *arg), void *arg)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid_t pid = fork();
	int err = pid < 0 ? -errno : 0;
	if (pid == 0)
		guard(ends[0], will, arg);
	close(ends[0]);
	if (err)
		close(ends[1]);
	else
		*guardian = (struct guardian){.pid = pid, .fd = ends[1]};
	return err;
}

bool guardian_watches(const struct guardian *guardian)
{
	struct pollfd end = {.fd = guardian->fd};

	/* Who reads a pipe no more is told by POLLERR. */
	return guardian->pid && poll(&end, 1, 0) == 0;
}

void guardian_stop(struct guardian *guardian)
{
	if (!guardian->pid)
		return;
	close(guardian->fd);
	while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*guardian = (struct guardian){0};
}
