/* SPDX-License-Identifier: MIT */
/* A process that has entered the sandbox tries what it may not do any more, and what it still must be able to do. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/input/sandbox.h"

struct dirs {
	char open[64], closed[64];
};

static int make(void **state)
{
	static struct dirs dirs;

	dirs = (struct dirs){"/tmp/sandbox-open-XXXXXX", "/tmp/sandbox-closed-XXXXXX"};
	*state = &dirs;
	return mkdtemp(dirs.open) && mkdtemp(dirs.closed) ? 0 : -1;
}

static int clean(void **state)
{
	const struct dirs *dirs = *state;
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s %s", dirs->open, dirs->closed);
	return system(command);
}

static int create(const char *dir, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* landlock(7): its absence is told with -v, and nothing else can be done about it. */
static bool has_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
}

/* In a process of its own, for there is no way back; its exit status is the number of the first line that is wrong. */
static void in_child(int (*tries)(const struct dirs *dirs), void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(tries(*state) & 0x7f);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define EXPECT(is)                                                                                                     \
	do {                                                                                                           \
		if (!(is)) {                                                                                           \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #is, strerror(errno));                          \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

static int try_calls(const struct dirs *dirs)
{
	char *const args[] = {(char *)"true", NULL};

	(void)dirs;
	sandbox_enter(NULL, 0);
	EXPECT(execv("/bin/true", args) < 0 && (errno == EPERM || errno == EACCES));
	EXPECT(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_bpf, 0, NULL, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM);
	EXPECT(chmod("/tmp", 01777) < 0 && errno == EPERM);
	EXPECT(open("/bin/true", O_RDONLY) >= 0);
	return 0;
}

static int try_network(const struct dirs *dirs)
{
	(void)dirs;
	sandbox_enter(NULL, SANDBOX_DOWNLOADS);
	EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
	return 0;
}

static int try_files_without_output(const struct dirs *dirs)
{
	EXPECT(create(dirs->closed, "before") == 0);
	sandbox_enter(NULL, 0);
	EXPECT(create(dirs->closed, "after") == -EACCES);
	EXPECT(chdir(dirs->closed) == 0);
	EXPECT(open("before", O_WRONLY) < 0 && errno == EACCES);
	EXPECT(open("before", O_RDONLY) >= 0);
	EXPECT(unlink("before") < 0 && errno == EACCES);
	EXPECT(mkdir("directory", 0700) < 0 && errno == EACCES);
	EXPECT(symlink("before", "link") < 0 && errno == EACCES);
	EXPECT(open("/dev/null", O_WRONLY) >= 0);
	return 0;
}

static int try_files_with_output(const struct dirs *dirs)
{
	char output[128], renamed[128];

	snprintf(output, sizeof(output), "%s/out", dirs->open);
	snprintf(renamed, sizeof(renamed), "%s/renamed", dirs->open);
	sandbox_enter(output, 0);
	EXPECT(create(dirs->open, "out") == 0);
	EXPECT(rename(output, renamed) == 0);
	EXPECT(create(dirs->closed, "after") == -EACCES);
	EXPECT(unlink(renamed) == 0);
	return 0;
}

static int try_output_behind_link(const struct dirs *dirs)
{
	char link[128], target[128];

	snprintf(link, sizeof(link), "%s/link", dirs->open);
	snprintf(target, sizeof(target), "%s/target", dirs->closed);
	EXPECT(create(dirs->closed, "target") == 0);
	EXPECT(symlink(target, link) == 0);
	sandbox_enter(link, 0);
	EXPECT(open(target, O_WRONLY) >= 0);
	EXPECT(create("/tmp", "sandbox-elsewhere") == -EACCES);
	return 0;
}

static void test_calls(void **state)
{
	in_child(try_calls, state);
	in_child(try_network, state);
}

static void test_files(void **state)
{
	if (!has_landlock())
		skip();
	in_child(try_files_without_output, state);
	in_child(try_files_with_output, state);
	in_child(try_output_behind_link, state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_calls, make, clean),
		cmocka_unit_test_setup_teardown(test_files, make, clean),
	};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
