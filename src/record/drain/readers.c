/* SPDX-License-Identifier: MIT */
#include "record/drain/readers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/text.h"
#include "record/drain/early_drain.h"
#include "record/drain/thread_spec.h"
#include "record/setup/eventset.h"
#include "sysinfo/thread.h"

/*
 * To compress what is in a ring takes four times as long as to copy it, while the others fill: 16 CPUs for a thread
 * lost 15 % so, where they are emulated. These are four CPUs, which have a ring of task events, too.
 */
enum { MOST_RINGS_TO_COMPRESS = 8 };

/* Gives each reader its stretch of the two lists: rings to watch, and streams. */
static void assign(struct readers *readers, const struct readers_params *params)
{
	const struct plan *plan = params->set->plan;
	size_t at = 0, stream_at = 0;

	for (size_t r = 0; r < readers->nr; r++) {
		struct reader *reader = &readers->readers[r];
		reader->rings = readers->rings + at;
		reader->streams = readers->streams + stream_at;
		for (size_t ring = 0; ring < plan->nr_rings; ring++) {
			if (thread_layout_of_ring(params->layout, &plan->rings[ring]) != r)
				continue;
			readers->rings[at++] = ring;
			reader->nr_rings++;
			if (ring >= plan->nr_drained)
				continue;
			struct stream *stream = params->streams[ring];
			if (reader->nr_streams && reader->streams[reader->nr_streams - 1] == stream)
				continue;
			readers->streams[stream_at++] = stream;
			reader->nr_streams++;
		}
		for (size_t i = 0; i < reader->nr_streams; i++)
			reader->streams[i]->compresses_later = reader->nr_rings > MOST_RINGS_TO_COMPRESS;
	}
}

static int make(struct readers *readers, const struct readers_params *params)
{
	int err = reader_control_init(&readers->control);

	size_t nr = params->layout ? params->layout->nr_threads : 1, room = params->set->plan->nr_rings + 1;
	readers->readers = calloc(nr, sizeof(*readers->readers));
	readers->streams = calloc(room, sizeof(struct stream *));
	readers->rings = calloc(room, sizeof(*readers->rings));
	if (!readers->readers || !readers->streams || !readers->rings)
		return -ENOMEM;
	readers->nr = nr;
	assign(readers, params);
	readers->control.readers = readers->readers;
	readers->control.nr_readers = readers->nr;
	readers->control.notifier = params->notifier;
	readers->control.notifies_wakeups = params->notifies_wakeups;
	for (size_t i = 0; i < readers->nr && !err; i++) {
		struct reader *reader = &readers->readers[i];
		reader->control = &readers->control;
		reader->set = params->set;
		reader->realtime = params->realtime;
		reader->stores = params->stores;
		reader->workload = params->workload;
		reader->affinity = params->layout ? &params->layout->threads[i].affinity : NULL;
		reader->may_leave_affinity = params->layout && params->layout->divided;
		err = reader_init(reader);
	}
	return err;
}

/*
 * What was read before the readers run goes where they would have written it. Bytes. An error is the writer's, which
 * keeps it for the reader.
 */
static size_t put_early(const struct readers_params *params)
{
	size_t bytes = 0;

	for (size_t ring = 0; ring < params->set->plan->nr_drained; ring++) {
		AUTO_BUF struct buf records = early_drain_take(params->early, ring);
		if (records.len)
			(void)!stream_put_early(params->streams[ring], ring, buf_span(&records));
		bytes += records.len;
	}
	return bytes;
}

/*
 * While the readers start, on a loaded machine each may wait long for its CPU, and while the most of it is written, the
 * rings are still drained. Then no thread drains them until the readers go on, which have their priority by then: this
 * thread must not wait for a CPU there, either.
 */
static int hand_over(struct readers *readers, const struct readers_params *params)
{
	enum { MOST_TRIES = 8, FEW_BYTES = 32 << 10 };
	struct priority before;
	const char *how;

	int err = reader_start(readers->readers, readers->nr);
	if (err)
		return err;
	for (int i = 0; i < MOST_TRIES && put_early(params) > FEW_BYTES; i++)
		;
	(void)!priority_raise(0, &before, &how);
	early_drain_stop(params->early);
	put_early(params);
	reader_go(readers->readers, readers->nr);
	priority_restore(&before);
	return 0;
}

int readers_start(struct readers *readers, const struct readers_params *params, struct diag *reterr)
{
	*readers = (struct readers){.control = {.stop_fd = -1, .notify_fd = -1, .switch_fd = -1}};
	int err = make(readers, params);

	if (!err)
		err = hand_over(readers, params);
	if (err == -EPERM)
		diag_set(reterr, err, "-r %d: not permitted: needs CAP_SYS_NICE or ulimit -r", params->realtime);
	else if (err)
		diag_set(reterr, err, "cannot start %zu thread%s: %s", readers->nr, text_s(readers->nr),
			 diag_start_error(err));
	if (err)
		readers_fini(readers);
	return err;
}

void readers_stop(struct readers *readers)
{
	reader_control_stop(&readers->control);
	reader_join(readers->readers, readers->nr);
}

int readers_error(const struct readers *readers, const struct stream **ret_failed)
{
	for (size_t i = 0; i < readers->nr; i++) {
		if (readers->readers[i].err) {
			*ret_failed = readers->readers[i].failed;
			return readers->readers[i].err;
		}
	}
	return 0;
}

void readers_switch(struct readers *readers, struct writer *(*next_of)(const struct stream *stream, void *ctx),
		    void *ctx, struct writer **room)
{
	size_t at = 0;

	reader_control_switch(&readers->control, readers->nr);
	for (size_t r = 0; r < readers->nr; r++) {
		struct reader *reader = &readers->readers[r];
		struct writer **first = room + at;
		for (size_t i = 0; i < reader->nr_streams; i++)
			room[at++] = next_of(reader->streams[i], ctx);
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
	if (!readers->readers && !readers->streams && !readers->rings)
		return;
	for (size_t i = 0; i < readers->nr; i++)
		reader_fini(&readers->readers[i]);
	reader_control_fini(&readers->control);
	free(readers->readers);
	free(readers->streams);
	free(readers->rings);
	*readers = (struct readers){0};
}
