/* SPDX-License-Identifier: MIT */
#include "record/readers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "record/data_files.h"
#include "record/eventset.h"
#include "record/thread_spec.h"

/* The stream that a drained ring is drained by: its own, that of its thread, or the one for all. */
static struct stream *stream_of_ring(const struct readers_params *params, size_t ring)
{
	size_t reader = thread_layout_of_ring(params->layout, &params->set->plan->rings[ring]);

	return &params->files->files[params->files->directory ? ring : reader].stream;
}

/* Gives each reader its stretch of the two lists: rings to watch, and streams. */
static void assign(struct readers *readers, const struct readers_params *params)
{
	const struct plan *plan = params->set->plan;
	size_t at = 0, stream_at = 0;

	for (size_t r = 0; r < readers->nr; r++) {
		struct reader *reader = &readers->readers[r];
		if (params->rings_move)
			at = stream_at = r * (plan->nr_rings + 1);
		reader->rings = readers->rings + at;
		reader->streams = readers->streams + stream_at;
		for (size_t ring = 0; ring < plan->nr_rings; ring++) {
			if (thread_layout_of_ring(params->layout, &plan->rings[ring]) != r)
				continue;
			readers->rings[at++] = ring;
			reader->nr_rings++;
			if (ring >= plan->nr_drained)
				continue;
			struct stream *stream = stream_of_ring(params, ring);
			if (reader->nr_streams && reader->streams[reader->nr_streams - 1] == stream)
				continue;
			readers->streams[stream_at++] = stream;
			reader->nr_streams++;
		}
	}
}

static int let_rings_move(struct readers *readers, const struct plan *plan)
{
	/* Of a ring that was split there are two. */
	int err = ring_move_init(&readers->move, plan->nr_drained, plan->nr_slots + 2 * plan->nr_drained);

	readers->ring_bytes = calloc(plan->nr_drained + 1, sizeof(*readers->ring_bytes));
	if (err || !readers->ring_bytes)
		return -ENOMEM;
	readers->control.move = &readers->move;
	readers->control.ring_bytes = readers->ring_bytes;
	return 0;
}

static int make(struct readers *readers, const struct readers_params *params)
{
	int err = reader_control_init(&readers->control);

	readers->nr = params->layout ? params->layout->nr_threads : 1;
	size_t room = (params->set->plan->nr_rings + 1) * (params->rings_move ? readers->nr : 1);
	readers->readers = calloc(readers->nr, sizeof(*readers->readers));
	readers->streams = calloc(room, sizeof(struct stream *));
	readers->rings = calloc(room, sizeof(*readers->rings));
	if (!readers->readers || !readers->streams || !readers->rings)
		return -ENOMEM;
	assign(readers, params);
	if (!err && params->rings_move)
		err = let_rings_move(readers, params->set->plan);
	readers->control.readers = readers->readers;
	readers->control.nr_readers = readers->nr;
	readers->control.bell = params->bell;
	readers->control.tells_wakeups = params->tells_wakeups;
	for (size_t i = 0; i < readers->nr && !err; i++) {
		struct reader *reader = &readers->readers[i];
		reader->control = &readers->control;
		reader->set = params->set;
		reader->growth = params->growth;
		reader->realtime = params->realtime;
		reader->workload = params->workload;
		reader->affinity = params->layout ? &params->layout->threads[i].affinity : NULL;
		err = reader_init(reader);
	}
	return err;
}

int readers_start(struct readers *readers, const struct readers_params *params, struct diag *reterr)
{
	*readers = (struct readers){.control = {.stop_fd = -1, .news_fd = -1, .switch_fd = -1}};
	int err = make(readers, params);

	if (!err)
		err = reader_start(readers->readers, readers->nr);
	if (err == -EPERM)
		diag_set(reterr, err, "-r %d: not permitted: needs CAP_SYS_NICE or ulimit -r", params->realtime);
	else if (err)
		diag_set(reterr, err, "cannot start %zu threads: %s", readers->nr, strerror(-err));
	if (err)
		readers_fini(readers);
	return err;
}

void readers_stop(struct readers *readers)
{
	reader_control_stop(&readers->control);
	reader_join(readers->readers, readers->nr);
	if (ring_move_is(readers->control.move, RING_MOVE_POSTED, readers->move.to))
		reader_drain_late(&readers->readers[readers->move.to]);
}

int readers_error(const struct readers *readers, const struct data_files *files, struct diag *reterr)
{
	for (size_t i = 0; i < readers->nr; i++)
		if (readers->readers[i].err)
			return data_files_error(files, readers->readers[i].failed, readers->readers[i].err, reterr);
	return 0;
}

void readers_switch(struct readers *readers, const struct data_files *files, const struct data_files *next,
		    struct writer **room)
{
	size_t at = 0;

	reader_control_switch(&readers->control, readers->nr);
	for (size_t r = 0; r < readers->nr; r++) {
		struct reader *reader = &readers->readers[r];
		struct writer **first = room + at;
		for (size_t i = 0; i < reader->nr_streams; i++)
			room[at++] = next->files[data_files_index(files, reader->streams[i])].stream.writer;
		reader_switch(reader, first);
	}
}

bool readers_switched(const struct readers *readers)
{
	return !atomic_load(&readers->control.nr_switching);
}

void readers_switch_late(struct readers *readers)
{
	for (size_t r = 0; r < readers->nr; r++)
		reader_switch_late(&readers->readers[r]);
}

void readers_fini(struct readers *readers)
{
	if (!readers->readers)
		return;
	for (size_t i = 0; i < readers->nr; i++)
		reader_fini(&readers->readers[i]);
	reader_control_fini(&readers->control);
	free(readers->readers);
	free(readers->streams);
	free(readers->rings);
	ring_move_fini(&readers->move);
	free(readers->ring_bytes);
	*readers = (struct readers){0};
}
