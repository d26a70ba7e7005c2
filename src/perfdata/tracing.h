/* SPDX-License-Identifier: MIT */
/* tracing: names of tracepoints from a TRACING_DATA blob; their formats are not parsed here. Pure. */
#pragma once

#include <stdint.h>

#include "base/span.h"

/*
 * The name of the tracepoint with that id (attr.config), such as "sched:sched_switch"; heap, the caller frees it. NULL:
 * the blob has no such tracepoint, is damaged before it, or out of memory.
 */
char *tracing_name(struct span blob, uint64_t id);
