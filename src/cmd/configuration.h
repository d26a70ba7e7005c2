/* SPDX-License-Identifier: MIT */
/*
 * configuration: defaults for a command's options, from a file: "[record]", then "aio = 4" for --aio=4. See
 * millrace-config(5).
 *
 * The file is $MILLRACE_CONFIG, else $XDG_CONFIG_HOME/millrace/config, else ~/.config/millrace/config. The
 * keys are the long names of the option table, so that a new option needs nothing here.
 */
#pragma once

#include "cmd/option.h"

struct configuration_choice;

/* A command line, completed by the configuration. Owns texts that the command's values point to. */
struct configuration {
	struct option_given given; /* on the command line; given.first: index of the first argument left */
	struct configuration_choice *choices; /* one for each option of the table */
};

void configuration_fini(struct configuration *config);

#define AUTO_CONFIGURATION __attribute__((cleanup(configuration_fini)))

/*
 * option_parse(), and then sets what the command line left out and the configuration has. So the command line
 * replaces a default even of options that add up, as --event does. An error in the file is OPTION_BAD, after one
 * line that names file and line; what this version does not know is ignored with a note.
 * `values` stay valid until configuration_fini(), which may follow any result.
 */
enum option_result configuration_parse(const struct command *command, int argc, char **argv, void *values,
				       struct configuration *ret);
