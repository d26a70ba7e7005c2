/* SPDX-License-Identifier: MIT */
/*
 * command: the table of commands, and how a command gets its options: from the command line, then from the
 * configuration file. Main thread.
 */
#pragma once

#include <stdio.h>

#include "cmd/cli/option.h"

struct configuration_choice;

/* Exit status of a wrong command line, and of a reader that lacked memory or open files, as perf's. */
enum { COMMAND_USAGE = 129, COMMAND_SHORTAGE = 255 };

extern const struct command command_agent;
extern const struct command command_diff;
extern const struct command command_doctor;
extern const struct command command_export;
extern const struct command command_list;
extern const struct command command_merge;
extern const struct command command_flame;
extern const struct command command_query;
extern const struct command command_record;
extern const struct command command_recover;
extern const struct command command_report;
extern const struct command command_script;
extern const struct command command_selftest;
extern const struct command command_top;
extern const struct command command_unwind;

extern const struct command *const commands[]; /* ends with NULL */

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/*
 * Prints that there is no such command, or no such option in front of a command, and the nearest name. Returns
 * COMMAND_USAGE.
 */
int command_unknown(const char *name);

/*
 * To be called after a command that has succeeded. Returns its exit status: COMMAND_SHORTAGE, with a message, when
 * there was a shortage() in a command that reads; else 0. Always 0 for `record`, which counts what its recording lacks,
 * and for `agent`, which continues.
 */
int command_check_shortage(const char *name);

void command_print_help(FILE *to); /* the list of commands */

/* The words that may follow "millrace", as option_print_words() prints those of a command. */
void command_print_words(FILE *to);

/*
 * Defaults for options stand in a file, millrace-config(5): "[record]", then "aio = 4" for --aio=4. It is
 * $MILLRACE_CONFIG, else $XDG_CONFIG_HOME/millrace/config, else ~/.config/millrace/config. Its keys are the long names
 * of the option table.
 *
 * A command line completed by that file. Owns texts that the command's values point to.
 */
struct configuration {
	struct option_given given;            /* on the command line; given.first: index of the first argument left */
	struct configuration_choice *choices; /* one for each option of the table */
	char *path;                           /* heap; of that file; NULL: there is none */
};

void configuration_fini(struct configuration *config);

#define AUTO_CONFIGURATION __attribute__((cleanup(configuration_fini)))

/*
 * Calls option_parse(), then sets the options that are in the configuration file and not on the command line. So the
 * command line replaces a default also for options that may be repeated, such as --event. After an error in the file,
 * which is printed with file and line, it returns OPTION_BAD; options that this version does not have are ignored with
 * a note. `values` stay valid until configuration_fini(), which may follow any result.
 */
enum option_result configuration_parse(const struct command *command, int argc, char **argv, void *values,
				       struct configuration *ret);

/*
 * Where the value of an option comes from, for errors that are found later: "FILE:LINE: record.threads". Heap. NULL:
 * not from the file, or out of memory.
 */
char *configuration_place(const struct configuration *config, const struct command *command, const char *name);
