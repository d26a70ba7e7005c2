/* SPDX-License-Identifier: MIT */
#include "cmd/cli/command.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

const struct command *const commands[] = {
	&command_record,  &command_report,   &command_top,    &command_script,
	&command_diff,    &command_flame,    &command_list,   &command_merge,
	&command_export,  &command_query,    &command_agent,  &command_unwind,
	&command_recover, &command_selftest, &command_doctor, NULL,
};

const struct command *command_find(const char *name)
{
	for (const struct command *const *command = commands; *command; command++)
		if (strcmp((*command)->name, name) == 0)
			return *command;
	return NULL;
}

static const char *nearest_command(const char *name)
{
	const char *nearest = NULL;
	unsigned best = UINT_MAX;

	for (const struct command *const *command = commands; *command; command++) {
		unsigned distance = edit_distance(name, (*command)->name);

		if (edit_distance_is_close(name, (*command)->name) && distance < best) {
			best = distance;
			nearest = (*command)->name;
		}
	}
	return nearest;
}

int command_unknown(const char *name)
{
	const char *what = name[0] == '-' ? "option" : "command";
	const char *nearest = nearest_command(name);

	if (nearest)
		log_error("unknown %s %s; did you mean %s?", what, name, nearest);
	else
		log_error("unknown %s %s; 'millrace --help' lists what there is", what, name);
	return COMMAND_USAGE;
}

void command_print_help(FILE *to)
{
	fprintf(to, "Usage: millrace COMMAND [OPTIONS] [ARGS]\n"
		    "       millrace --help | --version\n\n"
		    "Records Linux perf events into perf.data files and reads such files back.\n\n"
		    "Commands:\n");
	for (const struct command *const *command = commands; *command; command++)
		fprintf(to, "  %-10s %s\n", (*command)->name, (*command)->summary);
	fprintf(to, "\n'millrace COMMAND --help' describes a command.\n");
}

void command_print_words(FILE *to)
{
	for (const struct command *const *command = commands; *command; command++)
		fprintf(to, "%s\t\n", (*command)->name);
	fprintf(to, "help\tCOMMAND\n-h\t\n--help\t\n--version\t\n");
}
