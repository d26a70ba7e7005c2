/* SPDX-License-Identifier: MIT */
/* clock: times as nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

/* `clock` is a CLOCK_* of clock_gettime(2) that cannot fail, such as CLOCK_MONOTONIC. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
