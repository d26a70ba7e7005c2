/* SPDX-License-Identifier: MIT */
#include "analyze/machine/ip_walk.h"

#include <linux/perf_event.h>

#include "perfdata/callchain.h"
#include "perfdata/sample.h"
#include "read/session.h"

/* From here up an entry of a chain is a marker, no address. Source: <linux/perf_event.h> PERF_CONTEXT_MAX. */
static const uint64_t first_marker = PERF_CONTEXT_MAX;

/* The mode that a marker announces; -1: a marker without a use here. */
static int marker_cpumode(uint64_t marker)
{
	switch (marker) {
	case PERF_CONTEXT_HV: return PERF_RECORD_MISC_HYPERVISOR;
	case PERF_CONTEXT_KERNEL: return PERF_RECORD_MISC_KERNEL;
	case PERF_CONTEXT_USER: return PERF_RECORD_MISC_USER;
	default: return -1;
	}
}

struct ip_walk ip_walk_over(const struct session_record *record)
{
	return (struct ip_walk){.sample = &record->sample,
				.left = callchain_max_frames(&record->event->attr),
				.cpumode = PERF_RECORD_MISC_USER};
}

bool ip_walk_next(struct ip_walk *walk, uint64_t *ret)
{
	walk->innermost = walk->leaf = false;
	while (walk->left && walk->next < walk->sample->nr_ips) {
		*ret = walk->sample->ips[walk->next++];
		if (*ret < first_marker) {
			walk->left--;
			return true;
		}
		int mode = marker_cpumode(*ret);
		walk->untrusted = mode < 0;
		if (walk->untrusted)
			return false;
		walk->cpumode = (uint8_t)mode;
		walk->innermost = true;
		walk->leaf = mode == PERF_RECORD_MISC_USER;
	}
	return false;
}
