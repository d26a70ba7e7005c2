/* SPDX-License-Identifier: MIT */
#include "stream/stream.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "perfdata/record.h"
#include "stream/producers.h"
#include "stream/ring.h"
#include "stream/writer.h"

struct ring *stream_ring(const struct stream *stream, size_t n)
{
	return &stream->rings[stream->which ? stream->which[n] : n];
}

/* What is worth taking from a ring: no mark may lie above the kernel's own wake-up, which is at half a ring. */
static size_t least_worth(const struct stream *stream, const struct ring *ring)
{
	size_t most = ring->bytes / 4;

	return stream->flush_bytes < most ? stream->flush_bytes : most;
}

/* Three quarters: a reader that comes that late may come too late. */
static bool is_nearly_full(const struct ring *ring, size_t bytes)
{
	return bytes > ring->bytes / 4 * 3;
}

/* A ring wakes its reader when it is half full, or sooner. */
static bool is_late(const struct ring *ring, size_t bytes)
{
	return bytes > ring->bytes / 8 * 5;
}

/* Where a record of the largest size has no room the kernel may have dropped one. */
static void note_full(const struct stream *stream, const struct ring *ring, size_t bytes)
{
	if (!stream->full_ns || ring->bytes - bytes > UINT16_MAX)
		return;
	/* Its next value is set after this visit. */
	uint64_t after_ns = stream->writer->complete_ns + 1, before = atomic_load(stream->full_ns);
	while ((!before || after_ns < before) && !atomic_compare_exchange_weak(stream->full_ns, &before, after_ns))
		;
}

/* What is in the ring up to that position. */
static size_t peek_until(struct stream *stream, const struct ring *ring, uint64_t end, struct span ret_spans[2])
{
	int64_t left = (int64_t)(end - ring->taken); /* positions wrap */
	size_t most = left > 0 ? (size_t)left : 0;
	size_t bytes = most ? ring_peek(ring, ret_spans) : 0;

	if (bytes > most)
		spans_cut(ret_spans, most);
	bytes = bytes < most ? bytes : most;
	bytes = bytes ? ring_rename(ring, ret_spans, bytes) : 0;
	return ring->no_map_ids ? object_id_unmark(ret_spans, bytes, stream->map_copy) : bytes;
}

/*
 * To copy is sooner done than to convert most records, to look at, or to compress, which workers do then. So who comes
 * late to a ring, behind the kernel's wake-up at half of it, copies for some visits; for twice as many where it did not
 * help for as long.
 */
static bool has_time(struct stream *stream, const struct ring *ring, size_t bytes)
{
	enum { LEAST_VISITS = 64, MOST_VISITS = 4096 };
	unsigned *to_copy = &stream->visits_to_copy, *copied = &stream->visits_copied;

	stream->visits_converted += !*to_copy;
	if (is_late(ring, bytes)) {
		bool helped = stream->visits_converted > *copied;
		if (!*to_copy)
			*copied = helped || !*copied ? LEAST_VISITS : *copied < MOST_VISITS ? 2 * *copied : MOST_VISITS;
		*to_copy = *copied;
		stream->visits_converted = 0;
	}
	if (!*to_copy)
		return true;
	--*to_copy;
	return false;
}

static int64_t take(struct stream *stream, const struct ring *ring, const struct span spans[2])
{
	struct ring_converter *converter = stream->converter;
	struct writer *writer = stream->writer;

	const bool in_time = has_time(stream, ring, spans[0].len + spans[1].len);
	writer->has_time = in_time;
	writer->has_time_to_compress = in_time && !stream->compresses_later;
	bool converts = converter && (in_time || converter->takes_no_longer) && converter->begin(converter);
	writer->converter = converts ? converter : NULL;
	int64_t bytes = writer_take(writer, spans, spans[1].len ? 2 : 1);
	writer->converter = NULL;
	writer->has_time = writer->has_time_to_compress = false;
	if (converts)
		converter->end(converter);
	return bytes;
}

/*
 * Up to the head that was seen first. Between two batches the first is stored, and the relief may take more than that.
 * Adds to *kept the bytes that marks are about: what stages keep until one comes, and what readers do.
 */
static int64_t pump_ring(struct stream *stream, size_t index, bool whole, bool stores, uint64_t *kept)
{
	struct ring *ring = stream_ring(stream, index);
	size_t least = whole ? 1 : least_worth(stream, ring);
	struct span spans[2];
	size_t bytes = ring_peek(ring, spans);
	const uint64_t end = ring->taken + bytes;
	int64_t moved = 0;

	if (!bytes || bytes < least)
		return 0;
	stream->counters.near_full += is_nearly_full(ring, bytes);
	stream->counters.late += is_late(ring, bytes);
	stream->counters.chunks++;
	note_full(stream, ring, bytes);
	while (peek_until(stream, ring, end, spans)) {
		const uint64_t left_out = stream->writer->left_out;
		int64_t bytes_taken = take(stream, ring, spans);
		if (bytes_taken == -EAGAIN) {
			writer_complete(stream->writer, WRITER_ROOM); /* its error is returned by the next call */
			continue;
		}
		if (bytes_taken < 0)
			return bytes_taken;
		bytes = (size_t)bytes_taken;
		*kept += bytes - (stream->writer->left_out - left_out);
		if (stream->tap && index < stream->nr_side_rings) {
			spans_cut(spans, bytes);
			stream->tap->see(stream->tap, spans, stream->counters.bytes);
		}
		ring_take(ring, bytes);
		ring_release(ring, bytes); /* its room is the kernel's again */
		stream->counters.bytes += bytes;
		moved += bytes_taken;
		if (stores && stream->storage)
			stream->storage->store(stream->storage, stream->writer);
	}
	return moved;
}

/*
 * All rings were read to their heads in this pass, so no later record is older than any record before the previous
 * mark. An error stays in the writer.
 */
static void mark_round(struct stream *stream)
{
	static const struct perf_event_header mark = {
		.type = RECORD_FINISHED_ROUND,
		.size = sizeof(mark),
	};

	stream->unmarked_bytes = 0;
	stream->counters.rounds++;
	writer_put(stream->writer, &mark, sizeof(mark));
}

/*
 * Where a reader follows the output a round is due with every byte. Not while what came earlier still waits for the
 * output: it would not be seen sooner, and each mark ends an extent of the memory that is short then.
 */
static bool mark_can_wait(const struct stream *stream)
{
	enum { WORTH_A_MARK = 4 << 20 };
	const struct producers *producers = stream->writer->producers;
	uint64_t round_bytes = producers ? producers->params.round_bytes : stream->round_bytes;
	uint64_t unmarked = producers ? atomic_load_explicit(&producers->unmarked_bytes, memory_order_relaxed)
				      : stream->unmarked_bytes;

	return round_bytes <= 1 && unmarked < WORTH_A_MARK && writer_is_behind(stream->writer);
}

/* One producer's part of a round: a whole pass of the present epoch. The last producer of the round writes the mark. */
static void end_producer_pass(struct stream *stream, uint64_t epoch, uint64_t bytes, bool whole, enum stream_pass pass)
{
	struct writer *writer = stream->writer;
	struct producers *producers = writer->producers;
	bool wait = pass != STREAM_DRAIN && mark_can_wait(stream);
	bool report = whole && !wait && writer->producer_epoch != epoch &&
		      producers_due(producers, bytes, pass == STREAM_DRAIN);
	bool fix = report || pass == STREAM_DRAIN || (stream->flush_bytes <= 1 && !writer_is_behind(writer));

	if (fix && writer_fix_position(writer))
		return;
	producers_count(producers, bytes);
	if (!report)
		return;
	writer->producer_epoch = epoch;
	if (!producers_report(producers))
		return;
	uint64_t before = atomic_load(&producers->unmarked_bytes);
	mark_round(stream);
	producers_marked(producers, before);
}

static void end_pass(struct stream *stream, uint64_t bytes, bool whole, enum stream_pass pass)
{
	stream->unmarked_bytes += bytes;

	bool due = stream->unmarked_bytes >= stream->round_bytes && !mark_can_wait(stream);

	if (stream->round_bytes && whole && stream->unmarked_bytes && (due || pass == STREAM_DRAIN))
		mark_round(stream);
}

static bool is_due(const struct stream *stream)
{
	if (stream->writer->producers)
		return producers_due(stream->writer->producers, 0, false);
	return stream->round_bytes && stream->unmarked_bytes >= stream->round_bytes;
}

/* Is what the ring tells looked at? */
static bool is_tapped(const struct stream *stream, size_t ring)
{
	for (size_t i = 0; stream->tap && i < stream->nr_side_rings; i++)
		if (stream_ring(stream, i) == &stream->rings[ring])
			return true;
	return false;
}

/* Bytes of as many whole records as a visit to the ring finds at most. */
static size_t chunk_bytes(struct span records, size_t most)
{
	const uint8_t *bytes = records.ptr;
	struct perf_event_header header;
	size_t at = 0;

	while (records.len - at >= sizeof(header)) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > records.len - at || at + header.size > most)
			break;
		at += header.size;
	}
	return at;
}

static int put_chunk(struct stream *stream, struct span chunk, bool tapped)
{
	const struct span spans[2] = {chunk};
	int err = writer_queue_wait(stream->writer, spans, 1);

	if (err)
		return err;
	if (tapped)
		stream->tap->see(stream->tap, spans, stream->counters.bytes);
	stream->counters.bytes += chunk.len;
	stream->counters.chunks++;
	if (stream->writer->producers)
		producers_count(stream->writer->producers, chunk.len);
	else
		stream->unmarked_bytes += chunk.len;
	return 0;
}

int stream_put_early(struct stream *stream, size_t ring, struct span records)
{
	bool tapped = is_tapped(stream, ring);

	while (records.len) {
		size_t bytes = chunk_bytes(records, stream->rings[ring].bytes);
		if (!bytes)
			return -EBADMSG;
		int err = put_chunk(stream, (struct span){records.ptr, bytes}, tapped);
		if (err)
			return err;
		records = (struct span){(const uint8_t *)records.ptr + bytes, records.len - bytes};
	}
	return 0;
}

int64_t stream_pump(struct stream *stream, enum stream_pass pass)
{
	struct producers *producers = stream->writer->producers;
	uint64_t epoch = producers ? producers_epoch(producers) : 0;
	bool whole = is_due(stream) || pass != STREAM_FLOW || stream->flush_bytes <= 1;
	uint64_t began_ns = whole ? clock_ns(CLOCK_MONOTONIC) : 0;
	uint64_t kept = 0;
	int64_t total = 0;

	for (size_t i = 0; i < stream->nr_rings; i++) {
		/* What tells of tasks the converter needs at once. */
		bool takes_all = whole || (stream->converter && i < stream->nr_side_rings);
		int64_t moved = pump_ring(stream, i, takes_all, true, &kept);
		if (moved < 0)
			return moved;
		total += moved;
	}
	stream->counters.passes++;
	if (whole && stream->nr_rings)
		stream->writer->complete_ns = began_ns;
	if (producers)
		end_producer_pass(stream, epoch, kept, whole, pass);
	else
		end_pass(stream, kept, whole, pass);
	if (pass == STREAM_FIX)
		writer_fix_position(stream->writer);
	if (pass == STREAM_COMMIT)
		writer_commit(stream->writer, false);
	if (stream->storage)
		stream->storage->store(stream->storage, stream->writer);
	int err = writer_complete(stream->writer, pass == STREAM_DRAIN ? WRITER_ALL : WRITER_NOW);
	if (err) /* its own, or one of what came before */
		return err;
	/* Pairs with the acquire of the thread that tells the file's readers that so much is there. */
	atomic_store_explicit(&stream->stored, stream->writer->stored, memory_order_release);
	return total;
}

static int pump_each(struct stream *const streams[], size_t nr, enum stream_pass pass, struct stream **ret_failed)
{
	for (size_t i = 0; i < nr; i++) {
		int64_t moved = stream_pump(streams[i], pass);
		if (moved < 0) {
			*ret_failed = streams[i];
			return (int)moved;
		}
	}
	return 0;
}

/*
 * What a stage keeps has to wait for a pass that begins after it was read: with the passes in front of it a commit is
 * about all that has come, and not about what came before the last one, or, of two such stages, the one before that.
 */
int streams_pump(struct stream *const streams[], size_t nr, enum stream_pass pass, struct stream **ret_failed)
{
	unsigned nr_before = nr && pass == STREAM_COMMIT ? streams[0]->writer->nr_passes_before_commit : 0;
	int err = 0;

	for (unsigned i = 0; i < nr_before && !err; i++)
		err = pump_each(streams, nr, STREAM_FIX, ret_failed);
	return err ? err : pump_each(streams, nr, pass, ret_failed);
}

void stream_relieve(struct stream *stream)
{
	for (size_t i = 0; i < stream->nr_rings; i++) {
		uint64_t kept = 0;
		if (pump_ring(stream, i, true, false, &kept) < 0)
			return;
		if (stream->writer->producers)
			producers_count(stream->writer->producers, kept);
		else
			stream->unmarked_bytes += kept;
	}
}

static int64_t pump_tapped(struct stream *stream)
{
	int64_t moved = 0;

	for (size_t i = 0; i < stream->nr_side_rings && moved >= 0; i++)
		moved = pump_ring(stream, i, true, true, &stream->unmarked_bytes);
	return moved;
}

int stream_drain(struct stream *stream)
{
	int64_t moved = pump_tapped(stream);
	if (moved >= 0 && stream->tap)
		stream->tap->drain(stream->tap);
	if (moved >= 0)
		moved = stream_pump(stream, STREAM_ALL);

	/* The last samples may need what their tasks did while the other rings were visited. */
	if (moved >= 0)
		moved = pump_tapped(stream);
	if (moved < 0)
		return (int)moved;
	if (!stream->writer->producers && stream->round_bytes && stream->unmarked_bytes)
		mark_round(stream);
	/* Stages are told how far this came, also where there was nothing. */
	int err = writer_commit(stream->writer, true);
	/* Outputs are finished one after the other: nothing of this one waits for that in memory. */
	return err ? err : writer_fix_position(stream->writer);
}

struct writer *stream_exchange(struct stream *stream, struct writer *next)
{
	struct writer *before = stream->writer;

	stream->writer = next;
	if (stream->tap)
		stream->tap->cut(stream->tap, stream->counters.bytes);
	stream->unmarked_bytes = 0;
	atomic_store_explicit(&stream->stored, next->stored, memory_order_release);
	return before;
}
