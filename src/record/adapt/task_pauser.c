/* SPDX-License-Identifier: MIT */
#include "record/adapt/task_pauser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "perfdata/ledger.h"

enum { TIMES_MAX = 16384 };

/*
 * The child: waits until the recorder is gone. In a session of its own, so that signals to the recorder's process
 * group, from a terminal or by kill(1), do not end it.
 */
static void __attribute__((noreturn)) watchdog_main(int fd, const struct task_pauser *task_pauser)
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
	/* Stopped tasks do not end, so that the numbers are still theirs. */
	for (size_t i = 0; i < task_pauser->nr_pids && atomic_load(task_pauser->frozen); i++)
		kill(task_pauser->pids[i], SIGCONT);
	_exit(0);
}

/* Before any thread is started and anything is opened that must not outlive us. 0 or -errno. */
static int watchdog_start(struct watchdog *watchdog, const struct task_pauser *task_pauser)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid_t pid = fork();
	int err = pid < 0 ? -errno : 0;
	if (pid == 0)
		watchdog_main(ends[0], task_pauser);
	close(ends[0]);
	if (err)
		close(ends[1]);
	else
		*watchdog = (struct watchdog){.pid = pid, .fd = ends[1]};
	return err;
}

/* Does it still live? One system call. */
static bool watchdog_is_running(const struct watchdog *watchdog)
{
	struct pollfd end = {.fd = watchdog->fd};

	/* POLLERR: the pipe has no reader any more. */
	return watchdog->pid && poll(&end, 1, 0) == 0;
}

/* Returns when the tasks were continued and the child has ended. */
static void watchdog_stop(struct watchdog *watchdog)
{
	if (!watchdog->pid)
		return;
	close(watchdog->fd);
	while (waitpid(watchdog->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*watchdog = (struct watchdog){0};
}

/* By pidfd where possible: a task may have ended, and its number been given to another. */
static void send_all(const struct task_pauser *task_pauser, int signal_number)
{
	for (size_t i = 0; i < task_pauser->nr_pids; i++) {
		if (task_pauser->pidfds[i] >= 0)
			syscall(SYS_pidfd_send_signal, task_pauser->pidfds[i], signal_number, NULL, 0);
		else
			kill(task_pauser->pids[i], signal_number);
	}
}

static void stop(struct task_pauser *task_pauser, uint64_t now)
{
	if (!watchdog_is_running(&task_pauser->watchdog)) {
		task_pauser->nr_unguarded++;
		return;
	}
	atomic_store(task_pauser->frozen, true); /* before it is so: the watchdog may come in between */
	send_all(task_pauser, SIGSTOP);
	task_pauser->since_ns = now;
}

static void resume(struct task_pauser *task_pauser, uint64_t now)
{
	send_all(task_pauser, SIGCONT);
	atomic_store(task_pauser->frozen, false);
	task_pauser->nr_stops++;
	task_pauser->total_ns += now - task_pauser->since_ns;
	size_t nr = atomic_load_explicit(&task_pauser->nr_times, memory_order_relaxed);
	if (nr < TIMES_MAX) {
		task_pauser->times[nr] = (struct frozen_time){task_pauser->since_ns, now};
		/* Pairs with the acquire of task_pauser_note(). */
		atomic_store_explicit(&task_pauser->nr_times, nr + 1, memory_order_release);
	}
}

/* With the lock of the pool held: two system calls, and only when the state changes. */
static void set_pressure(struct memory_pressure *pressure, bool high)
{
	struct task_pauser *task_pauser = (struct task_pauser *)pressure;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (high)
		stop(task_pauser, now);
	else if (atomic_load(task_pauser->frozen))
		resume(task_pauser, now);
}

/* -1 where there is none: a process group, one thread of several, a kernel before 5.3, no descriptor left. */
static void open_pidfds(struct task_pauser *task_pauser)
{
	for (size_t i = 0; i < task_pauser->nr_pids; i++)
		task_pauser->pidfds[i] =
			task_pauser->pids[i] > 0 ? (int)syscall(SYS_pidfd_open, task_pauser->pids[i], 0) : -1;
}

int task_pauser_open(struct task_pauser *task_pauser, const pid_t pids[], size_t nr_pids)
{
	void *shared =
		mmap(NULL, sizeof(*task_pauser->frozen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*task_pauser = (struct task_pauser){.pressure.set = set_pressure, .nr_pids = nr_pids};
	if (shared == MAP_FAILED)
		return -errno;
	task_pauser->frozen = shared;
	task_pauser->pids = calloc(nr_pids, sizeof(*pids));
	task_pauser->pidfds = calloc(nr_pids, sizeof(*task_pauser->pidfds));
	task_pauser->times = calloc(TIMES_MAX, sizeof(*task_pauser->times));
	if (!task_pauser->pids || !task_pauser->pidfds || !task_pauser->times) {
		task_pauser->nr_pids = 0;
		task_pauser_close(task_pauser);
		return -ENOMEM;
	}
	memcpy(task_pauser->pids, pids, nr_pids * sizeof(*pids));
	open_pidfds(task_pauser);
	int err = watchdog_start(&task_pauser->watchdog, task_pauser);
	if (err)
		task_pauser_close(task_pauser);
	return err;
}

int task_pauser_note(struct task_pauser *task_pauser, struct ledger *ledger)
{
	size_t nr = atomic_load_explicit(&task_pauser->nr_times, memory_order_acquire);
	int err = 0;

	for (size_t i = task_pauser->nr_noted; i < nr && !err; i++) {
		const struct ledger_entry entry = {
			.event = (uint32_t)LEDGER_NO_EVENT,
			.cause = LEDGER_FROZEN,
			.cpu = -1,
			.tid = -1,
			.from_ns = task_pauser->times[i].from_ns,
			.to_ns = task_pauser->times[i].to_ns,
		};
		err = ledger_add(ledger, &entry);
		task_pauser->nr_noted += !err;
	}
	return err;
}

void task_pauser_close(struct task_pauser *task_pauser)
{
	if (!task_pauser->frozen)
		return;
	watchdog_stop(&task_pauser->watchdog);
	munmap(task_pauser->frozen, sizeof(*task_pauser->frozen));
	for (size_t i = 0; i < task_pauser->nr_pids; i++)
		if (task_pauser->pidfds[i] >= 0)
			close(task_pauser->pidfds[i]);
	free(task_pauser->pidfds);
	free(task_pauser->pids);
	free(task_pauser->times);
	*task_pauser = (struct task_pauser){0};
}
