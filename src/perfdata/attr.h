/* SPDX-License-Identifier: MIT */
/* attr: a perf_event_attr as bytes and as text, and an event as a perf.data file describes it. */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;

/*
 * One event of a file: its attr, its label, its ids. The owner of the array calls event_desc_fini(), which frees name
 * and ids.
 */
struct event_desc {
	struct perf_event_attr attr;
	char *name;    /* heap; what perf calls the event, e.g. "cpu-clock:u" */
	uint64_t *ids; /* heap; PERF_EVENT_IOC_ID of each fd, CPU-major */
	size_t nr_ids;
};

void event_desc_fini(struct event_desc *desc);

/* Appends attr, cut or padded to LAYOUT_ATTR_BYTES, with attr.size set accordingly. */
void attr_encode(const struct perf_event_attr *attr, struct buf *out);

/*
 * Reads an attr of any size: fields that are newer than our struct are dropped, fields that it lacks are 0. `bytes`
 * starts at the attr and may extend behind it. *ret_size: the size of the attr in `bytes` (its own attr.size; 64 when
 * that is 0). 0, or -EBADMSG when it does not fit into `bytes`.
 */
int attr_decode(struct span bytes, struct perf_event_attr *ret, size_t *ret_size);

/*
 * What an event is called when its file does not say: "cpu-clock:u", "L1-dcache-load-misses", "raw 0x1c2". Heap, the
 * caller frees; NULL: out of memory. A tracepoint is only known by its number here: "tracepoint 316".
 */
char *attr_name(const struct perf_event_attr *attr);

/*
 * Appends "type: 1, size: 128, config: 0x3, …": the fields that are not zero, in the order and spelling of `perf evlist
 * -v`. `is` stands between name and value (": " there, " = " in the header of a report).
 */
void attr_text(const struct perf_event_attr *attr, const char *is, struct buf *out);
