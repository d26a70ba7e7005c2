/* SPDX-License-Identifier: MIT */
#include "cmd/pager.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

enum { EXIT_UNREADABLE = 255 };

/* What ends the process from outside, and what a pager that ends makes of the next write. */
static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
enum { NR_ENDINGS = sizeof(endings) / sizeof(endings[0]) };

static volatile pid_t pager_pid; /* 0: none */
static bool terminal_behind;     /* a pager, that is */

bool pager_terminal(void)
{
	return terminal_behind || isatty(STDOUT_FILENO);
}

/* NULL: none. */
static const char *pager_command(void)
{
	static const char *const known[] = {"/usr/bin/pager", "/usr/bin/less"};
	const char *command = getenv("PERF_PAGER");

	if (!command)
		command = getenv("PAGER");
	for (size_t i = 0; !command && i < sizeof(known) / sizeof(known[0]); i++)
		if (access(known[i], X_OK) == 0)
			command = known[i];
	return command && *command && strcmp(command, "cat") != 0 ? command : NULL;
}

/* The status of the pager; only what is safe in a handler. */
static int wait_for_pager(void)
{
	pid_t pid = pager_pid;
	int status = 0;

	if (!pid)
		return 0;
	close(STDOUT_FILENO);
	/* A signal meanwhile comes here once more, and waits for the same one. */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	pager_pid = 0;
	return status;
}

void pager_close(void)
{
	int before = errno;

	wait_for_pager();
	errno = before;
}

/* A pager that could not be started has shown nothing. */
static void at_ending(int signal_nr)
{
	int before = errno, status = wait_for_pager();
	struct sigaction usual = {.sa_handler = SIG_DFL};

	if (signal_nr == SIGPIPE)
		_exit(WIFEXITED(status) && WEXITSTATUS(status) >= 126 ? EXIT_UNREADABLE : 0);
	sigaction(signal_nr, &usual, NULL);
	raise(signal_nr);
	errno = before;
}

static void set_handlers(void)
{
	struct sigaction action = {.sa_handler = at_ending, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < NR_ENDINGS; i++) {
		struct sigaction old;
		/* What the caller had ignored stays so, but for pipes: then nothing would ever end. */
		if (endings[i] == SIGPIPE || (sigaction(endings[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN))
			sigaction(endings[i], &action, NULL);
	}
}

/* Shows nothing before there is something: then a message or a progress may still go to the terminal. */
static void __attribute__((noreturn)) run_pager(const char *command, int from, const sigset_t *mask)
{
	struct pollfd wait = {.fd = from, .events = POLLIN};

	dup2(from, STDIN_FILENO);
	while (poll(&wait, 1, -1) < 0 && errno == EINTR)
		;
	setenv("LESS", "FRSX", 0); /* ends by itself behind one page, and shows colours */
	sigprocmask(SIG_SETMASK, mask, NULL);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static void start(const char *command, const int fds[2], const sigset_t *mask)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(fds[1]);
		run_pager(command, fds[0], mask);
	}
	if (pid < 0) {
		log_note("no pager: %s", strerror(errno));
		return;
	}
	pager_pid = pid;
	terminal_behind = true;
	set_handlers();
	dup2(fds[1], STDOUT_FILENO);
	setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
}

void pager_open(const struct pager_options *options)
{
	const char *command = options->off || !isatty(STDOUT_FILENO) ? NULL : pager_command();
	sigset_t all, mask;
	int fds[2];

	if (!command || pager_pid || pipe(fds))
		return;
	fflush(stdout);
	/* A signal in between must meet the handlers, or it would leave the pager behind. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	start(command, fds, &mask);
	close(fds[0]);
	close(fds[1]);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}
