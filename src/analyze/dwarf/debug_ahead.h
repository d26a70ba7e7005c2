/* SPDX-License-Identifier: MIT */
/*
 * debug_ahead: a thread that opens the files with the debug information of recorded objects and unpacks the first part
 * of what they have, while the samples are read: of a small recording to unpack that of libc takes as long as the rest.
 * One owner (debug_ahead_free), one thread calls; each file belongs to the thread until it is taken.
 */
#pragma once

#include <stdbool.h>

struct debug_ahead;
struct dwarf;

/*
 * paths: of files that may have debug information, NULL among them is fine; not used after the call. lines: lines of
 * the source will be looked up, too. NULL: none is a file, this process has one CPU, or no memory or thread; then
 * nothing is done ahead.
 */
struct debug_ahead *debug_ahead_start(char *const paths[], unsigned nr, bool lines);
void debug_ahead_free(struct debug_ahead *ahead); /* stops the thread; NULL is fine */

/*
 * The debug information of that open file, as far as it is unpacked; the caller owns it from now on: dwarf_free().
 * NULL: the file was not opened ahead, or was taken before. fd stays the caller's.
 */
struct dwarf *debug_ahead_take(struct debug_ahead *ahead, int fd);
