/* SPDX-License-Identifier: MIT */
/*
 * raw_sample: what samples with a payload (PERF_SAMPLE_RAW), as those of tracepoints, tell of a task. As
 * sample_decode(), faster: where the fields of one word are is computed once for all samples of an event. Pure; nothing
 * is copied.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct perf_event_attr;
struct perf_event_header;

struct raw_sample_shape {
	const struct perf_event_attr *attr; /* borrowed */
	uint32_t words_bytes;               /* as of struct sample_shape */
	uint16_t tid, time, cpu, period;    /* offsets in the record; 0: samples do not have it */
	bool read, chain, raw;              /* likewise; they come in this order behind the words */
	bool more;                          /* fields of other lengths than a word behind `raw` */
};
struct raw_sample_shape raw_sample_shape(const struct perf_event_attr *attr);

struct raw_sample {
	uint64_t time;          /* 0: not there */
	uint32_t pid, tid, cpu; /* ~0: not there */
	struct span ips;        /* u64 each */
	struct span raw;
	struct span user_stack; /* the bytes in use; NULL: none */
};

/* false: sample_decode() fails. `record` as there. */
bool raw_sample_decode(const struct raw_sample_shape *shape, const struct perf_event_header *record,
		       struct raw_sample *ret);

/* The payload. NULL: there is none, or the record breaks off before its end; or samples have PERF_SAMPLE_READ. */
struct span raw_sample_payload(const struct raw_sample_shape *shape, const struct perf_event_header *record);
