/* SPDX-License-Identifier: MIT */
/* report_stats: how many records of each type a recording has; laid out as by perf report --stats. */
#pragma once

#include <stdio.h>

struct diag;
struct session;

/* Reads the session, opened with SESSION_FILE_ORDER, to its end and prints. 0, or the error that ended the
 * reading. */
int stats_print(FILE *to, struct session *session, struct diag *reterr);
