/* SPDX-License-Identifier: MIT */
/* enable_times: when events are on, as -D says: from a moment on, in ranges of time, or only when told. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

enum { ENABLE_TIMES_MAX = 128 };

/* Milliseconds after the start of the recording; zeroed: on from the start. */
struct enable_times {
	bool delayed; /* off at the start */
	size_t nr;
	struct enable_range {
		int64_t on_ms, off_ms; /* off_ms -1: stays on */
	} ranges[ENABLE_TIMES_MAX];
};

/* "100"; "-1": never by itself; "10-20,30-40". -EINVAL with what would be right. */
int enable_times_parse(const char *text, struct enable_times *ret, struct diag *reterr);

/* The first moment after the `done` that were reached already; false: there is none. */
bool enable_times_next(const struct enable_times *times, size_t done, int64_t *ret_ms, bool *ret_on);
