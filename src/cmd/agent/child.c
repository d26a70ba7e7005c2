/* SPDX-License-Identifier: MIT */
#include "cmd/agent/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "sysinfo/shortage.h"

enum { MESSAGES_KEPT_BYTES = 1 << 16 };

static void __attribute__((noreturn)) run_child(int message_fd, pid_t parent, int (*run)(void *ctx), void *ctx)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	shortage_forget();
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(message_fd, STDERR_FILENO);
	int status = run(ctx);
	fflush(NULL);
	_exit(status);
}

int child_start(struct child *child, int (*run)(void *ctx), void *ctx, struct diag *reterr)
{
	pid_t parent = getpid();

	child->message_fd = memfd_create("millrace-messages", MFD_CLOEXEC);
	if (child->message_fd < 0)
		return diag_set(reterr, -errno, "cannot allocate memory for the messages of a command: %s",
				strerror(errno));
	fflush(NULL);
	child->pid = fork();
	if (child->pid == 0)
		run_child(child->message_fd, parent, run, ctx);
	child->started_ns = clock_ns(CLOCK_MONOTONIC);
	if (child->pid > 0)
		return 0;
	int err = -errno;
	close(child->message_fd);
	child->pid = 0;
	return diag_set(reterr, err, "fork: %s", diag_start_error(err));
}

/* Of one that runs for months, and of which only the last line is wanted: the memory of the others. */
static void free_messages(const struct child *child)
{
	struct stat st;

	if (fstat(child->message_fd, &st) || (uint64_t)st.st_blocks * 512 <= MESSAGES_KEPT_BYTES ||
	    st.st_size <= MESSAGES_KEPT_BYTES / 2)
		return;
	(void)!fallocate(child->message_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			 st.st_size - MESSAGES_KEPT_BYTES / 2);
}

bool child_reap(struct child *child, int *ret_status)
{
	if (!child->pid)
		return false;
	if (waitpid(child->pid, ret_status, WNOHANG) != child->pid) {
		free_messages(child);
		return false;
	}
	child->pid = 0;
	return true;
}

void child_message(struct child *child, char message[CHILD_MESSAGE_BYTES])
{
	static const char name[] = "millrace: ";
	char text[4096];
	off_t end = lseek(child->message_fd, 0, SEEK_END);
	off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t got = pread(child->message_fd, text, sizeof(text) - 1, from);

	close(child->message_fd);
	text[got > 0 ? got : 0] = '\0';
	while (got > 0 && text[got - 1] == '\n')
		text[--got] = '\0';
	const char *line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if (strncmp(line, name, sizeof(name) - 1) == 0)
		line += sizeof(name) - 1;
	snprintf(message, CHILD_MESSAGE_BYTES, "%.*s", CHILD_MESSAGE_BYTES - 1, line);
}

int child_run(int (*run)(void *ctx), void *ctx, int *ret_status, char message[CHILD_MESSAGE_BYTES], struct diag *reterr)
{
	struct child child = {0};
	int err = child_start(&child, run, ctx, reterr);

	if (err)
		return err;
	while (waitpid(child.pid, ret_status, 0) < 0 && errno == EINTR)
		;
	child_message(&child, message);
	return 0;
}

void child_signal(const struct child *child, int signal_number)
{
	if (child->pid)
		kill(child->pid, signal_number);
}
