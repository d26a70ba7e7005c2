/* SPDX-License-Identifier: MIT */
/*
 * header_text: what a report says on top about file, machine and events; spelled as by perf report
 * --header.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct session;

/*
 * Prints the block of "# …" lines. full: also the long parts (-I); else a line says that they are there. Of
 * a pipe the features are printed that were read so far: call it when the first record that is no header
 * was met. A section that is damaged is named and not shown; the others are.
 */
void header_print(FILE *to, struct session *session, bool full);
