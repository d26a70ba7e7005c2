/* SPDX-License-Identifier: MIT */
#include "record/run/rotation.h"

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
#include "base/text.h"
#include "event/parse/configure.h"
#include "record/build_ids/object_watch.h"
#include "record/drain/overwrite.h"
#include "record/drain/readers.h"
#include "record/off_cpu/off_cpu_stage.h"
#include "record/output/output_file.h"
#include "record/output/task_log.h"
#include "record/run/ledger.h"
#include "record/run/off_cpu_run.h"
#include "record/setup/eventset.h"
#include "record/setup/options.h"
#include "record/synth/synth.h"
#include "record/unwind/unwinding.h"
#include "stream/pipeline.h"

enum {
	INITIAL_GROWTH = 256 * 1024, /* beside twice what the initial state took */
};

/* A record may come so long after its time: rings are drained once a second at the least. */
#define LONGEST_DELAY_NS 4000000000ull

/* An output that is to be finished. */
struct finisher_job {
	struct finisher_job *next;
	struct output_file output;
	char *while_open;             /* heap; the name of the file until it is finished; NULL: as its output says */
	char *name;                   /* heap; and then */
	struct buf records;           /* behind all others */
	struct ledger ledger;         /* of its time */
	uint64_t lost;                /* of events, as told by `records` */
	uint64_t lost_task_events;    /* likewise; not in `lost` */
	struct off_cpu_window window; /* of records of the overwrite rings */
	uint64_t marked_ns;           /* up to then the snapshot before has them; 0: there is none */
	bool overwritten;             /* before the window there are some that are not whole */
	uint64_t nr_emptied;          /* overwrite rings that were overwritten while they were copied */
	struct overwrite *overwrite;  /* borrowed; of the last file: its records go there, too. NULL: none */
	unsigned next_output;         /* object_watch_next_output(); 0: its initial state comes at its end */
};

static void job_free(struct finisher_job *job)
{
	if (!job)
		return;
	output_file_fini(&job->output);
	buf_fini(&job->records);
	ledger_fini(&job->ledger);
	free(job->while_open);
	free(job->name);
	free(job);
}

static void log_finished(const struct output_params *params, const struct finisher_job *job,
			 const struct output_file *output, const struct output_result *result)
{
	AUTO_BUF struct buf line = {0};

	buf_printf(&line, "wrote %s: ", job->name);
	if (result->samples_counted)
		buf_printf(&line, "%llu samples, ", (unsigned long long)result->nr_samples);
	buf_printf(&line, "%.3f MB; lost %llu", (double)result->bytes / 1e6, (unsigned long long)job->lost);
	if (job->lost_task_events)
		buf_printf(&line, "; lost %llu task event%s (mmap, comm, fork, exit)",
			   (unsigned long long)job->lost_task_events, text_s(job->lost_task_events));
	if (job->nr_emptied)
		buf_printf(&line, "; nothing of %llu ring%s: overwritten while copied",
			   (unsigned long long)job->nr_emptied, text_s(job->nr_emptied));
	if (params->options->rotation.history_ns)
		buf_printf(&line, "; the last %.3f s", output->history_s);
	log_note("%s", buf_text(&line));
}

static void add_result(struct output_result *totals, const struct output_result *result)
{
	totals->bytes += result->bytes;
	totals->nr_samples += result->nr_samples;
	totals->samples_counted = result->samples_counted;
	totals->unwritten_bytes += result->unwritten_bytes;
	totals->cut_samples += result->cut_samples;
	totals->end_cpu_ns += result->end_cpu_ns;
}

/* There is no file for the retained records. */
static int give_up(struct finisher *finisher, struct output_file *output, int err)
{
	pthread_mutex_lock(&finisher->lock);
	finisher->totals.unwritten_bytes += output->writer->queued;
	finisher->gave_up = true;
	pthread_mutex_unlock(&finisher->lock);
	writer_close(take_ptr(output->writer), NULL);
	output_path_undo(&output->dest);
	return err;
}

/* What is older is not all there; UINT64_MAX: nor is what is newer. */
static void begin_window(struct finisher_job *job, uint64_t whole_from_ns)
{
	struct off_cpu_window *window = &job->window;

	if (whole_from_ns <= window->from_ns)
		return;
	window->from_ns = whole_from_ns < window->to_ns ? whole_from_ns : window->to_ns;
	job->overwritten = true;
}

/* A time off the CPU without an end or a beginning in the window is not there, and samples of the CPU may be older. */
static int account_window(const struct finisher_job *job, struct ledger *ledger)
{
	const struct off_cpu_window *window = &job->window;
	struct ledger_entry entry = {
		.event = (uint32_t)LEDGER_NO_EVENT,
		.cause = LEDGER_OVERWRITTEN,
		.cpu = -1,
		.tid = -1,
		.from_ns = job->marked_ns ? job->marked_ns : ledger->started_ns,
		.to_ns = window->from_ns < window->to_ns ? window->from_ns : window->to_ns,
	};

	if (entry.from_ns > entry.to_ns) /* all of the time is there */
		entry.to_ns = entry.from_ns;
	int err = ledger_add(ledger, &entry);
	entry.from_ns = window->to_ns;
	entry.to_ns = ledger->ended_ns;
	return err || !job->overwrite || entry.from_ns >= entry.to_ns ? err : ledger_add(ledger, &entry);
}

/* Other load, whose wake-ups are in the rings as well, may leave little time in them. */
static void log_window(struct off_cpu_window window)
{
	if (window.from_ns < window.to_ns)
		log_note("--off-cpu: the overwritten rings held the waits of the last %.3f ms; larger ones (-m) hold "
			 "more",
			 (double)(window.to_ns - window.from_ns) / 1e6);
	else
		log_note("--off-cpu: the overwritten rings held no waits; larger ones (-m) do");
}

/*
 * What the overwritten rings held. Where it is changed all of it is taken at once, for the order of time; the stages
 * have to have seen all that was recorded before.
 */
static int put_last_moments(struct rotation *rotation, struct finisher_job *job, struct output_file *output,
			    struct ledger *ledger)
{
	uint64_t whole_from_ns = 0;
	int err = 0;

	if (!rotation->overwrite || (!rotation->unwinding && !rotation->off_cpu->stages))
		return overwrite_end_into(job->overwrite, output->writer);
	output_file_run_stages(output);
	if (job->overwrite) {
		err = overwrite_end(job->overwrite, &job->records, &whole_from_ns);
		job->marked_ns = rotation->marked_ns;
		job->window = (struct off_cpu_window){.from_ns = rotation->marked_ns, .to_ns = UINT64_MAX};
		begin_window(job, whole_from_ns);
	}
	err = err ? err : unwinding_snapshot(rotation->unwinding, rotation->params->pool, &job->records);
	int taken = err ? err : off_cpu_snapshot(rotation->off_cpu->stages, &job->window, &job->records);
	if (taken > 0 && job->overwritten)
		log_window(job->window);
	return taken > 0 && ledger ? account_window(job, ledger) : taken < 0 ? taken : 0;
}

/* Of one that others removed or renamed: another file may have its name, which is not ours to rename. */
static int check_change(const struct output_path *dest, enum output_change change, struct diag *reterr)
{
	if (change == OUTPUT_IN_PLACE)
		return 0;
	return diag_set(reterr, -ESTALE, "%s was %s while it was recorded", dest->path,
			change == OUTPUT_REMOVED ? "removed" : "renamed");
}

/* The one that is recorded into at the end has its first name until then. */
static enum output_change note_change(struct rotation *rotation, const struct output_file *output)
{
	AUTO_FREE char *renamed = NULL;
	enum output_change change = output_path_change(&output->dest, &renamed);

	if (!rotation->names.nr) {
		rotation->change = change;
		rotation->renamed = take_ptr(renamed);
	}
	return change;
}

/* Finishes an output here and now. The job, whose own output is not used, stays the caller's. */
static int finish_output(struct rotation *rotation, struct finisher_job *job, struct output_file *output,
			 const struct output_closing *closing, struct diag *reterr)
{
	const struct output_params *params = rotation->params;
	struct finisher *finisher = &rotation->finisher;
	struct output_closing of_end = *closing;
	struct output_result result;
	struct diag later;
	const char *path = job->while_open ? job->while_open : output->dest.path;
	of_end.cpu_from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = output->retained ? output_file_write_retained(output, params, path, reterr) : 0;

	if (output->retained)
		return give_up(finisher, output, err);
	int overwrite_err = put_last_moments(rotation, job, output, closing->ledger);
	if (overwrite_err && !err)
		err = diag_set(reterr, overwrite_err, "%s: writing the records of the overwrite rings failed: %s",
			       output->dest.path, strerror(-overwrite_err));
	if (params->options->tail_synthesize)
		err = err ? err : output_file_put_initial_state(output, params, NULL, reterr);

	int put_err = output_file_put(output, params, &job->records, err ? &later : reterr);
	err = err ? err : put_err;
	enum output_change change = job->while_open ? OUTPUT_IN_PLACE : note_change(rotation, output);
	int close_err = output_file_close(output, params, &of_end, &result, err ? &later : reterr);
	err = err ? err : close_err;
	result.end_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - of_end.cpu_from_ns;
	if (job->name && change != OUTPUT_IN_PLACE) {
		int change_err = check_change(&output->dest, change, err ? &later : reterr);
		err = err ? err : change_err;
	} else if (job->name && rename(path, job->name)) {
		if (!err)
			err = diag_set(reterr, -errno, "cannot rename %s to %s: %s", path, job->name, strerror(errno));
	} else if (job->name) {
		log_finished(params, job, output, &result);
		int add_err = part_names_add(&rotation->names, take_ptr(job->name), err ? &later : reterr);
		err = err ? err : add_err;
	}
	pthread_mutex_lock(&finisher->lock);
	add_result(&finisher->totals, &result);
	pthread_mutex_unlock(&finisher->lock);
	return err;
}

static void wake(int fd)
{
	const uint64_t one = 1;

	(void)!fd_write(fd, &one, sizeof(one));
}

static void note_error(struct rotation *rotation, int err, const struct diag *diag)
{
	struct finisher *finisher = &rotation->finisher;

	pthread_mutex_lock(&finisher->lock);
	if (!finisher->err) {
		finisher->err = err;
		finisher->diag = *diag;
	}
	pthread_mutex_unlock(&finisher->lock);
	wake(rotation->readers->control.notify_fd);
}

/* NULL: there is none, and none will come. */
static struct finisher_job *next_job(struct finisher *finisher)
{
	pthread_mutex_lock(&finisher->lock);
	while (!finisher->first && !finisher->stop)
		pthread_cond_wait(&finisher->work, &finisher->lock);
	struct finisher_job *job = finisher->first;
	if (job) {
		finisher->first = job->next;
		if (!finisher->first)
			finisher->last = NULL;
	}
	pthread_mutex_unlock(&finisher->lock);
	return job;
}

static void *run_finisher(void *arg)
{
	struct rotation *rotation = arg;
	struct finisher *finisher = &rotation->finisher;

	for (struct finisher_job *job; (job = next_job(finisher));) {
		const struct output_closing closing = {.ledger = &job->ledger};
		struct diag diag = {0};
		int err = finish_output(rotation, job, &job->output, &closing, &diag);
		/* One more is kept: what has ended before the state of the next was collected has samples there. */
		if (job->next_output)
			object_watch_forget(rotation->params->watch, job->next_output - 1);
		job_free(job);
		if (err)
			note_error(rotation, err, &diag);
		pthread_mutex_lock(&finisher->lock);
		finisher->nr_jobs--;
		pthread_mutex_unlock(&finisher->lock);
		wake(rotation->readers->control.switch_fd);
	}
	return NULL;
}

/* Owns the job from here on. */
static void finisher_add(struct finisher *finisher, struct finisher_job *job)
{
	pthread_mutex_lock(&finisher->lock);
	job->next = NULL;
	*(finisher->last ? &finisher->last->next : &finisher->first) = job;
	finisher->last = job;
	finisher->nr_jobs++;
	pthread_cond_signal(&finisher->work);
	pthread_mutex_unlock(&finisher->lock);
}

static size_t finisher_nr_jobs(struct finisher *finisher)
{
	pthread_mutex_lock(&finisher->lock);
	size_t nr = finisher->nr_jobs;
	pthread_mutex_unlock(&finisher->lock);
	return nr;
}

/* When all that was added is done. Idempotent; one that was not started is fine. */
static void finisher_stop(struct finisher *finisher)
{
	if (!finisher->started)
		return;
	pthread_mutex_lock(&finisher->lock);
	finisher->stop = true;
	pthread_cond_signal(&finisher->work);
	pthread_mutex_unlock(&finisher->lock);
	pthread_join(finisher->thread, NULL);
	finisher->started = false;
}

static int check_path(const struct rotation *rotation, struct diag *reterr)
{
	const struct output_path *dest = &rotation->output->dest;
	struct stat st;

	if (rotation->output->retained)
		return 0;
	if (!rotation->spec.on && !rotation->max_bytes && !rotation->timestamp)
		return 0;
	if (dest->pipe || fstat(dest->fd, &st) || !S_ISREG(st.st_mode))
		return diag_set(reterr, -EINVAL,
				"%s: --switch-output, --max-size and --timestamp-filename are for files", dest->path);
	return 0;
}

int rotation_open(struct rotation *rotation, struct diag *reterr)
{
	const struct plan *plan = rotation->params->set->plan;
	int err = check_path(rotation, reterr);

	if (err)
		return err;
	rotation->next_ns = UINT64_MAX;
	rotation->forget_ns = UINT64_MAX;
	rotation->names.base = rotation->output->dest.path;
	rotation->names.keep = rotation->params->options->max_files;
	pthread_mutex_init(&rotation->finisher.lock, NULL);
	pthread_cond_init(&rotation->finisher.work, NULL);
	rotation->reported_lost = calloc(plan->nr_slots + 1, sizeof(*rotation->reported_lost));
	rotation->room = calloc(plan->nr_rings + 1, sizeof(struct writer *));
	if (!rotation->reported_lost || !rotation->room)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (rotation->spec.on) {
		overwrite_start(rotation->overwrite);
		err = -pthread_create(&rotation->finisher.thread, NULL, run_finisher, rotation);
		rotation->finisher.started = !err;
	}
	return err ? diag_set(reterr, err, "cannot start a thread: %s", diag_start_error(err)) : 0;
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

/* Overwrite rings may have older records than the memory for retained ones. */
static bool may_forget(const struct rotation *rotation)
{
	return rotation->output->retained && !rotation->overwrite && rotation->params->watch;
}

static uint64_t next_forget_ns(const struct rotation *rotation)
{
	return clock_ns(CLOCK_MONOTONIC) + rotation->params->options->rotation.history_ns + LONGEST_DELAY_NS;
}

void rotation_start(struct rotation *rotation)
{
	aim(rotation);
	rotation->forget_ns = may_forget(rotation) ? next_forget_ns(rotation) : UINT64_MAX;
}

/*
 * Retained records: days may pass without a snapshot. What was not mapped since this was called before, nor at the
 * oldest record in memory, which is younger than that, is closed. Not while a snapshot is written, which uses the
 * files.
 */
static void forget_unmapped(struct rotation *rotation)
{
	AUTO_BUF struct buf maps = {0};

	if (clock_ns(CLOCK_MONOTONIC) < rotation->forget_ns)
		return;
	rotation->forget_ns = next_forget_ns(rotation);
	if (rotation->job || rotation->wanted || rotation->post || finisher_nr_jobs(&rotation->finisher))
		return;
	const unsigned now = object_watch_next_output(rotation->params->watch);
	if (!task_log_put_known(rotation->params->task_log, &maps))
		return;
	object_watch_note(rotation->params->watch, buf_span(&maps));
	object_watch_forget(rotation->params->watch, now - 1);
}

static int open_path(struct rotation *rotation, struct finisher_job *job, struct diag *reterr)
{
	const struct recording_options *options = rotation->params->options;
	const char *path = rotation->output->dest.path;

	return options->directory ? output_path_open_directory(path, &job->output.dest, reterr)
				  : output_path_open(path, &job->output.dest, reterr);
}

/* The present file makes room for the next, under a name that tells that it is not finished. */
static int open_next(struct rotation *rotation, struct finisher_job *job, struct diag *reterr)
{
	const char *path = rotation->output->dest.path;
	AUTO_FREE char *renamed = NULL;
	size_t initial_bytes =
		rotation->params->options->tail_synthesize ? 0 : 2 * rotation->initial_bytes + INITIAL_GROWTH;

	job->name = part_names_next(&rotation->names);
	if (!job->name || asprintf(&job->while_open, "%s.part", job->name) < 0)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (rotation->output->retained) {
		job->output.dest.path = path;
		return output_file_open_retained(&job->output, rotation->params, reterr);
	}
	int err = check_change(&rotation->output->dest, output_path_change(&rotation->output->dest, &renamed), reterr);
	if (err)
		return err;
	if (rename(path, job->while_open))
		return diag_set(reterr, -errno, "cannot rename %s to %s: %s", path, job->while_open, strerror(errno));
	err = open_path(rotation, job, reterr);
	if (!err)
		err = output_file_open(&job->output, rotation->params, initial_bytes, reterr);
	if (err) {
		if (job->output.dest.fd >= 0)
			output_path_remove(path);
		rename(job->while_open, path);
	}
	return err;
}

static struct writer *next_writer(const struct stream *stream, void *ctx)
{
	const struct rotation *rotation = ctx;
	size_t index = data_files_index(&rotation->output->files, stream);

	return rotation->job->output.files.files[index].stream.writer;
}

/* Of a snapshot of the overwrite rings: nothing that may take long is done until they are copied. */
static void take_moment(struct rotation *rotation, struct finisher_job *job)
{
	off_cpu_run_find_tasks(rotation->off_cpu);
	job->marked_ns = rotation->marked_ns;
	job->window =
		(struct off_cpu_window){.from_ns = rotation->marked_ns, .to_ns = off_cpu_run_now(rotation->off_cpu)};
	(void)!overwrite_mark(rotation->overwrite); /* the last one was collected before this one could begin */
	rotation->marked_ns = off_cpu_run_now(rotation->off_cpu);
	overwrite_copy(rotation->overwrite);
	off_cpu_run_note_tasks(rotation->off_cpu, job->window.to_ns);
}

static int begin(struct rotation *rotation, struct diag *reterr)
{
	struct finisher_job *job = calloc(1, sizeof(*job));

	rotation->wanted = rotation->post = false;
	rotation->next_ns = UINT64_MAX;
	if (!job)
		return diag_set(reterr, -ENOMEM, "out of memory");
	job->output.dest.fd = -1;
	int err = open_next(rotation, job, reterr);
	if (err) {
		diag_prefix(reterr, "switching the output");
		job_free(job);
		return err;
	}
	/*
	 * The first records of the next one are not older, and those of snapshots are all that tasks do from here on.
	 * Out of memory: then /proc is asked.
	 */
	if (rotation->overwrite || !rotation->output->retained)
		(void)!task_log_hold(rotation->params->task_log, !rotation->overwrite);
	take_moment(rotation, job);
	rotation->job = job;
	rotation->pause(rotation->ctx);
	readers_switch(rotation->readers, next_writer, rotation, rotation->room);
	return 0;
}

/* A snapshot of the retained records is requested: is --flight-post to pass first? */
static bool begin_post(struct rotation *rotation)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	pipeline_request_snapshot(rotation->output->writer);
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
	if (rotation->output->retained && begin_post(rotation))
		return 0;
	if (rotation->job || finisher_nr_jobs(&rotation->finisher) >= rotation->max_jobs) {
		rotation->wanted = true;
		rotation->next_ns = UINT64_MAX;
		return 0;
	}
	return begin(rotation, reterr);
}

/* Exchanges the two outputs, but for the streams, which the readers have. */
static void exchange(struct rotation *rotation)
{
	struct output_file *now = rotation->output, *next = &rotation->job->output;

	data_files_exchange(&now->files, &next->files);
	struct output_file before = *now;
	struct data_files streams = now->files;
	*now = *next;
	*next = before;
	next->files = now->files;
	now->files = streams;
}

/* What the kernel dropped since the last file: a LOST_SAMPLES for each slot that has lost more. 0 or -ENOMEM. */
static int add_loss_records(struct rotation *rotation, struct finisher_job *job)
{
	const struct eventset *set = rotation->params->set;
	const uint64_t *lost = rotation->book->lost;
	uint64_t *reported = rotation->reported_lost;

	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		if (lost[i] <= reported[i])
			continue;
		size_t index = set->plan->slots[i].event;
		const struct event *event = &set->events->events[index];
		int err = synth_lost_samples(&rotation->params->described->ring_descs[index].attr, set->ids[i],
					     lost[i] - reported[i], &job->records);
		if (err)
			return err;
		*(event->side_band || event->side_channel ? &job->lost_task_events : &job->lost) +=
			lost[i] - reported[i];
		reported[i] = lost[i];
	}
	return 0;
}

/* What was lost up to here is told in the former file. */
static int account(struct rotation *rotation, struct finisher_job *job)
{
	int err = ledger_book_cut(rotation->book, &job->ledger);

	if (!err)
		err = recorder_cost_cut(rotation->cost, &job->ledger);
	return err ? err : add_loss_records(rotation, job);
}

/* The kernel writes into the rings on while they are copied: one that holds few samples may be overwritten by then. */
static void note_emptied(const struct rotation *rotation)
{
	const bool dumps = event_list_copies_stacks(rotation->params->set->events);

	log_note(
		"overwritten rings of %zu KiB hold so few records that they are overwritten before they can be copied: "
		"larger rings (-m)%s, or fewer samples (-c, -F) leave some",
		rotation->params->set->ring_pages * (size_t)sysconf(_SC_PAGESIZE) / 1024,
		dumps ? ", smaller copies of stacks (--call-graph dwarf,SIZE or unwind,SIZE)" : "");
}

/* The records of the overwrite rings, as they were when the switch began. */
static int collect_overwritten(struct rotation *rotation, struct finisher_job *job)
{
	const uint64_t nr_before = overwrite_counters(rotation->overwrite).nr_emptied;
	uint64_t whole_from_ns = 0;
	int err = overwrite_collect(rotation->overwrite, &job->records, &whole_from_ns);

	job->nr_emptied = overwrite_counters(rotation->overwrite).nr_emptied - nr_before;
	if (job->nr_emptied && !nr_before)
		note_emptied(rotation);
	begin_window(job, whole_from_ns);
	return err;
}

/*
 * All readers have the next output: the former one is to be finished, and the initial state of the next one is as of
 * now.
 */
static int complete(struct rotation *rotation, struct diag *reterr)
{
	struct finisher_job *job = rotation->job;
	const struct output_params *params = rotation->params;

	exchange(rotation);
	rotation->job = NULL;
	rotation->nr_switches++;
	int err = collect_overwritten(rotation, job);
	if (!err)
		err = account(rotation, job);
	if (err)
		diag_set(reterr, err, "out of memory");
	if (job->output.retained)
		task_log_window(params->task_log, 0, NULL); /* nothing is too old until it is written */
	const bool has_state = !params->options->tail_synthesize && !rotation->output->retained;
	if (has_state)
		job->next_output = object_watch_next_output(params->watch);
	finisher_add(&rotation->finisher, job);
	if (!err && has_state)
		err = output_file_put_initial_state(rotation->output, params, &rotation->initial_bytes, reterr);
	output_file_write_provisional_header(rotation->output, params);
	aim(rotation);
	return err;
}

static int complete_and_resume(struct rotation *rotation, struct diag *reterr)
{
	int err = complete(rotation, reterr);
	int resume_err = rotation->resume(rotation->ctx);

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
	forget_unmapped(rotation);
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
static int finish_last(struct rotation *rotation, const struct output_closing *closing, struct diag *reterr)
{
	const struct output_closing of_span = {.ledger = &rotation->book->span};
	const struct output_params *params = rotation->params;
	struct finisher_job job = {.overwrite = rotation->overwrite};
	int err = 0;

	if (rotation->output->retained && !rotation->post && !rotation->wanted) {
		data_files_join(&rotation->output->files);
		writer_close(take_ptr(rotation->output->writer), NULL); /* no snapshot was requested */
		return 0;
	}
	if (rotation->output->retained)
		task_log_end(params->task_log);
	if (rotation->spec.on || rotation->timestamp) {
		job.name = part_names_next(&rotation->names);
		if (!job.name || (rotation->output->retained && asprintf(&job.while_open, "%s.part", job.name) < 0))
			err = diag_set(reterr, -ENOMEM, "out of memory");
	}
	if (add_loss_records(rotation, &job) && !err)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	/* The closing is of the whole recording: it would be wrong about one file of several. */
	int do_err = finish_output(rotation, &job, rotation->output, rotation->nr_switches ? &of_span : closing,
				   err ? NULL : reterr);
	buf_fini(&job.records);
	free(job.while_open);
	free(job.name);
	return err ? err : do_err;
}

int rotation_wait(struct rotation *rotation, struct diag *reterr)
{
	if (!rotation->job)
		return 0;
	readers_switch_late(rotation->readers);
	return complete(rotation, reterr);
}

int rotation_finish(struct rotation *rotation, const struct output_closing *closing, struct output_result *ret,
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
	job_free(take_ptr(rotation->job));
	free(take_ptr(rotation->room));
	free(take_ptr(rotation->reported_lost));
	free(take_ptr(rotation->renamed));
	part_names_fini(&rotation->names);
}
