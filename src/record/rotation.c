/* SPDX-License-Identifier: MIT */
#include "record/rotation.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "record/eventset.h"
#include "record/flight.h"
#include "record/ledger.h"
#include "record/loss_records.h"
#include "record/outlet.h"
#include "record/readers.h"
#include "record/recorder_cost.h"
#include "record/recording.h"
#include "record/sideline.h"
#include "stream/pack_stage.h"

enum {
	JOBS_MAX = 3,              /* files that are finished while another is recorded: each has memory and fds */
	WORLD_GROWTH = 256 * 1024, /* beside twice what the world was */
};

static int check_sink(const struct rotation *rotation, struct diag *reterr)
{
	const struct sink *sink = &rotation->outlet->sink;
	struct stat st;

	if (rotation->outlet->held)
		return 0;
	if (!rotation->spec.on && !rotation->max_bytes && !rotation->timestamp)
		return 0;
	if (sink->pipe || fstat(sink->fd, &st) || !S_ISREG(st.st_mode))
		return diag_set(reterr, -EINVAL, "%s: --switch-output, --max-size and --timestamp-filename are for files",
				sink->path);
	return 0;
}

int rotation_open(struct rotation *rotation, struct diag *reterr)
{
	const struct plan *plan = rotation->params->set->plan;
	int err = check_sink(rotation, reterr);

	if (err)
		return err;
	rotation->next_ns = UINT64_MAX;
	rotation->names.base = rotation->outlet->sink.path;
	rotation->names.keep = rotation->params->options->max_files;
	rotation->finisher.params = rotation->params;
	rotation->finisher.names = &rotation->names;
	rotation->finisher.news_fd = rotation->readers->control.news_fd;
	rotation->finisher.wake_fd = rotation->readers->control.switch_fd;
	finisher_init(&rotation->finisher);
	rotation->told_lost = calloc(plan->nr_slots + 1, sizeof(*rotation->told_lost));
	rotation->room = calloc(plan->nr_rings + 1, sizeof(struct writer *));
	if (!rotation->told_lost || !rotation->room)
		return diag_set(reterr, -ENOMEM, "out of memory");
	err = rotation->spec.on ? finisher_start(&rotation->finisher) : 0;
	return err ? diag_set(reterr, err, "cannot start a thread: %s", strerror(-err)) : 0;
}

/* Sets the next mark and the next moment, as seen from the present file. */
static void aim(struct rotation *rotation)
{
	uint64_t bytes = rotation->spec.bytes, max_bytes = rotation->max_bytes;
	uint64_t least = !bytes || (max_bytes && max_bytes < bytes) ? max_bytes : bytes;

	rotation->base_bytes = rotation->nr_switches ? atomic_load(&rotation->readers->control.stored) : 0;
	if (least)
		atomic_store(&rotation->readers->control.mark, rotation->base_bytes + least);
	if (rotation->spec.period_ns)
		rotation->next_ns = clock_ns(CLOCK_MONOTONIC) + rotation->spec.period_ns;
}

void rotation_start(struct rotation *rotation)
{
	aim(rotation);
}

static int open_sink(struct rotation *rotation, struct finisher_job *job, struct diag *reterr)
{
	const struct recording_options *options = rotation->params->options;
	const char *path = rotation->outlet->sink.path;

	return options->directory ? sink_open_directory(path, &job->outlet.sink, reterr)
				: sink_open(path, &job->outlet.sink, reterr);
}

/* The present file makes room for the next, under a name that tells that it is not finished. */
static int open_next(struct rotation *rotation, struct finisher_job *job, struct diag *reterr)
{
	const char *path = rotation->outlet->sink.path;
	size_t world_bytes = rotation->params->options->tail_synthesize ? 0 : 2 * rotation->world_bytes + WORLD_GROWTH;

	job->name = part_names_next(&rotation->names);
	if (!job->name || asprintf(&job->while_open, "%s.part", job->name) < 0)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (rotation->outlet->held) {
		job->outlet.sink.path = path;
		return outlet_open_held(&job->outlet, rotation->params, reterr);
	}
	if (rename(path, job->while_open))
		return diag_set(reterr, -errno, "cannot rename %s to %s: %s", path, job->while_open, strerror(errno));
	int err = open_sink(rotation, job, reterr);
	if (!err)
		err = outlet_open(&job->outlet, rotation->params, world_bytes, reterr);
	if (err) {
		if (job->outlet.sink.fd >= 0)
			sink_remove(path);
		rename(job->while_open, path);
	}
	return err;
}

static int begin(struct rotation *rotation, struct diag *reterr)
{
	struct finisher_job *job = calloc(1, sizeof(*job));

	rotation->wanted = rotation->post = false;
	rotation->next_ns = UINT64_MAX;
	if (!job)
		return diag_set(reterr, -ENOMEM, "out of memory");
	job->outlet.sink.fd = -1;
	int err = open_next(rotation, job, reterr);
	if (err) {
		diag_prefix(reterr, "switching the output");
		finisher_job_free(job);
		return err;
	}
	/* What tasks do from here on belongs to what the next snapshot holds. */
	if (rotation->flight)
		(void)!sideline_hold(rotation->params->sideline); /* out of memory: then /proc is asked */
	/* The moment of the snapshot. What an ioctl refuses makes it short, and nothing is lost. */
	err = flight_freeze(rotation->flight);
	if (err)
		log_note("the last moments may be incomplete: %s", strerror(-err));
	rotation->job = job;
	rotation->pause(rotation->other);
	readers_switch(rotation->readers, &rotation->outlet->files, &job->outlet.files, rotation->room);
	return 0;
}

/* What is held is wanted; is more to come first? */
static bool begin_post(struct rotation *rotation)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	pack_stage_ask(rotation->outlet->writer);
	if (!rotation->spec.post_ns || rotation->job || rotation->wanted)
		return false;
	if (!rotation->post)
		rotation->next_ns = now + rotation->spec.post_ns;
	rotation->post = true;
	return now < rotation->next_ns;
}

int rotation_trigger(struct rotation *rotation, struct diag *reterr)
{
	if (!rotation->spec.on)
		return 0;
	if (rotation->outlet->held && begin_post(rotation))
		return 0;
	if (rotation->job || finisher_nr_jobs(&rotation->finisher) >= (rotation->outlet->held ? 1 : JOBS_MAX)) {
		rotation->wanted = true;
		rotation->next_ns = UINT64_MAX;
		return 0;
	}
	return begin(rotation, reterr);
}

/* The outputs trade places, but for the streams, which the readers have. */
static void exchange(struct rotation *rotation)
{
	struct outlet *now = rotation->outlet, *next = &rotation->job->outlet;

	data_files_exchange(&now->files, &next->files);
	struct outlet before = *now;
	struct data_files streams = now->files;
	*now = *next;
	*next = before;
	next->files = now->files;
	now->files = streams;
}

/* What was lost up to here is told in the former file: all that is lost while its rings are paused, too. */
static int account(struct rotation *rotation, struct finisher_job *job)
{
	const struct outlet_params *params = rotation->params;
	int err = 0;

	for (size_t i = 0; i < params->set->plan->nr_slots && !err; i++) {
		const struct flight_pause pause = flight_pause_of(rotation->flight, i);
		if (pause.to_ns)
			err = ledger_book_note_pause(rotation->book, i, pause.from_ns, pause.to_ns);
	}
	if (!err)
		err = ledger_book_cut(rotation->book, &job->ledger);
	if (!err)
		err = recorder_cost_cut(rotation->cost, &job->ledger);
	return err ? err
		   : loss_records_add(params->set, params->described, rotation->book->lost, rotation->told_lost,
				      &job->records, &job->lost);
}

/* All readers have the next output: the former one is to be finished, and the state of the world is as of now. */
static int complete(struct rotation *rotation, struct diag *reterr)
{
	struct finisher_job *job = rotation->job;
	const struct outlet_params *params = rotation->params;

	exchange(rotation);
	rotation->job = NULL;
	rotation->nr_switches++;
	int err = flight_collect(rotation->flight, &job->records);
	if (!err)
		err = account(rotation, job);
	if (err)
		diag_set(reterr, err, "out of memory");
	if (job->outlet.held)
		sideline_window(params->sideline, 0, 0); /* nothing is too old until it is written */
	finisher_add(&rotation->finisher, job);
	if (!err && !params->options->tail_synthesize && !rotation->outlet->held)
		err = outlet_put_world(rotation->outlet, params, &rotation->world_bytes, reterr);
	outlet_finish_ahead(rotation->outlet, params);
	aim(rotation);
	return err;
}

static int complete_and_resume(struct rotation *rotation, struct diag *reterr)
{
	int err = complete(rotation, reterr);
	int resume_err = rotation->resume(rotation->other);

	if (resume_err && !err)
		err = diag_set(reterr, resume_err, "switching the output: %s", strerror(-resume_err));
	return err;
}

int rotation_step(struct rotation *rotation, bool *ret_full, struct diag *reterr)
{
	struct reader_control *control = &rotation->readers->control;
	uint64_t count;
	int err = 0;

	(void)!read(control->switch_fd, &count, sizeof(count));
	if (rotation->job && readers_switched(rotation->readers))
		err = complete_and_resume(rotation, reterr);
	uint64_t bytes = atomic_load(&control->stored) - rotation->base_bytes;
	*ret_full = rotation->max_bytes && bytes >= rotation->max_bytes && !rotation->job;
	bool due = rotation->spec.bytes && bytes >= rotation->spec.bytes;
	if (err || *ret_full || rotation->job)
		return err;
	if (due || rotation->wanted || clock_ns(CLOCK_MONOTONIC) >= rotation->next_ns)
		err = rotation_trigger(rotation, reterr);
	return err;
}

/* The one that is recorded into at the end. */
static int finish_last(struct rotation *rotation, const struct outlet_closing *closing, struct diag *reterr)
{
	const struct outlet_closing of_span = {.ledger = &rotation->book->span};
	const struct outlet_params *params = rotation->params;
	struct finisher_job job = {.flight = rotation->flight};
	int err = 0;

	if (rotation->outlet->held && !rotation->post && !rotation->wanted) {
		data_files_join(&rotation->outlet->files);
		writer_close(take_ptr(rotation->outlet->writer), NULL); /* nobody wants it */
		return 0;
	}
	if (rotation->outlet->held)
		sideline_end(params->sideline);
	if (rotation->spec.on || rotation->timestamp) {
		job.name = part_names_next(&rotation->names);
		if (!job.name || (rotation->outlet->held && asprintf(&job.while_open, "%s.part", job.name) < 0))
			err = diag_set(reterr, -ENOMEM, "out of memory");
	}
	if (loss_records_add(params->set, params->described, rotation->book->lost, rotation->told_lost, &job.records,
			     &job.lost) && !err)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	/* The closing is of the whole recording: it would be wrong about one file of several. */
	int do_err = finisher_do(&rotation->finisher, &job, rotation->outlet, rotation->nr_switches ? &of_span : closing,
				 err ? NULL : reterr);
	buf_fini(&job.records);
	free(job.while_open);
	free(job.name);
	return err ? err : do_err;
}

int rotation_settle(struct rotation *rotation, struct diag *reterr)
{
	if (!rotation->job)
		return 0;
	readers_switch_late(rotation->readers);
	return complete(rotation, reterr);
}

int rotation_finish(struct rotation *rotation, const struct outlet_closing *closing, struct outlet_result *ret,
		    struct diag *reterr)
{
	struct diag later;
	int err = 0;

	finisher_stop(&rotation->finisher);
	if (rotation->finisher.err) {
		err = rotation->finisher.err;
		diag_set(reterr, err, "%s", rotation->finisher.diag.text);
	}
	int last_err = finish_last(rotation, closing, err ? &later : reterr);
	*ret = rotation->finisher.totals;
	return err ? err : last_err;
}

void rotation_close(struct rotation *rotation)
{
	finisher_stop(&rotation->finisher);
	finisher_job_free(take_ptr(rotation->job));
	free(take_ptr(rotation->room));
	free(take_ptr(rotation->told_lost));
	part_names_fini(&rotation->names);
}
