/* SPDX-License-Identifier: MIT */
/*
 * perf.data files and pipes from anywhere: opened, read to their end in both orders, features looked at. What has the
 * layout of a pipe is also read through one, and must give the same records.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "perfdata/feature.h"
#include "perfdata/header.h"
#include "perfdata/record.h"
#include "read/session.h"

/* So that no result is dead code, and every span that is handed out is readable. */
static volatile uint8_t sink;

static void read_span(const void *ptr, size_t len)
{
	const uint8_t *bytes = ptr;

	for (size_t i = 0; i < len; i++)
		sink ^= bytes[i];
}

static void read_record(const struct session_record *record)
{
	const struct sample *sample = &record->sample;

	read_span(record->view.header, record->view.header->size);
	read_span(record->event, record->event ? sizeof(*record->event) : 0);
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return;
	read_span(sample->ips, sample->ips ? sample->nr_ips * 8 : 0);
	read_span(sample->raw.ptr, sample->raw.len);
	read_span(sample->read.ptr, sample->read.len);
	read_span(sample->user_stack.ptr, sample->user_stack.len);
	read_span(sample->branches.entries, sample->branches.nr * sizeof(struct perf_branch_entry));
	if (sample->user_regs.regs)
		read_span(sample->user_regs.regs, 8u * (unsigned)__builtin_popcountll(sample->user_regs.mask));
}

static void read_features(const struct session *session)
{
	for (int bit = 0; bit < FEATURE_BITS; bit++) {
		struct span payload;

		if (session_feature(session, (enum feature_bit)bit, &payload))
			read_span(payload.ptr, payload.len);
	}
}

enum { PIPE_MAX_BYTES = 60000 }; /* fits a pipe, so that one thread can fill and drain it */

struct seen {
	uint64_t records, bytes;
	int result;
};

/* Reads the session to its end and closes it. */
static struct seen read_all(struct session *session)
{
	struct session_record record;
	struct seen seen = {0};
	size_t nr_events;

	while ((seen.result = session_next(session, &record, NULL)) > 0) {
		if ((uintptr_t)record.view.header % 8)
			abort();
		read_record(&record);
		seen.records++;
		seen.bytes += record.view.header->size;
	}
	read_features(session);
	const struct event_desc *events = session_events(session, &nr_events);
	for (size_t i = 0; i < nr_events; i++) {
		read_span(&events[i].attr, sizeof(events[i].attr));
		read_span(events[i].name, events[i].name ? strlen(events[i].name) : 0);
		read_span(events[i].ids, events[i].nr_ids * sizeof(events[i].ids[0]));
	}
	session_close(session);
	return seen;
}

static void read_through_pipe(struct span bytes, enum session_flags flags, struct seen expected)
{
	struct session *session = NULL;
	int fds[2];

	if (bytes.len > PIPE_MAX_BYTES || pipe2(fds, O_CLOEXEC))
		return;
	if (write(fds[1], bytes.ptr, bytes.len) != (ssize_t)bytes.len || dup2(fds[0], STDIN_FILENO) < 0)
		abort();
	close(fds[0]);
	close(fds[1]);
	if (session_open("-", flags, &session, NULL))
		abort(); /* in memory the same header was taken */
	struct seen seen = read_all(session);
	/*
	 * Behind damage a file is read on where it has a beginning, which a pipe cannot look for: only the end is the
	 * same.
	 */
	bool same = seen.records == expected.records && seen.bytes == expected.bytes;
	if (seen.result != expected.result || (!expected.result && !same))
		abort();
}

static void read_both_ways(struct span bytes, enum session_flags flags)
{
	struct session *session = NULL;

	if (session_open_memory(bytes, flags, &session, NULL))
		return;
	bool pipe = session_info(session)->pipe;
	struct seen seen = read_all(session);
	if (pipe)
		read_through_pipe(bytes, flags, seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span bytes = {data, size};

	read_both_ways(bytes, SESSION_FORCE);
	read_both_ways(bytes, SESSION_FORCE | SESSION_FILE_ORDER);
	return 0;
}

/* From here on: seeds. */

enum {
	PLAIN_SAMPLE = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU |
		       PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW,
	RICH_SAMPLE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_READ | PERF_SAMPLE_BRANCH_STACK |
		      PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
};

static size_t begin(struct buf *out, uint32_t type)
{
	struct perf_event_header header = {.type = type, .misc = PERF_RECORD_MISC_USER};
	size_t at = out->len;

	buf_put(out, &header, sizeof(header));
	return at;
}

static void end(struct buf *out, size_t at)
{
	((struct perf_event_header *)(void *)(out->data + at))->size = (uint16_t)(out->len - at);
}

static void put_words(struct buf *out, const uint64_t words[], size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		buf_put_u64(out, words[i]);
}

#define PUT_WORDS(out, ...)                                                                                            \
	put_words(out, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void put_record(struct buf *out, uint32_t type, const uint64_t words[], size_t nr)
{
	size_t at = begin(out, type);

	put_words(out, words, nr);
	end(out, at);
}

/* perf_event_open(2), "PERF_RECORD_SAMPLE" */
static void put_plain_sample(struct buf *out, uint64_t time_ns, uint64_t id)
{
	size_t at = begin(out, PERF_RECORD_SAMPLE);

	PUT_WORDS(out, 0x401000, 7ull << 32 | 7, time_ns, id, 1, 1000);
	PUT_WORDS(out, 3, PERF_CONTEXT_USER, 0x401000, 0x402000);
	buf_put_u32(out, 12);
	buf_put_text(out, "raw data, 12");
	end(out, at);
}

static void put_rich_sample(struct buf *out, uint64_t time_ns, uint64_t id)
{
	size_t at = begin(out, PERF_RECORD_SAMPLE);

	PUT_WORDS(out, id, time_ns);
	PUT_WORDS(out, 2, 100, 90, 5, id, 6, id + 1); /* a group of two with both times */
	PUT_WORDS(out, 1, 0x401000, 0x402000, 0);
	PUT_WORDS(out, PERF_SAMPLE_REGS_ABI_64, 1, 2, 3);
	PUT_WORDS(out, 16, 0xaa, 0xbb, 16);
	end(out, at);
}

static void put_trailer(struct buf *out, uint64_t type, uint64_t time_ns, uint64_t id)
{
	if (type == RICH_SAMPLE)
		PUT_WORDS(out, time_ns, id);
	else
		PUT_WORDS(out, 7ull << 32 | 7, time_ns, id, 1);
}

static void put_records(struct buf *out, uint64_t type)
{
	size_t at = begin(out, PERF_RECORD_COMM);

	PUT_WORDS(out, 7ull << 32 | 7, 0x6d6d6f63); /* "comm" */
	put_trailer(out, type, 0, 0);
	end(out, at);
	put_record(out, RECORD_FINISHED_INIT, NULL, 0);
	for (uint64_t i = 0; i < 4; i++) {
		if (type == RICH_SAMPLE)
			put_rich_sample(out, 100 - i * 10, 11 + i % 2);
		else
			put_plain_sample(out, 100 - i * 10, 11 + i % 2);
		put_record(out, RECORD_FINISHED_ROUND, NULL, 0);
	}
	at = begin(out, PERF_RECORD_LOST_SAMPLES);
	buf_put_u64(out, 5);
	put_trailer(out, type, 200, 12);
	end(out, at);
}

static struct perf_event_attr make_attr(uint64_t type, uint64_t config)
{
	return (struct perf_event_attr){
		.size = LAYOUT_ATTR_BYTES,
		.type = PERF_TYPE_SOFTWARE,
		.config = config,
		.sample_type = type,
		.read_format = PERF_FORMAT_ID | PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
		.sample_regs_user = 0x111,
		.sample_stack_user = 16,
		.sample_id_all = 1,
	};
}

static void put_file(struct buf *out, uint64_t type, const struct event_desc events[2])
{
	AUTO_BUF struct buf payload = {0};
	struct feature_set features = {0};
	struct file_header header;

	header_encode(events, 2, out, &header);
	put_records(out, type);
	header.data.size = out->len - header.data.offset;
	feature_encode_event_desc(events, 2, &payload);
	feature_set_add(&features, FEATURE_EVENT_DESC, &payload);
	feature_put_string(&payload, "host");
	feature_set_add(&features, FEATURE_HOSTNAME, &payload);
	feature_set_encode(&features, out->len, out, header.features);
	feature_set_fini(&features);
	memcpy(out->data, &header, sizeof(header));
}

static void put_pipe(struct buf *out, uint64_t type, const struct event_desc events[2])
{
	size_t at;

	header_encode_pipe(out);
	for (size_t i = 0; i < 2; i++) {
		at = begin(out, RECORD_HEADER_ATTR);
		attr_encode(&events[i].attr, out);
		buf_put(out, events[i].ids, events[i].nr_ids * sizeof(events[i].ids[0]));
		end(out, at);
	}
	at = begin(out, RECORD_HEADER_FEATURE);
	buf_put_u64(out, FEATURE_HOSTNAME);
	feature_put_string(out, "host"); /* 4 + 64 bytes: what follows is askew */
	end(out, at);
	at = begin(out, RECORD_EVENT_UPDATE);
	PUT_WORDS(out, EVENT_UPDATE_NAME, 12, 0x656d616e); /* "name" */
	end(out, at);
	at = begin(out, RECORD_TRACING_DATA);
	buf_put_u64(out, 16);
	end(out, at);
	PUT_WORDS(out, 1, 2);
	put_records(out, type);
}

bool fuzz_seed(unsigned number, struct buf *out)
{
	uint64_t ids[] = {11, 12};
	uint64_t type = number / 2 ? RICH_SAMPLE : PLAIN_SAMPLE;
	char names[2][8] = {"first", "second"};
	const struct event_desc events[] = {
		{.attr = make_attr(type, PERF_COUNT_SW_CPU_CLOCK), .name = names[0], .ids = &ids[0], .nr_ids = 1},
		{.attr = make_attr(type, PERF_COUNT_SW_DUMMY), .name = names[1], .ids = &ids[1], .nr_ids = 1},
	};

	if (number > 3)
		return false;
	if (number % 2)
		put_pipe(out, type, events);
	else
		put_file(out, type, events);
	return true;
}
