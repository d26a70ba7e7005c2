/* SPDX-License-Identifier: MIT */
/* command: the table behind `millrace COMMAND`, one file of this folder each. */
#pragma once

#include "cmd/option.h"

extern const struct command command_record;
extern const struct command command_report;
extern const struct command command_script;

extern const struct command *const commands[]; /* ends with NULL */
