/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/terminal.h"
#include "config.h"
#include "version.h"

/* `millrace help [COMMAND]` */
static int help(const char *name)
{
	const struct command *command;

	if (!name) {
		command_print_help(stdout);
		return 0;
	}
	command = command_find(name);
	if (!command)
		return command_unknown(name);
	option_print_help(command, stdout);
	return 0;
}

/*
 * `millrace --complete [COMMAND [OPTION | --accepted]]`: for the shell completion and the tests that hold the man pages
 * and docs/perf-options.md to the tables.
 */
static int complete(const char *name, const char *which)
{
	const struct command *command = name ? command_find(name) : NULL;

	if (command && which && strcmp(which, "--accepted") == 0)
		option_print_accepted(command, stdout);
	else if (command && which)
		option_print_values(command, which, stdout);
	else if (command)
		option_print_words(command, stdout);
	else if (!name)
		command_print_words(stdout);
	return name && !command;
}

static int dispatch(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct command *command;

	if (!word) {
		command_print_help(stderr);
		return COMMAND_USAGE;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
		return help(argc > 2 ? argv[2] : NULL);
	if (strcmp(word, "--version") == 0) {
		printf("millrace version %s\ncommit %s\nfeatures %s\n", MILLRACE_VERSION, MILLRACE_COMMIT,
		       MILLRACE_FEATURES);
		return 0;
	}
	if (strcmp(word, "--complete") == 0)
		return complete(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
	command = command_find(word);
	return command ? command->run(argc - 1, argv + 1) : command_unknown(word);
}

static void take_no_notice(int signal_number)
{
	(void)signal_number;
}

/*
 * A file that may not grow (setrlimit(2), RLIMIT_FSIZE) is an error of the output, EFBIG, not our death. By a handler:
 * what is ignored would be so in the programs that we start, too.
 */
static void survive_file_limit(void)
{
	const struct sigaction action = {.sa_handler = take_no_notice, .sa_flags = SA_RESTART};
	struct sigaction old;

	if (sigaction(SIGXFSZ, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &action, NULL);
}

/*
 * Where standard input, output or error is closed, the next file that is opened would get its number, and our messages
 * in it. What has the number instead cannot be read or written, and is closed in the programs that we start.
 */
static void keep_standard_numbers(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/", O_PATH | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	keep_standard_numbers();
	survive_file_limit();
	int status = dispatch(argc, argv);

	if (standard_output_flush())
		status = status ? status : 1;
	if (!status && argc > 1)
		status = command_check_shortage(argv[1]);
	int pager_status = pager_close();
	return status ? status : pager_status;
}
