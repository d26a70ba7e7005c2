/* SPDX-License-Identifier: MIT */
#include "cmd/top_history.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/hash_table.h"
#include "cmd/join.h"
#include "cmd/sorted_file.h"
#include "perfdata/layout.h"
#include "perfdata/record.h"
#include "read/session.h"

enum {
	CHUNK_BYTES = 1 << 20,
	PART_STEP = 4096,
	FRONT_PART = 2, /* of the memory the older task events may take one of so many parts before ended tasks go */
};

/* Whole records, one behind the other. */
struct top_history_chunk {
	struct top_history_chunk *next; /* the newer one */
	uint64_t nr_samples;
	struct buf bytes;
};

struct top_history {
	pthread_mutex_t lock;
	size_t max_bytes, bytes; /* of the chunks and of the front */
	struct buf start;        /* the stream's header, attrs and features: always kept */
	struct buf front;        /* records of older chunks that are no samples */
	struct top_history_chunk *oldest, *newest;
	struct buf part; /* of a record that is not whole yet, or of the header */
	bool begun;      /* the header is there */
	uint64_t nr_forgotten;
};

struct top_history *top_history_new(size_t max_bytes)
{
	struct top_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->max_bytes = max_bytes;
	pthread_mutex_init(&history->lock, NULL);
	return history;
}

void top_history_free(struct top_history *history)
{
	if (!history)
		return;
	while (history->oldest) {
		struct top_history_chunk *chunk = history->oldest;
		history->oldest = chunk->next;
		buf_fini(&chunk->bytes);
		free(chunk);
	}
	buf_fini(&history->start);
	buf_fini(&history->front);
	buf_fini(&history->part);
	pthread_mutex_destroy(&history->lock);
	free(history);
}

/* Records are whole and sound here: top_history_add() has seen to that. */
static const struct perf_event_header *record_at(const struct buf *bytes, size_t at)
{
	return (const void *)(bytes->data + at);
}

static bool is_start(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE || type == RECORD_TRACING_DATA ||
	       type == RECORD_EVENT_TYPE || type == RECORD_EVENT_UPDATE;
}

/* With what follows a TRACING_DATA record. 0: the bytes at `at` are not all there; -EBADMSG: no record. */
static int64_t record_bytes(const uint8_t *at, size_t len)
{
	struct perf_event_header header;
	uint32_t data_bytes;

	if (len < sizeof(header))
		return 0;
	memcpy(&header, at, sizeof(header));
	/* Features are of any length; all else is aligned, and looked at in place. */
	if (header.size < sizeof(header) || (header.size % sizeof(uint64_t) && !is_start(header.type)))
		return -EBADMSG;
	size_t whole = header.size;
	if (header.type == RECORD_TRACING_DATA && len >= sizeof(header) + sizeof(data_bytes)) {
		memcpy(&data_bytes, at + sizeof(header), sizeof(data_bytes));
		whole += ((size_t)data_bytes + 7) / 8 * 8;
	}
	return len >= whole && len > sizeof(header) ? (int64_t)whole : 0;
}

/* The task whose end makes a record useless. UINT32_MAX: none. Layouts: <linux/perf_event.h>. */
static uint32_t task_of(const struct perf_event_header *record)
{
	const uint32_t *ids = (const void *)(record + 1);

	if (record->size < sizeof(*record) + 4 * sizeof(uint32_t))
		return UINT32_MAX;
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return ids[0]; /* pid, tid */
	case PERF_RECORD_COMM: return ids[1];
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: return ids[2]; /* pid, ppid, tid, ptid */
	default: return UINT32_MAX;
	}
}

/*
 * Takes the records of tasks that have ended out of the front: backwards, so that a tid that is used again is known by
 * its next fork. 0 or -ENOMEM, and nothing has changed.
 */
static int forget_ended(struct top_history *history)
{
	size_t nr = 0, room = history->front.len / sizeof(struct perf_event_header) + 1;
	AUTO_FREE size_t *at = calloc(room, sizeof(*at));
	AUTO_FREE bool *gone = calloc(room, sizeof(*gone));
	struct hash_table ended = {0};
	AUTO_BUF struct buf kept = {0};
	int err = at && gone ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < history->front.len; i += record_at(&history->front, i)->size)
		at[nr++] = i;
	for (size_t i = nr; !err && i-- > 0;) {
		const struct perf_event_header *record = record_at(&history->front, at[i]);
		uint64_t task = task_of(record);
		struct hash_slot *slot = hash_table_find(&ended, task);
		gone[i] = task != UINT32_MAX && (slot || record->type == PERF_RECORD_EXIT);
		if (record->type == PERF_RECORD_EXIT && !slot && task != UINT32_MAX)
			err = hash_table_add_number(&ended, task, 1);
		else if (record->type == PERF_RECORD_FORK && slot)
			hash_table_remove(&ended, slot);
	}
	for (size_t i = 0; !err && i < nr; i++)
		if (!gone[i])
			buf_put(&kept, history->front.data + at[i], record_at(&history->front, at[i])->size);
	hash_table_fini(&ended);
	if (err || kept.failed)
		return -ENOMEM;
	history->bytes -= history->front.len - kept.len;
	struct buf old = history->front;
	history->front = kept;
	kept = old;
	return 0;
}

/* Its samples go, what else is in it moves to the front. */
static int forget_oldest(struct top_history *history)
{
	struct top_history_chunk *chunk = history->oldest;

	for (size_t at = 0; at < chunk->bytes.len; at += record_at(&chunk->bytes, at)->size) {
		const struct perf_event_header *record = record_at(&chunk->bytes, at);
		if (record->type != PERF_RECORD_SAMPLE && record->type != RECORD_FINISHED_ROUND) {
			buf_put(&history->front, record, record->size);
			history->bytes += record->size;
		}
	}
	history->nr_forgotten += chunk->nr_samples;
	history->bytes -= chunk->bytes.len;
	history->oldest = chunk->next;
	if (!history->oldest)
		history->newest = NULL;
	buf_fini(&chunk->bytes);
	free(chunk);
	if (history->front.failed)
		return -ENOMEM;
	return history->front.len > history->max_bytes / FRONT_PART ? forget_ended(history) : 0;
}

static int put_record(struct top_history *history, const uint8_t *bytes, size_t len)
{
	struct perf_event_header header;

	memcpy(&header, bytes, sizeof(header));
	if (is_start(header.type)) {
		buf_put(&history->start, bytes, len);
		return buf_status(&history->start);
	}
	if (!history->newest || history->newest->bytes.len + len > CHUNK_BYTES) {
		struct top_history_chunk *chunk = calloc(1, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		if (history->newest)
			history->newest->next = chunk;
		else
			history->oldest = chunk;
		history->newest = chunk;
	}
	buf_put(&history->newest->bytes, bytes, len);
	history->newest->nr_samples += header.type == PERF_RECORD_SAMPLE;
	history->bytes += len;
	int err = buf_status(&history->newest->bytes);
	while (!err && history->bytes > history->max_bytes && history->oldest != history->newest)
		err = forget_oldest(history);
	return err;
}

/* Whole records from the front of these bytes. How many bytes were taken, or -errno. */
static int64_t take(struct top_history *history, const uint8_t *bytes, size_t len)
{
	size_t at = 0;

	if (!history->begun && len >= LAYOUT_PIPE_HEADER_BYTES) {
		buf_put(&history->start, bytes, LAYOUT_PIPE_HEADER_BYTES);
		at = LAYOUT_PIPE_HEADER_BYTES;
		history->begun = true;
	}
	while (history->begun) {
		int64_t size = record_bytes(bytes + at, len - at);
		if (size <= 0)
			return size ? size : (int64_t)at;
		int err = put_record(history, bytes + at, (size_t)size);
		if (err)
			return err;
		at += (size_t)size;
	}
	return 0;
}

/* The record that is not whole yet gets more bytes, until it is. How many, or -errno. */
static int64_t complete_part(struct top_history *history, const uint8_t *bytes, size_t len)
{
	size_t used = 0;

	while (history->part.len && used < len) {
		/* A page at a time: most records are shorter, and what is behind them need not be copied. */
		size_t step = len - used < PART_STEP ? len - used : PART_STEP, before = history->part.len;
		buf_put(&history->part, bytes + used, step);
		int64_t taken = history->part.failed ? -ENOMEM : take(history, history->part.data, history->part.len);
		if (taken < 0)
			return taken;
		used += taken ? (size_t)taken - before : step;
		if (taken)
			history->part.len = 0;
	}
	return (int64_t)used;
}

int top_history_add(struct top_history *history, const uint8_t *bytes, size_t len)
{
	pthread_mutex_lock(&history->lock);
	int64_t used = complete_part(history, bytes, len);
	int64_t taken = used < 0 || (size_t)used == len ? 0 : take(history, bytes + used, len - (size_t)used);
	int64_t err = used < 0 ? used : taken < 0 ? taken : 0;
	if (!err) {
		used += taken;
		buf_put(&history->part, bytes + used, len - (size_t)used);
		err = buf_status(&history->part);
	}
	pthread_mutex_unlock(&history->lock);
	return (int)err;
}

int top_history_copy(struct top_history *history, struct buf *out)
{
	pthread_mutex_lock(&history->lock);
	buf_put(out, history->start.data, history->start.len);
	buf_put(out, history->front.data, history->front.len);
	for (const struct top_history_chunk *chunk = history->oldest; chunk; chunk = chunk->next)
		buf_put(out, chunk->bytes.data, chunk->bytes.len);
	pthread_mutex_unlock(&history->lock);
	return buf_status(out);
}

struct top_history_counts top_history_counts(struct top_history *history)
{
	pthread_mutex_lock(&history->lock);
	struct top_history_counts counts = {history->bytes, history->nr_forgotten};
	pthread_mutex_unlock(&history->lock);
	return counts;
}

static bool is_copied(uint32_t type)
{
	return !is_start(type) && type != RECORD_FINISHED_ROUND;
}

/* The records of an open session into an open file. */
static int copy_records(struct session *session, struct sorted_file *file, struct diag *reterr)
{
	struct session_record record;
	int got;

	while ((got = session_next(session, &record, reterr)) > 0) {
		const struct perf_event_header *header = record.view.header;
		bool timed = header->type < RECORD_USER_FIRST && record.sample.present & PERF_SAMPLE_TIME;
		int err = is_copied(header->type) ? sorted_file_add(file, header, timed ? record.sample.time : 0) : 0;
		if (err)
			return diag_set(reterr, err, "%s", strerror(-err));
	}
	return got;
}

static int write_file(struct session *all, struct session *records, const char *path, struct diag *reterr)
{
	__attribute__((cleanup(join_fini))) struct join join = {0};
	struct sorted_file file = {0};
	int err = join_add(&join, all, reterr);

	if (!err)
		err = join_features(&join, &all, 1, reterr);
	if (!err)
		err = sorted_file_open(path, join.events, join.nr_events, &file, reterr);
	if (err)
		return err;
	err = copy_records(records, &file, reterr);
	if (!err)
		err = sorted_file_finish(&file, &join.features, reterr);
	int closed = sorted_file_close(&file);
	return err ? err : closed ? diag_set(reterr, closed, "%s: %s", path, strerror(-closed)) : 0;
}

/* A stream tells of events and features as it goes: it is read once to know them all, and once for its records. */
int top_history_save(struct top_history *history, const char *path, struct diag *reterr)
{
	AUTO_BUF struct buf bytes = {0};
	struct session *all = NULL, *records = NULL;
	struct session_record record;
	int got = 1;

	if (top_history_copy(history, &bytes))
		return diag_set(reterr, -ENOMEM, "out of memory");
	int err = session_open_memory(buf_span(&bytes), SESSION_FILE_ORDER, &all, reterr);
	while (!err && got > 0)
		got = session_next(all, &record, reterr);
	if (!err)
		err = got < 0 ? got : session_open_memory(buf_span(&bytes), SESSION_ALL, &records, reterr);
	if (!err)
		err = write_file(all, records, path, reterr);
	session_close(records);
	session_close(all);
	return err;
}
