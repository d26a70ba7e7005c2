/* SPDX-License-Identifier: MIT */
/* tracing: what a TRACING_DATA blob says of tracepoints, without the parsing of their formats. Pure. */
#pragma once

#include <stdint.h>

#include "base/span.h"

/*
 * "sched:sched_switch" of an attr.config; heap. NULL: the blob has no such tracepoint, is damaged before it, or no
 * memory.
 */
char *tracing_name(struct span blob, uint64_t id);
