/* SPDX-License-Identifier: MIT */
/*
 * perfmap: reads "START SIZE NAME" lines (hexadecimal), which run-time compilers leave in /tmp/perf-PID.map.
 * Source: tools/perf/Documentation/jit-interface.txt of the kernel (the facts).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct perfmap_line {
	uint64_t start, size;
	const char *name; /* not terminated */
	size_t name_len;
};

/* Takes the next line that is one out of *rest. false: the end. Lines that are none are passed over. */
bool perfmap_next(struct span *rest, struct perfmap_line *ret);
