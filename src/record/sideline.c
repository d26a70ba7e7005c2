/* SPDX-License-Identifier: MIT */
#include "record/sideline.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/sample.h"
#include "record/data_files.h"
#include "record/plan.h"
#include "record/task_book.h"
#include "stream/stream.h"

/* Rings are drained once a second at the least: what is so much older than the newest record is told in order. */
#define SETTLED_NS 3000000000ull

/* The records of one stream on their way; filled by its thread. */
struct tap {
	struct stream_tap hook;
	pthread_mutex_t lock;
	struct buf chunks; /* struct chunk, then so many bytes; and again */
	uint64_t cut;      /* position in the stream at which the present output began */
	uint64_t before;   /* at which the one before it did */
};

struct chunk {
	uint64_t position, bytes;
};

/* One record that is not in the book yet. */
struct entry {
	uint64_t time, position;
	uint32_t tap;
	uint32_t size;
	size_t at; /* in the log */
};

struct sideline {
	pthread_mutex_t lock; /* of what follows but the taps */
	const struct perf_event_attr *attr;
	struct task_book *book;
	bool begun, lost, timed;
	bool windowed; /* sideline_window() */
	uint64_t dropped;
	uint64_t newest, held; /* times; held: of what is not to go into the book yet; UINT64_MAX: nothing is */
	struct buf log;
	struct entry *entries; /* heap */
	size_t nr_entries, room;
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

/* Side rings come first in the plan, and so in a stream. */
static size_t count_side_rings(const struct plan *plan)
{
	size_t nr = 0;

	while (nr < plan->nr_drained && plan->rings[nr].channel == CHANNEL_SIDE)
		nr++;
	return nr;
}

/* And in each stream; of the rings that it drains. */
static size_t side_rings_of(const struct stream *stream, size_t nr_side)
{
	size_t nr = 0;

	while (nr < stream->nr_rings && stream->which[nr] < nr_side)
		nr++;
	return nr;
}

int sideline_new(const struct plan *plan, const struct perf_event_attr *attr, struct data_files *files,
		 struct sideline **ret)
{
	size_t nr_side = count_side_rings(plan), nr_taps = 0;

	*ret = NULL;
	if (!nr_side)
		return 0;
	for (size_t i = 0; i < files->nr; i++)
		nr_taps += side_rings_of(&files->files[i].stream, nr_side) != 0;
	struct sideline *sideline = calloc(1, sizeof(*sideline) + nr_taps * sizeof(sideline->taps[0]));
	if (!sideline)
		return -ENOMEM;
	sideline->book = task_book_new(sample_id_bytes(attr));
	if (!sideline->book) {
		free(sideline);
		return -ENOMEM;
	}
	sideline->attr = attr;
	sideline->timed = sample_time_distance(attr) > 0;
	sideline->held = UINT64_MAX;
	sideline->nr_taps = nr_taps;
	pthread_mutex_init(&sideline->lock, NULL);
	for (size_t i = 0, at = 0; i < files->nr; i++) {
		struct stream *stream = &files->files[i].stream;
		size_t nr_tapped = side_rings_of(stream, nr_side);
		if (!nr_tapped)
			continue;
		struct tap *tap = &sideline->taps[at++];
		pthread_mutex_init(&tap->lock, NULL);
		tap->hook = (struct stream_tap){.see = see, .cut = cut};
		stream->tap = &tap->hook;
		stream->nr_tapped = nr_tapped;
	}
	*ret = sideline;
	return 0;
}

void sideline_free(struct sideline *sideline)
{
	if (!sideline)
		return;
	for (size_t i = 0; i < sideline->nr_taps; i++)
		buf_fini(&sideline->taps[i].chunks);
	task_book_free(sideline->book);
	buf_fini(&sideline->log);
	free(sideline->entries);
	free(sideline);
}

static uint64_t time_of(const struct sideline *sideline, const uint8_t *record, uint16_t size)
{
	int distance = sample_time_distance(sideline->attr);
	uint64_t time = 0;

	if (distance > 0 && (size_t)distance + sizeof(struct perf_event_header) <= size)
		memcpy(&time, record + size - (size_t)distance, sizeof(time));
	return time;
}

static int add_entry(struct sideline *sideline, const struct entry *entry)
{
	if (sideline->nr_entries == sideline->room) {
		size_t room = sideline->room ? 2 * sideline->room : 64;
		struct entry *grown = reallocarray(sideline->entries, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		sideline->entries = grown;
		sideline->room = room;
	}
	sideline->entries[sideline->nr_entries++] = *entry;
	return 0;
}

static int take_records(struct sideline *sideline, uint32_t tap, const uint8_t *bytes, const struct chunk *chunk)
{
	struct perf_event_header header;
	int err = 0;

	for (uint64_t at = 0; !err && chunk->bytes - at >= sizeof(header); at += header.size) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > chunk->bytes - at)
			break;
		const struct entry entry = {
			.time = time_of(sideline, bytes + at, header.size),
			.position = chunk->position + at,
			.tap = tap,
			.size = header.size,
			.at = sideline->log.len,
		};
		buf_put(&sideline->log, bytes + at, header.size);
		sideline->lost |= header.type == PERF_RECORD_LOST;
		if (entry.time > sideline->newest)
			sideline->newest = entry.time;
		err = sideline->log.failed ? -ENOMEM : add_entry(sideline, &entry);
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

/* What lies in the taps joins the log. */
static int take_taps(struct sideline *sideline)
{
	int err = 0;

	for (uint32_t i = 0; i < sideline->nr_taps; i++) {
		struct tap *tap = &sideline->taps[i];
		pthread_mutex_lock(&tap->lock);
		struct buf chunks = tap->chunks;
		tap->chunks = (struct buf){0};
		pthread_mutex_unlock(&tap->lock);
		sideline->lost |= chunks.failed;
		for (size_t at = 0; !err && at < chunks.len && !chunks.failed;) {
			struct chunk chunk;
			memcpy(&chunk, chunks.data + at, sizeof(chunk));
			err = take_records(sideline, i, chunks.data + at + sizeof(chunk), &chunk);
			at += sizeof(chunk) + chunk.bytes;
		}
		buf_fini(&chunks);
	}
	if (sideline->nr_entries)
		qsort(sideline->entries, sideline->nr_entries, sizeof(*sideline->entries), by_time);
	sideline->lost |= err != 0;
	return err;
}

static int book_entry(struct sideline *sideline, const struct entry *entry)
{
	/* Records have multiples of 8 bytes, and so has the log. */
	return task_book_take(sideline->book, (const struct perf_event_header *)(const void *)(sideline->log.data + entry->at));
}

/* The log without what has gone into the book. */
static int compact(struct sideline *sideline, size_t nr_kept)
{
	struct buf kept = {0};

	for (size_t i = 0; i < nr_kept; i++) {
		struct entry *entry = &sideline->entries[i];
		size_t at = kept.len;
		buf_put(&kept, sideline->log.data + entry->at, entry->size);
		entry->at = at;
	}
	buf_fini(&sideline->log);
	sideline->log = kept;
	sideline->nr_entries = kept.failed ? 0 : nr_kept;
	return kept.failed ? -ENOMEM : 0;
}

/* Is it told by the output that the world is for? */
static bool is_of_output(const struct sideline *sideline, const struct entry *entry)
{
	const struct tap *tap = &sideline->taps[entry->tap];

	return entry->position >= (sideline->windowed ? tap->before + sideline->dropped : tap->cut);
}

/* Into the book goes what is older; `past`: but nothing that the output has. */
static int apply(struct sideline *sideline, uint64_t until, bool past)
{
	size_t nr_kept = 0;
	int err = 0;

	for (size_t i = 0; i < sideline->nr_entries; i++) {
		const struct entry *entry = &sideline->entries[i];
		if (entry->time >= until || (past && is_of_output(sideline, entry)))
			sideline->entries[nr_kept++] = *entry;
		else if (!err)
			err = book_entry(sideline, entry);
	}
	int compact_err = nr_kept < sideline->nr_entries ? compact(sideline, nr_kept) : 0;
	err = err ? err : compact_err;
	sideline->lost |= err != 0;
	return err;
}

/* After a loss: what is known by now may be wrong. */
static int begin_again(struct sideline *sideline)
{
	struct task_book *book = task_book_new(sample_id_bytes(sideline->attr));

	if (!book)
		return -ENOMEM;
	task_book_free(sideline->book);
	sideline->book = book;
	return 0;
}

int sideline_begin(struct sideline *sideline, struct span records)
{
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;
	int err = 0;

	if (!sideline)
		return 0;
	pthread_mutex_lock(&sideline->lock);
	err = sideline->begun ? begin_again(sideline) : 0;
	for (size_t at = 0; !err && records.len - at >= sizeof(header); at += header.size) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at)
			break;
		err = task_book_take(sideline->book, (const struct perf_event_header *)(const void *)(bytes + at));
	}
	sideline->begun = true;
	sideline->lost = err != 0;
	pthread_mutex_unlock(&sideline->lock);
	return err;
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

int sideline_absorb(struct sideline *sideline)
{
	if (!sideline)
		return 0;
	pthread_mutex_lock(&sideline->lock);
	int err = take_taps(sideline);
	uint64_t settled = !sideline->timed		  ? UINT64_MAX
			   : sideline->newest > SETTLED_NS ? sideline->newest - SETTLED_NS
							   : 0;
	if (!err && sideline->begun)
		err = apply(sideline, earlier(settled, sideline->held), false);
	pthread_mutex_unlock(&sideline->lock);
	return err;
}

int sideline_hold(struct sideline *sideline)
{
	if (!sideline)
		return 0;
	pthread_mutex_lock(&sideline->lock);
	int err = take_taps(sideline);
	if (sideline->timed)
		sideline->held = sideline->newest;
	pthread_mutex_unlock(&sideline->lock);
	return err;
}

void sideline_keep_from(struct sideline *sideline, uint64_t from_ns)
{
	if (!sideline || !sideline->timed)
		return;
	pthread_mutex_lock(&sideline->lock);
	if (!sideline->windowed)
		/* Extents that come later may begin a little earlier. */
		sideline->held = from_ns == UINT64_MAX ? from_ns : from_ns > SETTLED_NS ? from_ns - SETTLED_NS : 0;
	pthread_mutex_unlock(&sideline->lock);
}

void sideline_window(struct sideline *sideline, uint64_t from_ns, uint64_t dropped_bytes)
{
	if (!sideline)
		return;
	pthread_mutex_lock(&sideline->lock);
	sideline->windowed = true;
	sideline->dropped = dropped_bytes;
	sideline->held = sideline->timed ? from_ns : UINT64_MAX;
	pthread_mutex_unlock(&sideline->lock);
}

void sideline_end(struct sideline *sideline)
{
	for (size_t i = 0; sideline && i < sideline->nr_taps; i++)
		cut(&sideline->taps[i].hook, UINT64_MAX);
}

static void put_past(const struct sideline *sideline, struct buf *out)
{
	for (size_t i = 0; i < sideline->nr_entries; i++) {
		const struct entry *entry = &sideline->entries[i];
		if (!is_of_output(sideline, entry))
			buf_put(out, sideline->log.data + entry->at, entry->size);
	}
}

int sideline_put(struct sideline *sideline, struct buf *out, bool *ret_whole)
{
	*ret_whole = false;
	if (!sideline)
		return 0;
	pthread_mutex_lock(&sideline->lock);
	int err = take_taps(sideline);
	if (!err)
		err = apply(sideline, sideline->held, true);
	if (!err) {
		task_book_put(sideline->book, out);
		put_past(sideline, out);
	}
	/* The keeper, who knows what is held, will say. */
	sideline->held = sideline->windowed && sideline->timed ? 0 : UINT64_MAX;
	sideline->windowed = false;
	*ret_whole = sideline->begun && !sideline->lost; /* now: the taps may just have told of a loss */
	pthread_mutex_unlock(&sideline->lock);
	return err ? err : out->failed ? -ENOMEM : 0;
}
