/* SPDX-License-Identifier: MIT */
/*
 * shortage: remembers that this process had not enough memory, or could not open one more file.
 *
 * A reader that lacks memory for a symbol, or may not open the object that has it, goes on without it, and then what it
 * prints may be less than there is, or be counted for another function. So all outputs end with this question. Any
 * thread.
 */
#pragma once

/*
 * 0, or what was noted first in this process or in the one that it was forked from: -ENOMEM (an allocation failed;
 * never in the unit tests, which have no sysinfo/allocation.c), -EMFILE or -ENFILE (an object's file was not opened).
 */
int shortage(void);
void shortage_note(int err);
void shortage_forget(void); /* in a forked process, for outputs of its own */
