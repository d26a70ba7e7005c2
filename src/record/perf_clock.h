/* SPDX-License-Identifier: MIT */
/* perf_clock: what the clock of the samples shows now. Any thread. */
#pragma once

#include <stdint.h>

struct perf_event_attr;

/*
 * The clock of records of events like `attr`. There is no call that tells it, and the control page of a ring not on every
 * machine: the kernel is made to write a record of this thread, whose time is it. So do not call it while events are
 * enabled: they would see that, too. 0: not known.
 */
uint64_t perf_clock_now(const struct perf_event_attr *attr);
