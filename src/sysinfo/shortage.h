/* SPDX-License-Identifier: MIT */
/*
 * shortage: remembers that this process had not enough memory, or could not open one more file.
 *
 * A reader that has no memory for a symbol, or cannot open the object that has it, continues without it. Then its
 * output may be incomplete, or may name another function. So a command calls shortage() when its output is complete.
 * Any thread.
 */
#pragma once

/*
 * 0, or the first error that was noted in this process or, before its fork, in its parent: -ENOMEM (an allocation
 * failed; never in the unit tests, which have no sysinfo/allocation.c), -EMFILE or -ENFILE (the file of an object was
 * not opened).
 */
int shortage(void);
void shortage_note(int err);
void shortage_forget(void); /* called in a forked process that has an output of its own */
