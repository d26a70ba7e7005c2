/* SPDX-License-Identifier: MIT */
/*
 * event_desc: one event as a perf.data file knows it: its attr, its label, its ids.
 * Owned by whoever holds the array; event_desc_fini() frees name and ids.
 */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct event_desc {
	struct perf_event_attr attr;
	char *name;    /* heap; what perf calls the event, e.g. "cpu-clock:u" */
	uint64_t *ids; /* heap; PERF_EVENT_IOC_ID of each fd, CPU-major */
	size_t nr_ids;
};

void event_desc_fini(struct event_desc *desc);
