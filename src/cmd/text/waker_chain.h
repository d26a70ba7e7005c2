/* SPDX-License-Identifier: MIT */
/* waker_chain: the call chain of a task that woke another one, as `record --off-cpu-wakers` stores it. One thread. */
#pragma once

#include "analyze/machine/machine.h"

struct off_cpu_wait;
struct session_record;

/*
 * The call chain of the waker in the payload of a sample, as lookup_callchain(). 0: there is none. With a lookup that
 * is read-only the result may not be used where it needs an update.
 */
unsigned waker_chain(struct lookup *lookup, const struct session_record *record, const struct off_cpu_wait *wait,
		     struct location *ret, unsigned max);
