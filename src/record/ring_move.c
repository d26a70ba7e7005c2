/* SPDX-License-Identifier: MIT */
#include "record/ring_move.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/balance.h"
#include "record/eventset.h"
#include "record/reader.h"
#include "record/ring_growth.h"
#include "stream/stream.h"
#include "stream/writer.h"

int ring_move_init(struct ring_move *move, size_t nr_rings, size_t nr_fds)
{
	*move = (struct ring_move){
		.rings = calloc(nr_rings + 1, sizeof(*move->rings)),
		.streams = calloc(nr_rings + 1, sizeof(struct stream *)),
	};
	if (move->rings && move->streams && !polls_init(&move->polls, nr_fds))
		return 0;
	ring_move_fini(move);
	return -ENOMEM;
}

void ring_move_fini(struct ring_move *move)
{
	free(move->rings);
	free(move->streams);
	polls_fini(&move->polls);
	*move = (struct ring_move){0};
}

static void turn_to(struct ring_move *move, enum ring_move_step step, size_t reader)
{
	atomic_store_explicit(&move->turn, ring_move_turn_of(step, reader), memory_order_release);
}

void ring_move_order(struct ring_move *move, const struct reader_control *control, const struct balance_move *wanted)
{
	memcpy(move->rings, wanted->rings, wanted->nr_rings * sizeof(*move->rings));
	move->nr_rings = wanted->nr_rings;
	move->from = wanted->from;
	move->to = wanted->to;
	turn_to(move, RING_MOVE_ORDERED, move->from);
	reader_wake(&control->readers[move->from]);
}

static bool shares_output(const struct reader *reader)
{
	return reader->nr_streams && reader->streams[0]->writer->lanes;
}

/* The grower has nothing to do with it, nor is there anything that its reader is to do. */
static bool stays_as_it_is(const struct reader *reader, size_t ring)
{
	enum growth_step step = reader->growth ? ring_growth_step(reader->growth, ring) : GROWTH_FIXED;

	return step == GROWTH_STEADY || step == GROWTH_FIXED;
}

static size_t find_stream(const struct reader *reader, size_t ring)
{
	size_t i = 0;

	while (i < reader->nr_streams && reader->streams[i]->which[0] != ring)
		i++;
	return i;
}

/* With all that its writer has not yet written. */
static struct stream *drop_stream(struct reader *reader, size_t ring)
{
	size_t at = find_stream(reader, ring);
	struct stream *stream = reader->streams[at];

	for (reader->nr_streams--; at < reader->nr_streams; at++)
		reader->streams[at] = reader->streams[at + 1];
	reader->told_bytes -= stream->writer->stored;
	reader->told_tight -= stream->counters.tight;
	return stream;
}

static void add_stream(struct reader *reader, struct stream *stream)
{
	reader->streams[reader->nr_streams++] = stream;
	reader->told_bytes += stream->writer->stored;
	reader->told_tight += stream->counters.tight;
}

static void drop_from_list(struct reader *reader, size_t ring)
{
	size_t kept = 0;

	for (size_t i = 0; i < reader->nr_rings; i++)
		if (reader->rings[i] != ring)
			reader->rings[kept++] = reader->rings[i];
	reader->nr_rings = kept;
}

static bool drop_ring(struct ring_move *move, struct reader *reader, size_t ring, struct stream **ret_stream)
{
	if (!stays_as_it_is(reader, ring))
		return false;
	*ret_stream = NULL;
	if (!shares_output(reader))
		*ret_stream = drop_stream(reader, ring);
	else if (!stream_drop_ring(reader->streams[0], ring))
		return false;
	drop_from_list(reader, ring);
	polls_move_ring(&reader->polls, &move->polls, ring);
	return true;
}

void ring_move_let_go(struct ring_move *move, struct reader *reader)
{
	size_t nr = 0;

	for (size_t i = 0; i < move->nr_rings; i++) {
		size_t ring = move->rings[i];
		if (drop_ring(move, reader, ring, &move->streams[nr]))
			move->rings[nr++] = ring;
	}
	if (!nr)
		return;
	reader->told_stuck = reader_count_stuck(reader);
	move->nr_rings = nr;
	size_t to = move->to; /* it is not ours to look at when it was posted */
	turn_to(move, RING_MOVE_POSTED, to);
	reader_wake(&reader->control->readers[to]);
}

static void add_ring(struct ring_move *move, struct reader *reader, size_t ring, struct stream *stream)
{
	if (stream)
		add_stream(reader, stream);
	else
		stream_add_ring(reader->streams[0], ring);
	reader->rings[reader->nr_rings++] = ring;
	polls_move_ring(&move->polls, &reader->polls, ring);
	if (reader->growth)
		reader->growth->rings[ring].wake_fd = reader->wake_fd;
}

void ring_move_take(struct ring_move *move, struct reader *reader)
{
	for (size_t i = 0; i < move->nr_rings; i++)
		add_ring(move, reader, move->rings[i], move->streams[i]);
	reader->told_stuck = reader_count_stuck(reader);
	move->done_ns = clock_ns(CLOCK_MONOTONIC);
	turn_to(move, RING_MOVE_NONE, 0);
}
