/* SPDX-License-Identifier: MIT */
/*
 * user_chain: whether the kernel is asked for the call chain of the program, beside its stack, where that is unwound.
 * Its callers go on where the copy of the stack ends. The kernel follows frame pointers: in code that keeps none it
 * runs into a page fault for most samples, 0.6 us each, and finds nothing.
 */
#pragma once

#include <stdbool.h>

struct target;

/*
 * Whether a command alone is recorded, code of this machine (its libc) keeps frame pointers, or a program that is
 * recorded and runs now, or the command beside it, does; also where that is not known. workload: argv, or NULL. Main
 * thread; takes some ms, with all CPUs up to 100.
 */
bool user_chain_is_of_use(const struct target *target, char *const workload[]);
