/* SPDX-License-Identifier: MIT */
/*
 * perf_clock: the present time on the clock of the kernel's records. There is no call that tells it, and the control
 * page of a ring has it not on every machine: the kernel is made to write a record of the calling thread, whose time is
 * it. Events that are enabled count what the thread does for that, too.
 */
#pragma once

#include <stdint.h>

struct perf_clock;

/*
 * Keeps as much locked memory as a reading takes, and no descriptor. To be called before rings take all that is
 * allowed. NULL: out of memory.
 */
struct perf_clock *perf_clock_new(void);
void perf_clock_free(struct perf_clock *clock); /* NULL is fine */

/* `clock` NULL: without memory of its own. 0: not known. One thread at a time. */
uint64_t perf_clock_now(struct perf_clock *clock);
