/* SPDX-License-Identifier: MIT */
#include "tasks/raw_sample.h"

#include <linux/perf_event.h>
#include <string.h>

#include "perfdata/sample.h"

static const uint64_t up_to_ip = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP;
static const uint64_t up_to_stream =
	up_to_ip | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID;

/* Of a field of one word, which stands behind `before`. 0: samples do not have it. */
static uint16_t word_offset(const struct perf_event_attr *attr, uint64_t bit, uint64_t before)
{
	return attr->sample_type & bit
		       ? (uint16_t)(sizeof(struct perf_event_header) +
				    sizeof(uint64_t) * (unsigned)__builtin_popcountll(attr->sample_type & before))
		       : 0;
}

struct raw_sample_shape raw_sample_shape(const struct perf_event_attr *attr)
{
	const struct sample_shape shape = sample_shape(attr);

	return (struct raw_sample_shape){
		.attr = attr,
		.words_bytes = shape.words_bytes,
		.tid = word_offset(attr, PERF_SAMPLE_TID, up_to_ip),
		.time = word_offset(attr, PERF_SAMPLE_TIME, up_to_ip | PERF_SAMPLE_TID),
		.cpu = word_offset(attr, PERF_SAMPLE_CPU, up_to_stream),
		.period = word_offset(attr, PERF_SAMPLE_PERIOD, up_to_stream | PERF_SAMPLE_CPU),
		.read = attr->sample_type & PERF_SAMPLE_READ,
		.chain = shape.chain,
		.raw = shape.raw,
		.more = shape.more,
	};
}

static bool decode_all(const struct raw_sample_shape *shape, const struct perf_event_header *record,
		       struct raw_sample *ret)
{
	struct sample sample;

	if (sample_decode(shape->attr, record, &sample))
		return false;
	*ret = (struct raw_sample){.time = sample.time,
				   .pid = sample.pid,
				   .tid = sample.tid,
				   .cpu = sample.cpu,
				   .ips = {sample.ips, sample.nr_ips * sizeof(*sample.ips)},
				   .raw = sample.raw,
				   .user_stack = sample.user_stack};
	return true;
}

/* The call chain and the payload, behind the words. false: the record breaks off. */
static inline __attribute__((always_inline)) bool find(const struct raw_sample_shape *shape,
						       const struct perf_event_header *record, struct span *ret_ips,
						       struct span *ret_raw)
{
	const uint8_t *at = (const uint8_t *)record + shape->words_bytes;
	size_t left = record->size;
	uint64_t nr_ips;
	uint32_t raw_bytes;

	if (left < shape->words_bytes)
		return false;
	left -= shape->words_bytes;
	*ret_ips = *ret_raw = (struct span){0};
	if (shape->chain) {
		if (left < sizeof(nr_ips))
			return false;
		memcpy(&nr_ips, at, sizeof(nr_ips));
		left -= sizeof(nr_ips);
		if (nr_ips > left / sizeof(nr_ips))
			return false;
		*ret_ips = (struct span){at + sizeof(nr_ips), nr_ips * sizeof(nr_ips)};
		at += sizeof(nr_ips) + ret_ips->len;
		left -= ret_ips->len;
	}
	if (shape->raw) {
		if (left < sizeof(raw_bytes))
			return false;
		memcpy(&raw_bytes, at, sizeof(raw_bytes));
		if (raw_bytes > left - sizeof(raw_bytes) || (sizeof(raw_bytes) + raw_bytes) % sizeof(uint64_t))
			return false;
		*ret_raw = (struct span){at + sizeof(raw_bytes), raw_bytes};
	}
	return true;
}

bool raw_sample_decode(const struct raw_sample_shape *shape, const struct perf_event_header *record,
		       struct raw_sample *ret)
{
	const uint8_t *bytes = (const uint8_t *)record;
	uint32_t ids[2] = {UINT32_MAX, UINT32_MAX};

	if (shape->more)
		return decode_all(shape, record, ret);
	if (!find(shape, record, &ret->ips, &ret->raw))
		return false;
	ret->time = 0;
	ret->cpu = UINT32_MAX;
	if (shape->tid)
		memcpy(ids, bytes + shape->tid, sizeof(ids));
	if (shape->time)
		memcpy(&ret->time, bytes + shape->time, sizeof(ret->time));
	if (shape->cpu)
		memcpy(&ret->cpu, bytes + shape->cpu, sizeof(ret->cpu));
	ret->pid = ids[0];
	ret->tid = ids[1];
	ret->user_stack = (struct span){0};
	return true;
}

struct span raw_sample_payload(const struct raw_sample_shape *shape, const struct perf_event_header *record)
{
	struct span ips, raw;

	return shape->raw && !shape->read && find(shape, record, &ips, &raw) ? raw : (struct span){0};
}
