/* SPDX-License-Identifier: MIT */
#include "record/setup/fd_closer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "event/names/names.h"
#include "event/parse/event.h"

/* -1: no number. */
static int number_of(const char *name)
{
	int number = 0;

	for (; *name >= '0' && *name <= '9' && number < 1 << 24; name++)
		number = number * 10 + (*name - '0');
	return *name ? -1 : number;
}

static bool is_event(int fd)
{
	uint64_t id;

	return ioctl(fd, PERF_EVENT_IOC_ID, &id) == 0;
}

static void close_unless_event(int fd)
{
	if (!is_event(fd))
		close(fd);
}

static void disable_event(int fd)
{
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* All but `dir`, of /proc/self/fd. */
static void for_each_fd(int dir, void (*visit)(int fd))
{
	char names[4096] __attribute__((aligned(8)));
	ssize_t got;

	lseek(dir, 0, SEEK_SET);
	while ((got = syscall(SYS_getdents64, dir, names, sizeof(names))) > 0)
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const struct dirent64 *)(names + at);
			int fd = number_of(entry->d_name);
			if (fd >= 0 && fd != dir)
				visit(fd);
			at += entry->d_reclen;
		}
}

/* Who opens tracepoints holds a shared lock of it. -1: tracefs is not readable. */
static int open_lock(const char *tracefs)
{
	char path[4096];

	if (!tracefs || snprintf(path, sizeof(path), "%s/events", tracefs) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static size_t nr_tracepoints(const struct event_list *events)
{
	size_t nr = 0;

	for (size_t i = 0; i < events->nr; i++)
		nr += events->events[i].tracepoint_system != NULL;
	return nr;
}

int fd_closer_pause_others(const struct event_list *events)
{
	int lock = nr_tracepoints(events) ? open_lock(tracefs_path(NULL)) : -1;

	/* Not when a closer is just looking whether anybody holds it, or a stranger has it. */
	if (lock >= 0 && flock(lock, LOCK_SH | LOCK_NB)) {
		close(lock);
		lock = -1;
	}
	return lock;
}

static bool others_open(int lock)
{
	if (lock < 0)
		return false;
	if (flock(lock, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(lock, LOCK_UN);
	return false;
}

/* Of the closer. A recorder that was stopped while it opens events must not keep others' for ever. */
static int lock_of_closer = -1;
static unsigned pauses_left = 1000;

static void close_event(int fd)
{
	enum { PAUSE_US = 10000 };

	if (fd == lock_of_closer)
		return;
	for (; pauses_left && others_open(lock_of_closer); pauses_left--)
		usleep(PAUSE_US);
	close(fd);
}

/*
 * What waits for the recorder must not wait for this process: the reader of a pipe, a terminal, an umount(2). Events
 * are disabled before the first of them is closed.
 */
static void __attribute__((noreturn)) closer_main(int recorder, const char *tracefs)
{
	struct pollfd end = {.fd = recorder, .events = POLLIN};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "millrace-close");
	setsid();
	if (chdir("/"))
		_exit(1);
	while (poll(&end, 1, -1) < 0 && errno == EINTR)
		;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close_unless_event(fd);
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0) {
		for_each_fd(dir, close_unless_event);
		for_each_fd(dir, disable_event);
		lock_of_closer = open_lock(tracefs);
		for_each_fd(dir, close_event);
	}
	_exit(0);
}

bool fd_closer_is_worth_it(const struct event_list *events)
{
	enum { MANY = 16 };

	return nr_tracepoints(events) >= MANY;
}

/*
 * By clone(2) itself: fork(3) does not share the table. No signal at its end: SIGCHLD is about the command. A pidfd
 * becomes readable when the process has ended with all its threads, and its table of fds is ours alone: pidfd_open(2),
 * Linux 5.3.
 */
int fd_closer_start(void)
{
	const char *tracefs = tracefs_path(NULL); /* there are tracepoints: it is mounted */
	int recorder = (int)syscall(SYS_pidfd_open, getpid(), 0);
	long pid = recorder < 0 ? -1 : syscall(SYS_clone, CLONE_FILES, 0, 0, 0, 0);

	if (pid == 0)
		closer_main(recorder, tracefs);
	if (pid > 0)
		return 0;
	int err = -errno;
	if (recorder >= 0)
		close(recorder);
	return err;
}
