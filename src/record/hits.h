/* SPDX-License-Identifier: MIT */
/*
 * hits: one pass over the finished records of a file: which objects were sampled, and when the first and last
 * sample were. Their build-ids go into the BUILD_ID feature, the times into SAMPLE_TIME.
 *
 * An object counts as hit when the address of a sample lay in a map of it, or an address of its call chain
 * (perf 6.1 looks at the sample alone, and so leaves out callers that were never sampled themselves). With
 * user stacks, from which the chain is unwound later, each word of the stack is such an address. The [vdso]
 * counts when it is mapped at all, as in perf.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "format/event_desc.h"

struct buf;

struct hits {
	uint64_t first_ns, last_ns; /* 0: no sample had a time */
	uint64_t nr_samples;
	struct buf *build_ids; /* caller's: payload of the BUILD_ID feature is appended here */
};

/* Where records lie in a file. */
struct hits_region {
	int fd;
	uint64_t offset, bytes;
};

/*
 * The records of all regions together. Files may change meanwhile: what is read is checked. 0; -errno; -EBADMSG: records
 * are cut or broken, *ret then tells of those that are whole.
 */
int hits_scan(const struct hits_region regions[], size_t nr_regions, const struct event_desc *events, size_t nr_events,
	      struct hits *ret);
