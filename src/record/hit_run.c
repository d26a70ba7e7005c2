/* SPDX-License-Identifier: MIT */
#include "record/hit_run.h"

#include <linux/perf_event.h>
#include <string.h>

#include "record/hit_layout.h"
#include "record/hit_pages.h"

struct hit_plain hit_plain_make(const struct hit_layout *layouts, size_t nr)
{
	struct hit_plain plain = {
		.ip = (uint32_t)layouts[0].ip, .tid = (uint32_t)layouts[0].tid, .time = (uint32_t)layouts[0].time};
	uint32_t last = plain.ip;

	last = plain.tid > last ? plain.tid : last;
	last = plain.time > last ? plain.time : last;
	plain.bytes = last + sizeof(uint64_t);
	for (size_t i = 0; i < nr; i++) {
		const struct hit_layout *layout = &layouts[i];
		if (!layout->ip || !layout->tid || !layout->time || layout->has_chain || layout->has_stack ||
		    layout->ip != plain.ip || layout->tid != plain.tid || layout->time != plain.time)
			plain.bytes = UINT32_MAX;
	}
	return plain;
}

static uint64_t u64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int32_t s32_at(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

void hit_run_take(const struct hit_plain *plain, struct hit_pages *pages, struct span records, uint64_t room,
		  struct hit_run *ret)
{
	const struct hit_plain at = *plain;
	const uint8_t *const start = records.ptr, *record = start, *last = start;
	const uint8_t *const end = start + records.len;
	const uint8_t *const stop = room < records.len ? start + room : end;
	struct hit_run run = {.first_ns = UINT64_MAX};
	struct perf_event_header header;

	for (; record < stop && (size_t)(end - record) >= sizeof(header); record += header.size) {
		memcpy(&header, record, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size < at.bytes || header.size > end - record)
			break;
		uint16_t mode = header.misc & PERF_RECORD_MISC_CPUMODE_MASK;
		uint64_t time_ns = u64_at(record + at.time);
		if (!time_ns || (mode != PERF_RECORD_MISC_KERNEL && mode != PERF_RECORD_MISC_USER))
			break;
		int32_t pid = mode == PERF_RECORD_MISC_KERNEL ? HIT_KERNEL_PID : s32_at(record + at.tid);
		if (hit_pages_add(pages, u64_at(record + at.ip), pid, time_ns))
			break;
		run.first_ns = time_ns < run.first_ns ? time_ns : run.first_ns;
		run.last_ns = time_ns > run.last_ns ? time_ns : run.last_ns;
		run.nr++;
		last = record;
	}
	run.bytes = (uint64_t)(record - start);
	run.last = (uint64_t)(last - start);
	*ret = run;
}
