/* SPDX-License-Identifier: MIT */
#include "record/setup/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"

/* What the child gets back before its exec, as the recorder has changed it. */
struct before {
	const sigset_t *sigmask;
	void (*sigchld)(int);
};

static void __attribute__((noreturn))
child(char *const argv[], enum workload_flags flags, struct before before, int cork, int failure)
{
	const int ready = 0;
	char go;

	if (flags & WORKLOAD_OWN_SESSION)
		setsid();
	prctl(PR_SET_NAME, "perf-exec"); /* what readers of perf.data know a command before its exec by */
	if (fd_write(failure, &ready, sizeof(ready)))
		_exit(0);
	if (flags & WORKLOAD_STDOUT_TO_STDERR)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	/* No byte: the recorder gave up, or died. */
	if (fd_read(cork, &go, 1))
		_exit(0);
	signal(SIGCHLD, before.sigchld);
	sigprocmask(SIG_SETMASK, before.sigmask, NULL);
	execvp(argv[0], argv);
	int err = errno;
	fd_write(failure, &err, sizeof(err));
	_exit(127);
}

static bool can_run(const char *path)
{
	struct stat st;

	return access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Is the interpreter there that a script names in its first line, "#!INTERPRETER [ARG]"? execve(2) says ENOENT, as if
 * it were the script that is missing. What cannot be read here may be run all the same: exec will tell.
 */
static int check_interpreter(const char *path, struct diag *reterr)
{
	char line[256] = ""; /* execve(2), "Interpreter scripts": the kernel looks at no more */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (got < 2 || memcmp(line, "#!", 2))
		return 0;
	char *interpreter = line + 2 + strspn(line + 2, " \t");
	interpreter[strcspn(interpreter, " \t\n")] = '\0';
	if (!*interpreter || access(interpreter, F_OK) == 0)
		return 0;
	return diag_set(reterr, -errno, "%s: the interpreter of its first line, %s: %s", path, interpreter,
			strerror(errno));
}

/* execvp(3) would find out too, but only when everything is open. */
static int find_program(const char *program, char **ret_path, struct diag *reterr)
{
	struct stat st;
	const char *path = getenv("PATH");
	int err = 0;

	if (strchr(program, '/')) {
		if (can_run(program)) {
			*ret_path = strdup(program);
			return check_interpreter(program, reterr);
		}
		err = stat(program, &st) ? -errno : -EACCES;
		return diag_set(reterr, err, "%s: %s", program, strerror(-err));
	}
	/* An empty one, at the end, too, is the working directory. */
	for (const char *dir = path ? path : "/bin:/usr/bin"; dir;) {
		AUTO_FREE char *candidate = NULL;
		size_t len = strcspn(dir, ":");
		if (asprintf(&candidate, "%.*s/%s", len ? (int)len : 1, len ? dir : ".", program) < 0)
			candidate = NULL;
		if (candidate && can_run(candidate)) {
			err = check_interpreter(candidate, reterr);
			if (!err) {
				*ret_path = take_ptr(candidate);
				return 0;
			}
		}
		dir = dir[len] ? dir + len + 1 : NULL;
	}
	return err ? err : diag_set(reterr, -ENOENT, "%s: no such program in PATH", program);
}

char *workload_find_program(const char *program)
{
	char *path = NULL;

	return find_program(program, &path, NULL) ? NULL : path;
}

/*
 * begin_new_exec() in linux/fs/exec.c calls perf_event_exit_task() unless the new memory may be dumped by its user. On
 * a mount with nosuid, and with fs.suid_dumpable=1, it may.
 */
const char *workload_why_not_watched(const char *program)
{
	AUTO_FREE char *path = NULL;
	struct statvfs mount;
	struct stat st;
	long dumpable = 0;

	fd_slurp_long("/proc/sys/fs/suid_dumpable", &dumpable);
	if (find_program(program, &path, NULL) || !path || stat(path, &st) || dumpable == 1)
		return NULL;
	if (access(path, R_OK))
		return "may not be read";
	if (statvfs(path, &mount) || mount.f_flag & ST_NOSUID)
		return NULL;
	if (st.st_mode & S_ISUID && st.st_uid != geteuid())
		return "is set-user-ID";
	if (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid())
		return "is set-group-ID";
	return geteuid() && getxattr(path, "security.capability", NULL, 0) > 0 ? "has file capabilities" : NULL;
}

int workload_fork(struct workload *workload, char *const argv[], enum workload_flags flags, const void *sigmask,
		  struct diag *reterr)
{
	AUTO_FREE char *path = NULL;
	int cork[2], failure[2];
	int err = find_program(argv[0], &path, reterr);

	if (err)
		return err;
	if (pipe2(cork, O_CLOEXEC))
		return diag_set(reterr, -errno, "pipe: %s", strerror(errno));
	if (pipe2(failure, O_CLOEXEC)) {
		err = -errno;
		close(cork[0]);
		close(cork[1]);
		return diag_set(reterr, err, "pipe: %s", strerror(-err));
	}
	/* Where it is ignored, as some daemons leave it, there is neither a signal when the child ends nor a status. */
	struct before before = {sigmask, signal(SIGCHLD, SIG_DFL)};
	pid_t pid = fork();
	err = pid < 0 ? -errno : 0;
	if (pid == 0) {
		close(cork[1]); /* or our own end would keep the pipe open */
		child(argv, flags, before, cork[0], failure[1]);
	}
	close(cork[0]);
	close(failure[1]);
	if (err) {
		close(cork[1]);
		close(failure[0]);
		return diag_set(reterr, err, "fork: %s", diag_start_error(err));
	}
	*workload = (struct workload){
		.pid = pid,
		.cork = cork[1],
		.failure = failure[0],
		.own_session = flags & WORKLOAD_OWN_SESSION,
	};
	/*
	 * It has its name: who looks at it from now on sees that. If it died here, its end is told like that of any
	 * command.
	 */
	int ready;
	(void)!fd_read(failure[0], &ready, sizeof(ready));
	return 0;
}

int workload_release(struct workload *workload, const char *program, struct diag *reterr)
{
	int exec_errno;
	int err = fd_write(workload->cork, "", 1);

	close(take_fd(&workload->cork));
	if (err)
		return diag_set(reterr, err, "%s: its process ended before it could be run", program);
	/* The pipe closes by itself when exec succeeds. */
	err = fd_read(workload->failure, &exec_errno, sizeof(exec_errno));
	close(take_fd(&workload->failure));
	if (err)
		return 0;
	if (exec_errno == ENOENT) /* the program was found before */
		return diag_set(
			reterr, -exec_errno,
			"%s: cannot be run: the loader that it names (see file %s) or the file itself is missing",
			program, program);
	return diag_set(reterr, -exec_errno, "%s: %s", program, strerror(exec_errno));
}

bool workload_ended(struct workload *workload)
{
	if (workload->pid && !workload->reaped) {
		pid_t pid = waitpid(workload->pid, &workload->wait_status, WNOHANG);
		workload->reaped = pid == workload->pid || (pid < 0 && errno == ECHILD);
	}
	return workload->reaped;
}

/* One that ends a recording; SIGUSR2 asks for a snapshot. */
static bool signal_arrived(int signal_fd)
{
	struct signalfd_siginfo info;
	bool arrived = false;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		arrived = arrived || (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGUSR2);
	return arrived;
}

/* A terminal sends its signals within its own session: a command in another hears of them from us. */
static void send(const struct workload *workload, int signal_number)
{
	kill(workload->own_session ? -workload->pid : workload->pid, signal_number);
}

/* As long as it takes, but no longer than the user wants. */
static void wait_for_end(struct workload *workload, int signal_fd)
{
	enum { QUIET_MS = 300 };
	struct pollfd signals = {.fd = signal_fd, .events = POLLIN};

	for (bool warned = false; !workload_ended(workload);) {
		if (poll(&signals, 1, warned ? -1 : QUIET_MS) == 0) {
			log_note("nothing is recorded any more; waiting for the command (pid %d), which has not ended "
				 "after SIGTERM: another Ctrl-C kills it (SIGKILL)",
				 workload->pid);
			warned = true;
		}
		if (signal_arrived(signal_fd))
			send(workload, SIGKILL);
	}
}

void workload_end(struct workload *workload, int signal_fd)
{
	if (!workload->pid)
		return;
	if (workload->cork >= 0)
		close(take_fd(&workload->cork));
	if (workload->failure >= 0)
		close(take_fd(&workload->failure));
	if (workload_ended(workload))
		return;
	signal_arrived(signal_fd); /* what came before was not about this */
	send(workload, SIGTERM);
	send(workload, SIGCONT); /* a stopped process does not see the other */
	wait_for_end(workload, signal_fd);
}
