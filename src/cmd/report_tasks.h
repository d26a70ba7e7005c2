/* SPDX-License-Identifier: MIT */
/* report_tasks: the tasks of a recording as a tree, laid out as by perf report --tasks and --mmaps. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct machine;

/* After the machine has processed all records. maps: each task's, too. 0 or -ENOMEM. */
int report_tasks_print(FILE *to, const struct machine *machine, bool maps);
