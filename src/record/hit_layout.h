/* SPDX-License-Identifier: MIT */
/* hit_layout: where the few fields that hits looks at are in an event's records. Private to hits; pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_attr;

/* Bytes from the start of a SAMPLE; 0: not there. */
struct hit_layout {
	size_t ip, tid, time;
	size_t tail;          /* READ, then CALLCHAIN */
	size_t trailer_bytes; /* of the other records */
	size_t trailer_time;  /* the time's distance from their end; 0: they have none */
	uint64_t read_format;
	bool has_read; /* in front of the call chain */
	bool has_chain, has_stack;
};

struct hit_layout hit_layout_make(const struct perf_event_attr *attr);

/* Whether records of both can be read alike. Never with user stacks, which are decoded by their attr. */
bool hit_layout_equal(const struct hit_layout *a, const struct hit_layout *b);

/*
 * The call chain of a sample of `size` readable bytes: returns the number of addresses, which start at
 * *ret_offset, or -EBADMSG.
 */
int64_t hit_layout_chain(const struct hit_layout *layout, const uint8_t *sample, size_t size,
			 size_t *ret_offset);
