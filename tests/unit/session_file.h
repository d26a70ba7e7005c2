/* SPDX-License-Identifier: MIT */
/* session_file: small recordings made by code, for tests and as seeds of the fuzzer. */
#pragma once

#include <string.h>

#include "base/buf.h"
#include "perfdata/attr.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "perfdata/record.h"

enum { FILE_PID = 42, FILE_ID_CLOCK = 100, FILE_ID_SWITCH = 101 };

#define FILE_SAMPLE_TYPE                                                                                               \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | \
	 PERF_SAMPLE_CALLCHAIN)

/* Two events, told apart by their ids; the second one samples RAW too. */
struct file_events {
	uint64_t ids[2];
	struct event_desc events[2];
	char names[2][24];
};

static inline void file_events_init(struct file_events *file)
{
	*file = (struct file_events){
		.ids = {FILE_ID_CLOCK, FILE_ID_SWITCH},
		.names = {"cpu-clock", "sched:sched_switch"},
	};
	for (unsigned i = 0; i < 2; i++) {
		file->events[i] = (struct event_desc){
			.attr = {.type = i ? PERF_TYPE_TRACEPOINT : PERF_TYPE_SOFTWARE,
				 .size = LAYOUT_ATTR_BYTES,
				 .config = i ? 316 : 0,
				 .sample_period = 1,
				 .sample_type = FILE_SAMPLE_TYPE | (i ? PERF_SAMPLE_RAW : 0),
				 .read_format = PERF_FORMAT_ID,
				 .sample_id_all = 1},
			.name = file->names[i],
			.ids = &file->ids[i],
			.nr_ids = 1,
		};
	}
}

/* A record is begun, filled and ended; its size is set at the end. */
static inline size_t file_begin(struct buf *out, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = {.type = type, .misc = misc};

	buf_put(out, &header, sizeof(header));
	return out->len - sizeof(header);
}

static inline void file_end(struct buf *out, size_t at)
{
	uint16_t size = (uint16_t)(out->len - at);

	memcpy(out->data + at + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

static inline void file_put_trailer(struct buf *out, uint64_t time, uint64_t id)
{
	buf_put_u32(out, FILE_PID);
	buf_put_u32(out, FILE_PID);
	buf_put_u64(out, time);
	buf_put_u64(out, id);
	buf_put_u64(out, 0); /* cpu, reserved */
}

static inline void file_put_sample(struct buf *out, uint64_t time, uint64_t id)
{
	size_t at = file_begin(out, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);

	buf_put_u64(out, 0x401000 + time);
	buf_put_u32(out, FILE_PID);
	buf_put_u32(out, FILE_PID);
	buf_put_u64(out, time);
	buf_put_u64(out, id);
	buf_put_u64(out, 0); /* cpu, reserved */
	buf_put_u64(out, 1); /* period */
	buf_put_u64(out, 2); /* call chain */
	buf_put_u64(out, PERF_CONTEXT_USER);
	buf_put_u64(out, 0x401000 + time);
	if (id == FILE_ID_SWITCH) {
		buf_put_u32(out, 12);
		buf_put_u32(out, 316);
		buf_put_u64(out, time);
	}
	file_end(out, at);
}

static inline void file_put_comm(struct buf *out, uint64_t time, const char *comm)
{
	size_t at = file_begin(out, PERF_RECORD_COMM, 0);

	buf_put_u32(out, FILE_PID);
	buf_put_u32(out, FILE_PID);
	buf_put(out, comm, strlen(comm) + 1);
	buf_align(out, 8);
	file_put_trailer(out, time, time ? FILE_ID_CLOCK : 0);
	file_end(out, at);
}

static inline void file_put_mark(struct buf *out)
{
	file_end(out, file_begin(out, RECORD_FINISHED_ROUND, 0));
}

/* Two rounds of two rings: times 10, 30 and 20; 40 and 25. */
static inline void file_put_records(struct buf *out)
{
	file_put_comm(out, 0, "first");
	file_put_sample(out, 10, FILE_ID_CLOCK);
	file_put_sample(out, 30, FILE_ID_SWITCH);
	file_put_comm(out, 20, "second");
	file_put_mark(out);
	file_put_sample(out, 40, FILE_ID_CLOCK);
	file_put_sample(out, 35, FILE_ID_SWITCH);
	file_put_mark(out);
}

enum { FILE_NR_RECORDS = 6, FILE_NR_MARKS = 2 };

/* A finished file with EVENT_DESC. */
static inline void file_build(struct buf *out)
{
	struct file_events file;
	struct file_header header;
	struct feature_set features = {0};
	struct buf names = {0};

	file_events_init(&file);
	header_encode(file.events, 2, out, &header);
	file_put_records(out);
	header.data.size = out->len - header.data.offset;
	strcpy(file.names[0], "renamed");
	feature_encode_event_desc(file.events, 2, &names);
	feature_set_add(&features, FEATURE_EVENT_DESC, &names);
	feature_set_encode(&features, out->len, out, header.features);
	feature_set_fini(&features);
	memcpy(out->data, &header, sizeof(header));
}

static inline void file_put_attr(struct buf *out, const struct event_desc *event)
{
	size_t at = file_begin(out, RECORD_HEADER_ATTR, 0);

	attr_encode(&event->attr, out);
	buf_put(out, event->ids, event->nr_ids * sizeof(uint64_t));
	file_end(out, at);
}

/* The same as a pipe, with a feature of odd size, a name, and a blob outside its record. */
static inline void file_build_pipe(struct buf *out)
{
	struct file_events file;

	file_events_init(&file);
	header_encode_pipe(out);
	for (unsigned i = 0; i < 2; i++)
		file_put_attr(out, &file.events[i]);
	size_t at = file_begin(out, RECORD_HEADER_FEATURE, 0);
	buf_put_u64(out, FEATURE_HOSTNAME);
	buf_put_u32(out, 5);
	buf_put(out, "host", 5);
	file_end(out, at);
	at = file_begin(out, RECORD_TRACING_DATA, 0);
	buf_put_u32(out, 13); /* 16 with the padding that belongs to it */
	buf_put_u32(out, 0);
	file_end(out, at);
	buf_put(out, "tracing bytes\0\0", 16);
	at = file_begin(out, RECORD_EVENT_UPDATE, 0);
	buf_put_u64(out, EVENT_UPDATE_NAME);
	buf_put_u64(out, FILE_ID_CLOCK);
	buf_put(out, "renamed", 8);
	file_end(out, at);
	file_put_records(out);
}

enum { FILE_NR_PIPE_FRONT = 5 }; /* records before those of file_put_records() */
