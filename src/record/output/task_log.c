/* SPDX-License-Identifier: MIT */
#include "record/output/task_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "perfdata/sample.h"
#include "record/output/data_files.h"
#include "record/setup/plan.h"
#include "stream/stream.h"
#include "tasks/task_table.h"

/* Rings are drained once a second at the least: what is so much older than the newest record is told in order. */
#define LONGEST_DELAY_NS 3000000000ull

/* The records of one stream on their way; filled by its thread. */
struct tap {
	struct stream_tap hook;
	pthread_mutex_t lock;
	struct buf chunks; /* struct chunk, then so many bytes; and again */
	uint64_t cut;      /* position in the stream at which the present output began */
	uint64_t before;   /* at which the one before it did */
	uint64_t seen;     /* position of what comes next */
	uint64_t drained;  /* where that was when the first stream began to be drained; under drain_lock */
	struct task_log *task_log;
	size_t file;      /* number of the stream in the data files */
	uint64_t dropped; /* task_log_window(); under the lock of the log */
};

struct chunk {
	uint64_t position, bytes;
};

/* One record that is not applied to the table yet. */
struct entry {
	uint64_t time, position;
	uint32_t tap;
	uint32_t size;
	size_t at; /* in the log */
};

struct task_log {
	pthread_mutex_t lock; /* of what follows but the taps */
	const struct perf_event_attr *attr;
	struct task_table *table;
	bool begun, lost, timed;
	bool windowed;         /* task_log_window() */
	bool taps_all;         /* streams without a tap may be drained before those that have one */
	uint64_t newest;       /* time of the newest event */
	uint64_t keep_from_ns; /* later events are not applied to the table yet; UINT64_MAX: all are */
	struct buf log;
	struct entry *entries; /* heap; by time */
	size_t first;          /* those in front of it are applied */
	size_t nr_entries, room;
	size_t applied_bytes; /* of the log */
	pthread_mutex_t drain_lock;
	bool until_drained; /* task_log_hold(); under drain_lock, like this: */
	bool drained;       /* a stream has begun to be */
	size_t nr_taps;
	struct tap taps[];
};

static struct tap *tap_of(struct stream_tap *hook)
{
	return (struct tap *)hook;
}

static void see(struct stream_tap *hook, const struct span spans[2], uint64_t position)
{
	struct tap *tap = tap_of(hook);
	const struct chunk chunk = {.position = position, .bytes = span_total(spans, 2)};

	pthread_mutex_lock(&tap->lock);
	buf_put(&tap->chunks, &chunk, sizeof(chunk));
	for (unsigned i = 0; i < 2; i++)
		buf_put(&tap->chunks, spans[i].ptr, spans[i].len);
	tap->seen = position + chunk.bytes;
	pthread_mutex_unlock(&tap->lock);
}

static void cut(struct stream_tap *hook, uint64_t position)
{
	struct tap *tap = tap_of(hook);

	pthread_mutex_lock(&tap->lock);
	tap->before = tap->cut;
	tap->cut = position;
	pthread_mutex_unlock(&tap->lock);
}

/* What any stream leaves to the next output is newer than what all have seen when the first of them begins to drain. */
static void drain(struct stream_tap *hook)
{
	struct task_log *task_log = tap_of(hook)->task_log;

	pthread_mutex_lock(&task_log->drain_lock);
	for (size_t i = 0; i < task_log->nr_taps && task_log->until_drained && !task_log->drained; i++) {
		struct tap *tap = &task_log->taps[i];
		pthread_mutex_lock(&tap->lock);
		tap->drained = tap->seen;
		pthread_mutex_unlock(&tap->lock);
	}
	task_log->drained = true;
	pthread_mutex_unlock(&task_log->drain_lock);
}

int task_log_new(const struct perf_event_attr *attr, struct data_files *files, struct task_log **ret)
{
	size_t nr_taps = 0;

	*ret = NULL;
	for (size_t i = 0; i < files->nr; i++)
		nr_taps += files->files[i].stream.nr_side_rings != 0;
	if (!nr_taps)
		return 0;
	struct task_log *task_log = calloc(1, sizeof(*task_log) + nr_taps * sizeof(task_log->taps[0]));
	if (!task_log)
		return -ENOMEM;
	task_log->table = task_table_new(sample_id_bytes(attr));
	if (!task_log->table) {
		free(task_log);
		return -ENOMEM;
	}
	task_log->attr = attr;
	task_log->timed = sample_time_distance(attr) > 0;
	task_log->keep_from_ns = UINT64_MAX;
	task_log->nr_taps = nr_taps;
	task_log->taps_all = nr_taps == files->nr;
	pthread_mutex_init(&task_log->lock, NULL);
	pthread_mutex_init(&task_log->drain_lock, NULL);
	for (size_t i = 0, at = 0; i < files->nr; i++) {
		struct stream *stream = &files->files[i].stream;
		if (!stream->nr_side_rings)
			continue;
		struct tap *tap = &task_log->taps[at++];
		pthread_mutex_init(&tap->lock, NULL);
		tap->hook = (struct stream_tap){.see = see, .drain = drain, .cut = cut};
		tap->file = i;
		tap->task_log = task_log;
		stream->tap = &tap->hook;
	}
	*ret = task_log;
	return 0;
}

void task_log_free(struct task_log *task_log)
{
	if (!task_log)
		return;
	for (size_t i = 0; i < task_log->nr_taps; i++)
		buf_fini(&task_log->taps[i].chunks);
	task_table_free(task_log->table);
	buf_fini(&task_log->log);
	free(task_log->entries);
	free(task_log);
}

static uint64_t time_of(const struct task_log *task_log, const uint8_t *record)
{
	int at = sample_id_field(record, sample_id_bytes(task_log->attr), sample_time_distance(task_log->attr));
	uint64_t time = 0;

	if (at >= 0)
		memcpy(&time, record + at, sizeof(time));
	return time;
}

static int add_entry(struct task_log *task_log, const struct entry *entry)
{
	if (array_room(task_log->entries, task_log->nr_entries, task_log->room))
		return -ENOMEM;
	task_log->entries[task_log->nr_entries++] = *entry;
	return 0;
}

static int take_records(struct task_log *task_log, uint32_t tap, const uint8_t *bytes, const struct chunk *chunk)
{
	struct perf_event_header header;
	int err = 0;

	for (uint64_t at = 0; !err && chunk->bytes - at >= sizeof(header); at += header.size) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > chunk->bytes - at)
			break;
		const struct entry entry = {
			.time = time_of(task_log, bytes + at),
			.position = chunk->position + at,
			.tap = tap,
			.size = header.size,
			.at = task_log->log.len,
		};
		buf_put(&task_log->log, bytes + at, header.size);
		task_log->lost |= header.type == PERF_RECORD_LOST;
		if (entry.time > task_log->newest)
			task_log->newest = entry.time;
		err = task_log->log.failed ? -ENOMEM : add_entry(task_log, &entry);
	}
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct entry *one = a, *other = b;

	if (one->time != other->time)
		return one->time < other->time ? -1 : 1;
	if (one->tap != other->tap)
		return one->tap < other->tap ? -1 : 1;
	return (one->position > other->position) - (one->position < other->position);
}

static bool are_sorted(const struct entry *entries, size_t nr)
{
	size_t i = 1;

	while (i < nr && by_time(&entries[i - 1], &entries[i]) < 0)
		i++;
	return i >= nr;
}

/*
 * The entries behind the first nr_sorted join them. Of a fast load seconds are kept, and rings are drained many times a
 * second: only the new ones are sorted, and only the old ones that are later than the first of them are moved.
 */
static void sort_new(struct task_log *task_log, size_t nr_sorted)
{
	size_t nr_new = task_log->nr_entries - nr_sorted;

	if (!nr_new)
		return;
	struct entry *entries = task_log->entries + task_log->first; /* what is applied stays where it is */
	nr_sorted -= task_log->first;
	if (!are_sorted(entries + nr_sorted, nr_new))
		qsort(entries + nr_sorted, nr_new, sizeof(*entries), by_time);
	if (!nr_sorted || by_time(&entries[nr_sorted - 1], &entries[nr_sorted]) < 0)
		return;
	AUTO_FREE struct entry *added = malloc(nr_new * sizeof(*added));
	if (!added) {
		qsort(entries, nr_sorted + nr_new, sizeof(*entries), by_time);
		return;
	}
	memcpy(added, entries + nr_sorted, nr_new * sizeof(*added));
	for (size_t to = nr_sorted + nr_new; nr_new;) {
		const bool is_old = nr_sorted && by_time(&entries[nr_sorted - 1], &added[nr_new - 1]) > 0;
		entries[--to] = is_old ? entries[--nr_sorted] : added[--nr_new];
	}
}

/* What lies in the taps joins the log. */
static int take_taps(struct task_log *task_log)
{
	const size_t nr_sorted = task_log->nr_entries;
	int err = 0;

	for (uint32_t i = 0; i < task_log->nr_taps; i++) {
		struct tap *tap = &task_log->taps[i];
		pthread_mutex_lock(&tap->lock);
		struct buf chunks = tap->chunks;
		tap->chunks = (struct buf){0};
		pthread_mutex_unlock(&tap->lock);
		task_log->lost |= chunks.failed;
		for (size_t at = 0; !err && at < chunks.len && !chunks.failed;) {
			struct chunk chunk;
			memcpy(&chunk, chunks.data + at, sizeof(chunk));
			err = take_records(task_log, i, chunks.data + at + sizeof(chunk), &chunk);
			at += sizeof(chunk) + chunk.bytes;
		}
		buf_fini(&chunks);
	}
	sort_new(task_log, nr_sorted);
	task_log->lost |= err != 0;
	return err;
}

static int apply_entry(struct task_log *task_log, const struct entry *entry)
{
	/* Records have multiples of 8 bytes, and so has the log. */
	return task_table_take(task_log->table,
			       (const struct perf_event_header *)(const void *)(task_log->log.data + entry->at));
}

/* The log without what was applied to the table. Not until that is half of it: a record is not to be moved often. */
static int compact(struct task_log *task_log)
{
	const size_t nr_left = task_log->nr_entries - task_log->first;
	struct buf left = {0};

	if (task_log->applied_bytes < task_log->log.len - task_log->applied_bytes)
		return 0;
	for (size_t i = 0; i < nr_left; i++) {
		struct entry *entry = &task_log->entries[i];
		*entry = task_log->entries[task_log->first + i];
		size_t at = left.len;
		buf_put(&left, task_log->log.data + entry->at, entry->size);
		entry->at = at;
	}
	buf_fini(&task_log->log);
	task_log->log = left;
	task_log->applied_bytes = 0;
	task_log->first = 0;
	task_log->nr_entries = left.failed ? 0 : nr_left;
	return left.failed ? -ENOMEM : 0;
}

/* Does the output have it for which the initial state is? */
static bool is_of_output(const struct task_log *task_log, const struct entry *entry)
{
	const struct tap *tap = &task_log->taps[entry->tap];

	return entry->position >= (task_log->windowed ? tap->before + tap->dropped : tap->cut);
}

/* Applies what is older to the table; `past`: but nothing that the output has. */
static int apply(struct task_log *task_log, uint64_t until, bool past)
{
	struct entry *entries = task_log->entries;
	size_t i = task_log->first, nr_kept = 0;
	int err = 0;

	for (; i < task_log->nr_entries && entries[i].time < until; i++) {
		const struct entry entry = entries[i];
		if (past && is_of_output(task_log, &entry)) {
			entries[task_log->first + nr_kept++] = entry;
			continue;
		}
		task_log->applied_bytes += entry.size;
		if (!err)
			err = apply_entry(task_log, &entry);
	}
	if (nr_kept)
		memmove(entries + i - nr_kept, entries + task_log->first, nr_kept * sizeof(*entries));
	task_log->first = i - nr_kept;
	int compact_err = compact(task_log);
	err = err ? err : compact_err;
	task_log->lost |= err != 0;
	return err;
}

/* After a loss: what is known by now may be wrong. */
static int begin_again(struct task_log *task_log)
{
	struct task_table *table = task_table_new(sample_id_bytes(task_log->attr));

	if (!table)
		return -ENOMEM;
	task_table_free(task_log->table);
	task_log->table = table;
	return 0;
}

int task_log_begin(struct task_log *task_log, struct span records)
{
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;
	int err = 0;

	if (!task_log)
		return 0;
	pthread_mutex_lock(&task_log->lock);
	err = task_log->begun ? begin_again(task_log) : 0;
	for (size_t at = 0; !err && records.len - at >= sizeof(header); at += header.size) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at)
			break;
		err = task_table_take(task_log->table, (const struct perf_event_header *)(const void *)(bytes + at));
	}
	task_log->begun = true;
	task_log->lost = err != 0;
	pthread_mutex_unlock(&task_log->lock);
	return err;
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

int task_log_absorb(struct task_log *task_log)
{
	if (!task_log)
		return 0;
	pthread_mutex_lock(&task_log->lock);
	int err = take_taps(task_log);
	uint64_t complete_until = !task_log->timed                      ? UINT64_MAX
				  : task_log->newest > LONGEST_DELAY_NS ? task_log->newest - LONGEST_DELAY_NS
									: 0;
	if (!err && task_log->begun)
		err = apply(task_log, earlier(complete_until, task_log->keep_from_ns), false);
	pthread_mutex_unlock(&task_log->lock);
	return err;
}

int task_log_hold(struct task_log *task_log, bool until_drained)
{
	if (!task_log)
		return 0;
	pthread_mutex_lock(&task_log->lock);
	int err = take_taps(task_log);
	if (task_log->timed)
		task_log->keep_from_ns = task_log->newest;
	pthread_mutex_lock(&task_log->drain_lock);
	task_log->until_drained = until_drained && task_log->taps_all;
	task_log->drained = false;
	pthread_mutex_unlock(&task_log->drain_lock);
	pthread_mutex_unlock(&task_log->lock);
	return err;
}

/* The time of the newest record of which is known that all that the streams left to the next output is newer. */
static uint64_t drained_until(struct task_log *task_log)
{
	uint64_t newest = 0;

	pthread_mutex_lock(&task_log->drain_lock);
	const bool drained = task_log->until_drained && task_log->drained;
	for (size_t i = task_log->nr_entries; drained && i-- > task_log->first && !newest;) {
		const struct entry *entry = &task_log->entries[i]; /* by time */
		if (entry->position < task_log->taps[entry->tap].drained)
			newest = entry->time;
	}
	task_log->until_drained = false;
	pthread_mutex_unlock(&task_log->drain_lock);
	return newest;
}

void task_log_keep_from(struct task_log *task_log, uint64_t from_ns)
{
	if (!task_log || !task_log->timed)
		return;
	pthread_mutex_lock(&task_log->lock);
	if (!task_log->windowed)
		/* Extents that come later may begin a little earlier. */
		task_log->keep_from_ns = from_ns == UINT64_MAX        ? from_ns
					 : from_ns > LONGEST_DELAY_NS ? from_ns - LONGEST_DELAY_NS
								      : 0;
	pthread_mutex_unlock(&task_log->lock);
}

void task_log_window(struct task_log *task_log, uint64_t from_ns, const uint64_t *dropped)
{
	if (!task_log)
		return;
	pthread_mutex_lock(&task_log->lock);
	task_log->windowed = true;
	for (size_t i = 0; i < task_log->nr_taps; i++)
		task_log->taps[i].dropped = dropped ? dropped[task_log->taps[i].file] : 0;
	task_log->keep_from_ns = task_log->timed ? from_ns : UINT64_MAX;
	pthread_mutex_unlock(&task_log->lock);
}

void task_log_end(struct task_log *task_log)
{
	for (size_t i = 0; task_log && i < task_log->nr_taps; i++)
		cut(&task_log->taps[i].hook, UINT64_MAX);
}

/* What is not applied to the table; `past`: but for what the output has. */
static void put_waiting(const struct task_log *task_log, bool past, struct buf *out)
{
	for (size_t i = task_log->first; i < task_log->nr_entries; i++) {
		const struct entry *entry = &task_log->entries[i];
		if (!past || !is_of_output(task_log, entry))
			buf_put(out, task_log->log.data + entry->at, entry->size);
	}
}

int task_log_put(struct task_log *task_log, struct buf *out, bool *ret_whole)
{
	*ret_whole = false;
	if (!task_log)
		return 0;
	pthread_mutex_lock(&task_log->lock);
	int err = take_taps(task_log);
	const uint64_t drained_ns = drained_until(task_log);
	if (!task_log->windowed && drained_ns > task_log->keep_from_ns)
		task_log->keep_from_ns = drained_ns;
	if (!err)
		err = apply(task_log, task_log->keep_from_ns, true);
	if (!err) {
		task_table_put(task_log->table, out);
		put_waiting(task_log, true, out);
	}
	/* Until the housekeeping thread says again what is retained. */
	task_log->keep_from_ns = task_log->windowed && task_log->timed ? 0 : UINT64_MAX;
	task_log->windowed = false;
	*ret_whole = task_log->begun && !task_log->lost; /* now: the taps may just have told of a loss */
	pthread_mutex_unlock(&task_log->lock);
	return err ? err : out->failed ? -ENOMEM : 0;
}

bool task_log_put_known(struct task_log *task_log, struct buf *out)
{
	if (!task_log)
		return false;
	pthread_mutex_lock(&task_log->lock);
	const int err = take_taps(task_log);
	task_table_put(task_log->table, out);
	put_waiting(task_log, false, out);
	const bool is_whole = !err && task_log->begun && !task_log->lost;
	pthread_mutex_unlock(&task_log->lock);
	return is_whole && !out->failed;
}
