/* SPDX-License-Identifier: MIT */
/* command: the table behind `millrace COMMAND`, one file of this folder each. */
#pragma once

#include <stdio.h>

#include "cmd/option.h"

enum { COMMAND_USAGE = 129 }; /* exit status of a wrong command line, as perf's */

extern const struct command command_bench;
extern const struct command command_doctor;
extern const struct command command_list;
extern const struct command command_merge;
extern const struct command command_flame;
extern const struct command command_record;
extern const struct command command_recover;
extern const struct command command_report;
extern const struct command command_script;
extern const struct command command_selftest;

extern const struct command *const commands[]; /* ends with NULL */

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* Says that there is no such command (or option before the command) and what may have been meant.
 * COMMAND_USAGE. */
int command_unknown(const char *name);

void command_print_version(FILE *to);
void command_print_help(FILE *to); /* the list of commands */

/* The words that may follow "millrace", as option_print_words() prints those of a command. */
void command_print_words(FILE *to);
