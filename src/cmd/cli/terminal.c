/* SPDX-License-Identifier: MIT */
#include "cmd/cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"

enum { EXIT_UNREADABLE = 255 };

/* Signals that end the process; SIGPIPE: a write after the pager has ended. */
static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
enum { NR_ENDINGS = sizeof(endings) / sizeof(endings[0]) };

static volatile pid_t pager_pid; /* 0: none */
static bool pager_on_terminal;

bool pager_terminal(void)
{
	return pager_on_terminal || isatty(STDOUT_FILENO);
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

/* The status of the pager. Async-signal-safe. */
static int wait_for_pager(void)
{
	pid_t pid = pager_pid;
	int status = 0;

	if (!pid)
		return 0;
	close(STDOUT_FILENO);
	/* A signal that arrives here calls this function again, which waits for the same process. */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	pager_pid = 0;
	return status;
}

/* Status 126 and 127 of a shell: the pager could not be started and has shown nothing. */
static int exit_status_of(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) >= 126 ? EXIT_UNREADABLE : 0;
}

int pager_close(void)
{
	int before = errno, status = exit_status_of(wait_for_pager());

	errno = before;
	return status;
}

static void at_ending(int signal_nr)
{
	int before = errno, status = wait_for_pager();
	struct sigaction usual = {.sa_handler = SIG_DFL};

	if (signal_nr == SIGPIPE)
		_exit(exit_status_of(status));
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
		/* What the caller ignores stays ignored, except SIGPIPE: without it writing would never end. */
		if (endings[i] == SIGPIPE || (sigaction(endings[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN))
			sigaction(endings[i], &action, NULL);
	}
}

/* Starts the pager with the first byte of output: until then messages and progress may go to the terminal. */
static void __attribute__((noreturn)) run_pager(const char *command, int from, const sigset_t *mask)
{
	struct pollfd wait = {.fd = from, .events = POLLIN};

	dup2(from, STDIN_FILENO);
	while (poll(&wait, 1, -1) < 0 && errno == EINTR)
		;
	if (!(wait.revents & POLLIN)) /* the end, and no output: an error has been told */
		_exit(0);
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
	pager_on_terminal = true;
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
	/* A signal before the handlers are set would leave the pager running. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	start(command, fds, &mask);
	close(fds[0]);
	close(fds[1]);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

int standard_output_flush(void)
{
	static int error; /* stdio forgets it when the bytes are given up */

	errno = 0;
	if (!error && (fflush(stdout) || ferror(stdout))) {
		error = errno ? errno : EIO;
		log_error("standard output: %s", strerror(error));
	}
	return -error;
}

int colour_set(const struct option *option, const char *arg, bool negated, void *colour_when, struct diag *reterr)
{
	static const char *const words[] = {
		[COLOUR_AUTO] = "auto", [COLOUR_ALWAYS] = "always", [COLOUR_NEVER] = "never"};

	(void)option;
	if (!arg || negated)
		arg = words[negated ? COLOUR_NEVER : COLOUR_ALWAYS];
	for (enum colour_when when = COLOUR_AUTO; when <= COLOUR_NEVER; when++)
		if (strcmp(arg, words[when]) == 0) {
			*(enum colour_when *)colour_when = when;
			return 0;
		}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of always, never and auto", arg);
}

/* https://no-color.org: any value but an empty one. */
bool colour_wanted(enum colour_when when, bool terminal)
{
	const char *no_colour = getenv("NO_COLOR"), *type = getenv("TERM");

	if (when != COLOUR_AUTO)
		return when == COLOUR_ALWAYS;
	return terminal && !(no_colour && *no_colour) && type && strcmp(type, "dumb") != 0;
}

/* perf's limits and colours: red and green. */
struct colour_marks colour_of_share(bool coloured, double percent)
{
	if (!coloured || percent <= 0.5)
		return (struct colour_marks){"", ""};
	return (struct colour_marks){percent >= 5 ? "\033[31m" : "\033[32m", "\033[m"};
}
