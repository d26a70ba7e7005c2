/* SPDX-License-Identifier: MIT */
#include "record/hit_layout.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "format/sample.h"

/* perf_event_open(2), "PERF_RECORD_SAMPLE": each of these fields is 8 bytes, in this order. */
struct hit_layout hit_layout_make(const struct perf_event_attr *attr)
{
	static const uint64_t order[] = {
		PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,   PERF_SAMPLE_TID,
		PERF_SAMPLE_TIME,       PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
		PERF_SAMPLE_STREAM_ID,  PERF_SAMPLE_CPU,  PERF_SAMPLE_PERIOD,
	};
	struct hit_layout layout = {
		.trailer_bytes = sample_id_bytes(attr),
		.has_read = attr->sample_type & PERF_SAMPLE_READ,
		.has_chain = attr->sample_type & PERF_SAMPLE_CALLCHAIN,
		.has_stack = attr->sample_type & PERF_SAMPLE_STACK_USER,
	};
	size_t at = sizeof(struct perf_event_header);
	int distance = sample_time_distance(attr);

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!(attr->sample_type & order[i]))
			continue;
		layout.ip = order[i] == PERF_SAMPLE_IP ? at : layout.ip;
		layout.tid = order[i] == PERF_SAMPLE_TID ? at : layout.tid;
		layout.time = order[i] == PERF_SAMPLE_TIME ? at : layout.time;
		at += sizeof(uint64_t);
	}
	if (layout.has_chain)
		layout.tail = at;
	if (layout.has_chain && layout.has_read)
		layout.read_format = attr->read_format;
	else
		layout.has_read = false;
	if (distance > 0)
		layout.trailer_time = (size_t)distance;
	return layout;
}

bool hit_layout_equal(const struct hit_layout *a, const struct hit_layout *b)
{
	return a->ip == b->ip && a->tid == b->tid && a->time == b->time && a->tail == b->tail &&
	       a->trailer_bytes == b->trailer_bytes && a->trailer_time == b->trailer_time &&
	       a->read_format == b->read_format && a->has_read == b->has_read &&
	       a->has_chain == b->has_chain && !a->has_stack && !b->has_stack;
}

static uint64_t u64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* perf_event_open(2), "read_format": the bytes of a READ field, 0 when it runs past the end. */
static size_t read_bytes(uint64_t format, const uint8_t *at, size_t left)
{
	size_t times =
		!!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) + !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	size_t each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST);
	uint64_t nr = 1, head = times;

	if (format & PERF_FORMAT_GROUP) {
		if (left < sizeof(nr))
			return 0;
		nr = u64_at(at);
		head++;
	}
	if (nr > left / (each * sizeof(uint64_t)))
		return 0;
	size_t bytes = (head + nr * each) * sizeof(uint64_t);
	return bytes <= left ? bytes : 0;
}

int64_t hit_layout_chain(const struct hit_layout *layout, const uint8_t *sample, size_t size,
			 size_t *ret_offset)
{
	size_t at = layout->tail;

	if (layout->has_read) {
		size_t bytes = at <= size ? read_bytes(layout->read_format, sample + at, size - at) : 0;
		if (bytes == 0)
			return -EBADMSG;
		at += bytes;
	}
	if (at + sizeof(uint64_t) > size)
		return -EBADMSG;
	uint64_t nr = u64_at(sample + at);
	if (nr > (size - at) / sizeof(uint64_t) - 1)
		return -EBADMSG;
	*ret_offset = at + sizeof(uint64_t);
	return (int64_t)nr;
}
