/* SPDX-License-Identifier: MIT */
/* event_name: what an event is called when its file does not say. Pure. */
#pragma once

struct perf_event_attr;

/*
 * "cpu-clock:u", "L1-dcache-load-misses", "raw 0x1c2": heap, the caller frees; NULL: out of memory.
 * A tracepoint is only known by its number here: "tracepoint 316".
 */
char *event_name(const struct perf_event_attr *attr);
