/* SPDX-License-Identifier: MIT */
/* synth_index: the records about the recording itself: ids, units, threads, CPUs, what was lost. */
#include "record/synth/synth.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/fd.h"
#include "perfdata/record.h"

enum {
	/*
	 * perf sizes its ID_INDEX for entries of 32 bytes and the 16 that a guest's entries have in addition,
	 * also when there is no guest; records cut at the same place compare equal.
	 */
	ID_INDEX_MAX = (RECORD_MAX_BYTES - 16) / 48,
	THREAD_MAP_MAX = (RECORD_MAX_BYTES - 16) / 24,
	CPU_MAP_CPUS = 0,
	CPU_MAP_MASK = 1,
	CPU_MAP_RANGE = 2,
	UPDATE_BYTES = 24, /* header, kind, id */
	UPDATE_SLACK = 40, /* perf allocates these, plus the text */
};

static void put_header(struct buf *out, uint32_t type, size_t bytes)
{
	struct perf_event_header header = {.type = type, .size = (uint16_t)bytes};

	buf_put(out, &header, sizeof(header));
}

int synth_id_index(const struct synth_id *ids, size_t nr, struct buf *out)
{
	while (nr > 0) {
		size_t chunk = nr < ID_INDEX_MAX ? nr : ID_INDEX_MAX;

		put_header(out, RECORD_ID_INDEX, 16 + 32 * chunk);
		buf_put_u64(out, chunk);
		for (size_t i = 0; i < chunk; i++) {
			buf_put_u64(out, ids[i].id);
			buf_put_u64(out, ids[i].index);
			buf_put_u64(out, (uint64_t)ids[i].cpu);
			buf_put_u64(out, (uint64_t)ids[i].tid);
		}
		ids += chunk;
		nr -= chunk;
	}
	return buf_status(out);
}

static void put_update(struct buf *out, enum event_update_kind kind, uint64_t id, const void *data, size_t len)
{
	size_t bytes = (UPDATE_SLACK + len + 7) & ~(size_t)7;
	uint8_t *record = bytes <= RECORD_MAX_BYTES ? buf_extend(out, bytes) : NULL;
	struct perf_event_header header = {.type = RECORD_EVENT_UPDATE, .size = (uint16_t)bytes};
	uint64_t fields[2] = {kind, id};

	if (!record)
		return;
	memcpy(record, &header, sizeof(header));
	memcpy(record + sizeof(header), fields, sizeof(fields));
	memcpy(record + UPDATE_BYTES, data, len);
}

/*
 * cpu_map_data of perf 6.1: a range where the CPUs are consecutive, else the shorter of list and mask of
 * 32-bit words. The bytes before it and the data are padded to 8.
 */
static void put_cpu_map_data(struct buf *out, const struct cpuset *cpus)
{
	unsigned nr = cpuset_count(cpus);
	int first = cpuset_next(cpus, 0), last = first;

	for (int cpu = first; cpu >= 0; cpu = cpuset_next(cpus, cpu + 1))
		last = cpu;
	unsigned words = (unsigned)last / 32 + 1;

	if ((unsigned)(last - first) + 1 == nr) {
		buf_put_u16(out, CPU_MAP_RANGE);
		buf_put_u16(out, 0);
		buf_put_u16(out, (uint16_t)first);
		buf_put_u16(out, (uint16_t)last);
	} else if (4 + 2 * nr < 6 + 4 * words) {
		buf_put_u16(out, CPU_MAP_CPUS);
		buf_put_u16(out, (uint16_t)nr);
		for (int cpu = first; cpu >= 0; cpu = cpuset_next(cpus, cpu + 1))
			buf_put_u16(out, (uint16_t)cpu);
	} else {
		buf_put_u16(out, CPU_MAP_MASK);
		buf_put_u16(out, (uint16_t)words);
		buf_put_u16(out, sizeof(uint32_t));
		for (unsigned w = 0; w < words; w++) {
			uint64_t word = w / 2 < cpus->nr_words ? cpus->words[w / 2] : 0;
			buf_put_u32(out, (uint32_t)(word >> (w % 2 * 32)));
		}
	}
}

int synth_cpu_map(const struct cpuset *cpus, struct buf *out)
{
	AUTO_BUF struct buf data = {0};

	if (!cpus || cpuset_count(cpus) == 0) {
		buf_put_u16(&data, CPU_MAP_CPUS);
		buf_put_u16(&data, 1);
		buf_put_u16(&data, UINT16_MAX); /* -1: any CPU */
	} else {
		put_cpu_map_data(&data, cpus);
	}
	buf_align(&data, 8);
	put_header(out, RECORD_CPU_MAP, sizeof(struct perf_event_header) + data.len);
	buf_put(out, data.data, data.len);
	return data.failed ? -ENOMEM : buf_status(out);
}

/* The clocks count nanoseconds; what perf says of them is shown in milliseconds. */
static bool counts_time(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE &&
	       (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

int synth_event_updates(const struct event_desc *events, size_t nr, bool names, struct buf *out)
{
	static const double scale = 1e-6;

	for (size_t i = 0; i < nr; i++) {
		const struct event_desc *event = &events[i];
		uint64_t id = event->nr_ids ? event->ids[0] : 0;

		if (counts_time(&event->attr)) {
			put_update(out, EVENT_UPDATE_UNIT, id, "msec", sizeof("msec"));
			put_update(out, EVENT_UPDATE_SCALE, id, &scale, sizeof(scale));
		}
		if (names && event->name)
			put_update(out, EVENT_UPDATE_NAME, id, event->name, strlen(event->name) + 1);
	}
	return buf_status(out);
}

int synth_thread_map(const struct synth_task *tasks, size_t nr, struct buf *out)
{
	static const struct synth_task all = {.tid = -1};

	if (nr == 0) {
		tasks = &all;
		nr = 1;
	}
	while (nr > 0) {
		size_t chunk = nr < THREAD_MAP_MAX ? nr : THREAD_MAP_MAX;

		put_header(out, RECORD_THREAD_MAP, 16 + 24 * chunk);
		buf_put_u64(out, chunk);
		for (size_t i = 0; i < chunk; i++) {
			buf_put_u64(out, (uint64_t)(int64_t)tasks[i].tid);
			buf_put(out, tasks[i].comm, sizeof(tasks[i].comm));
		}
		tasks += chunk;
		nr -= chunk;
	}
	return buf_status(out);
}

int synth_lost_samples(const struct perf_event_attr *attr, uint64_t id, uint64_t lost, struct buf *out)
{
	uint64_t trailer[6] = {0};
	size_t nr = 0;

	if (attr->sample_id_all) { /* the order of perf_event_open(2), "sample_id_all" */
		nr += (attr->sample_type & PERF_SAMPLE_TID) != 0;
		nr += (attr->sample_type & PERF_SAMPLE_TIME) != 0;
		if (attr->sample_type & PERF_SAMPLE_ID)
			trailer[nr++] = id;
		nr += (attr->sample_type & PERF_SAMPLE_STREAM_ID) != 0;
		nr += (attr->sample_type & PERF_SAMPLE_CPU) != 0;
		if (attr->sample_type & PERF_SAMPLE_IDENTIFIER)
			trailer[nr++] = id;
	}
	put_header(out, PERF_RECORD_LOST_SAMPLES, 16 + nr * sizeof(uint64_t));
	buf_put_u64(out, lost);
	buf_put(out, trailer, nr * sizeof(uint64_t));
	return buf_status(out);
}

int synth_finished_init(struct buf *out)
{
	put_header(out, RECORD_FINISHED_INIT, sizeof(struct perf_event_header));
	return buf_status(out);
}
