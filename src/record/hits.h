/* SPDX-License-Identifier: MIT */
/*
 * hits: one pass over the finished records of a file: which objects were sampled, and when the first and last
 * sample were. Their build-ids go into the BUILD_ID feature, the times into SAMPLE_TIME.
 */
#pragma once

#include <stdint.h>

#include "format/event_desc.h"

struct buf;

struct hits {
	uint64_t first_ns, last_ns; /* 0: no sample had a time */
	uint64_t nr_samples;
	struct buf *build_ids; /* caller's: payload of the BUILD_ID feature is appended here */
};

/* The records lie in `fd` from `offset` for `bytes`. 0, -errno, -EBADMSG. */
int hits_scan(int fd, uint64_t offset, uint64_t bytes, const struct event_desc *events, size_t nr_events,
	      struct hits *ret);
