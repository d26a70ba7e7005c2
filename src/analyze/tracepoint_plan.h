/* SPDX-License-Identifier: MIT */
/*
 * tracepoint_plan: the text of a tracepoint's sample, worked out once for the event instead of for each sample.
 *
 * Made from what libtraceevent parsed of the format ("print fmt"): pieces of text, numbers and strings at known places.
 * Formats with anything else (flags, symbols, functions, arithmetic) have no plan: libtraceevent prints those. What a
 * plan prints is, byte for byte, what libtraceevent prints. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

struct buf;
struct tep_event;
struct tracepoint_plan;

/* The event is borrowed for the life of the plan. NULL: it cannot be planned, or there is no memory. */
struct tracepoint_plan *tracepoint_plan_make(struct tep_event *event);
void tracepoint_plan_free(struct tracepoint_plan *plan); /* NULL is fine */

/* Whether it looks at what stands behind the record. */
bool tracepoint_plan_looks_behind(const struct tracepoint_plan *plan);

/*
 * Appends the text. The record holds all fixed fields and what its dynamic ones point to, and, if it is looked at, a NUL
 * stands behind it, at raw.ptr[raw.len].
 */
void tracepoint_plan_print(const struct tracepoint_plan *plan, struct span raw, struct buf *out);
