/* SPDX-License-Identifier: MIT */
#include "record/run/end_signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/diag.h"

/*
 * These two end a recording even where they are ignored: shells ignore them for background jobs. The others do not,
 * such as SIGHUP by nohup(1): the recording goes on when its terminal is gone.
 */
static const int always_ending[] = {SIGINT, SIGTERM};
static const int ending[] = {SIGHUP, SIGQUIT, SIGALRM, SIGUSR1};

enum { NR_ALWAYS = sizeof(always_ending) / sizeof(*always_ending), NR_ENDING = sizeof(ending) / sizeof(*ending) };

static bool is_ignored(int signal_number)
{
	struct sigaction action;

	return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int end_signals_catch(struct end_signals *signals, struct diag *reterr)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < NR_ALWAYS; i++)
		sigaddset(&set, always_ending[i]);
	for (size_t i = 0; i < NR_ENDING; i++)
		if (!is_ignored(ending[i]))
			sigaddset(&set, ending[i]);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR2); /* asks for a snapshot, of recorders that make any; perf ignores it, too */
	signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd < 0)
		return diag_set(reterr, -errno, "signalfd: %s", strerror(errno));
	/* A reader that goes away and a file that may not grow are errors of the output, not our death. */
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &set, &signals->old_mask);
	return 0;
}

static void unblock(sigset_t *set, const int numbers[], size_t nr, const sigset_t *old_mask)
{
	for (size_t i = 0; i < nr; i++)
		if (!sigismember(old_mask, numbers[i]))
			sigdelset(set, numbers[i]);
}

void end_signals_unblock(const struct end_signals *signals, sigset_t *ret_blocked)
{
	pthread_sigmask(SIG_SETMASK, NULL, ret_blocked);
	sigset_t set = *ret_blocked;
	unblock(&set, always_ending, NR_ALWAYS, &signals->old_mask);
	unblock(&set, ending, NR_ENDING, &signals->old_mask);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

void end_signals_block(const sigset_t *blocked)
{
	pthread_sigmask(SIG_SETMASK, blocked, NULL);
}

void end_signals_close(struct end_signals *signals)
{
	if (signals->fd >= 0)
		close(signals->fd);
	signals->fd = -1;
}
