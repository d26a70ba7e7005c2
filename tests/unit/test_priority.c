/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sysinfo/thread.h"

enum { UNPRIVILEGED = 65534, CANNOT = 77 };

static int policy_now(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static int level_now(void)
{
	struct sched_param param = {0};

	sched_getparam(0, &param);
	return param.sched_priority;
}

/* In a child, as scheduling and rights are for good: 0 right, CANNOT not tried, else the number of what is wrong. */
static void run(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_return_code(pid, errno);
	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* As by RLIMIT_RTPRIO alone: real-time may be had, but sched(7) has more rules for the way back. */
static int without_privilege(void)
{
	struct priority saved;
	const char *how;

	if (priority_raise(0, &saved, &how))
		return 1;
	if (strcmp(how, "fifo") || setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED))
		return CANNOT;
	if (policy_now() != SCHED_FIFO)
		return 2;
	priority_restore(&saved);
	return policy_now() == SCHED_OTHER ? 0 : 3;
}

static int from_realtime(void)
{
	struct sched_param param = {.sched_priority = 20};
	struct priority saved;
	const char *how;

	if (sched_setscheduler(0, SCHED_RR, &param))
		return CANNOT;
	if (priority_raise(0, &saved, &how))
		return 1;
	if (policy_now() != SCHED_RR || level_now() != 20)
		return 2;
	priority_restore(&saved);
	if (policy_now() != SCHED_RR || level_now() != 20)
		return 3;
	if (priority_raise(5, &saved, &how) || policy_now() != SCHED_FIFO || level_now() != 5)
		return 4;
	priority_restore(&saved);
	return policy_now() == SCHED_RR && level_now() == 20 ? 0 : 5;
}

static void realtime_is_given_back_without_privilege(void **state)
{
	(void)state;
	run(without_privilege);
}

static void realtime_of_the_user_is_not_lowered(void **state)
{
	(void)state;
	run(from_realtime);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(realtime_is_given_back_without_privilege),
		cmocka_unit_test(realtime_of_the_user_is_not_lowered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
