/* SPDX-License-Identifier: MIT */
/* cmd/view/screen on a terminal of its own. */
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/diag.h"
#include "cmd/view/screen.h"

enum { WRONG_KEYS = 1, NO_SCREEN };

/* The status of the process. */
static int give_up_behind(int terminal, const char keys[3])
{
	const struct screen_wait wait = {.ctx = NULL};
	struct diag diag;
	int there = 0;

	setenv("TERM", "xterm", 1);
	if (screen_open(true, &wait, &diag))
		return NO_SCREEN;
	bool before = screen_gives_up();
	(void)!write(terminal, keys, 3);
	while (ioctl(STDIN_FILENO, FIONREAD, &there) == 0 && there < 3)
		usleep(1000);
	bool given_up = screen_gives_up();
	int first = screen_key(0), second = screen_key(0);
	screen_close();
	return !before && given_up && first == keys[0] && second == keys[1] ? 0 : WRONG_KEYS;
}

/* Ctrl-C ends what takes long also behind other keys, which are kept. */
static void test_gives_up_behind_other_keys(void **state)
{
	int master, slave, status;

	(void)state;
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	pid_t child = fork();
	if (!child) {
		alarm(60);
		dup2(slave, STDIN_FILENO);
		dup2(slave, STDOUT_FILENO);
		_exit(give_up_behind(master, "xy\003"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	close(master);
	close(slave);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gives_up_behind_other_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
