/* SPDX-License-Identifier: MIT */
#include "record/recording.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/log.h"
#include "record/data_files.h"
#include "record/described_events.h"
#include "record/features.h"
#include "record/finish.h"
#include "record/hits.h"
#include "record/sink.h"
#include "record/supervise.h"
#include "record/plan.h"
#include "record/prologue.h"
#include "record/readers.h"
#include "record/synth.h"
#include "record/thread_spec.h"
#include "record/topology.h"
#include "record/workload.h"

/* Everything that one recording owns; each part is made by one step of recording_run() and ended by recording_fini(). */
struct recording {
	const struct recording_options *options;
	sigset_t old_mask;
	int signal_fd;
	struct workload workload;
	struct plan plan;
	struct eventset set;
	struct sink sink;
	struct described_events described;
	struct features_params features;
	struct file_header header;
	struct writer_params writer_params;
	struct writer *writer;
	struct thread_layout layout;
	struct data_files files;
	struct readers readers;
};

/* nohup(1): the recording goes on when its terminal is gone. */
static bool hangup_ignored(void)
{
	struct sigaction action;

	return sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int catch_signals(struct recording *rec, struct diag *reterr)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (!hangup_ignored())
		sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	rec->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (rec->signal_fd < 0)
		return diag_set(reterr, -errno, "signalfd: %s", strerror(errno));
	/* A reader that goes away and a file that may not grow are errors of the output, not our death. */
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &set, &rec->old_mask);
	return 0;
}

static int configure(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;
	struct event_options sampling = options->sampling;

	sampling.target = rec->options->target->kind;
	sampling.per_thread = rec->options->target->per_thread;
	sampling.threads_only = options->threads_only;
	sampling.inherit = options->inherit && !sampling.per_thread && !sampling.threads_only;
	sampling.delayed = options->delay_ms != 0;
	sampling.pipe_output = sink_is_pipe(options->output);
	sampling.has_workload = options->workload != NULL;
	return event_list_configure(options->events, &sampling, reterr);
}

static int check_events(const struct recording *rec, struct diag *reterr)
{
	const struct event_list *events = rec->options->events;

	for (size_t i = 0; i < events->nr; i++)
		if (events->events[i].attr.write_backward)
			return diag_set(reterr, -EOPNOTSUPP, "%s: this version has no rings that overwrite: leave "
							     "/overwrite/ out", events->events[i].name);
	return 0;
}

static int fork_workload(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;

	if (!options->workload)
		return 0;
	int err = workload_fork(&rec->workload, options->workload,
				sink_is_stdout(options->output) ? WORKLOAD_STDOUT_TO_STDERR : 0, &rec->old_mask, reterr);
	if (!err && rec->options->target->kind == EVENT_TARGET_WORKLOAD)
		err = target_add_tid(rec->options->target, rec->workload.pid);
	return err;
}

static int describe_events(struct recording *rec)
{
	int err = described_events_make(&rec->set, &rec->described);

	rec->features = (struct features_params){
		.events = rec->described.descs,
		.nr_events = rec->described.nr_descs,
		.argc = rec->options->argc,
		.argv = rec->options->argv,
		.pipe = rec->sink.pipe,
		.tracepoints = (const char *const *)rec->described.tracepoints,
		.nr_tracepoints = rec->described.nr_tracepoints,
	};
	return err;
}

static int output_error(const struct recording *rec, uint64_t stored, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "%s: writing at offset %llu failed: %s", rec->sink.path,
			(unsigned long long)stored, strerror(-err));
}

static int write_error(struct recording *rec, int err, struct diag *reterr)
{
	return output_error(rec, rec->writer->stored, err, reterr);
}

/* The engine is for what comes out of the rings; the main file of a directory holds little else. */
static int open_writer(struct recording *rec, struct diag *reterr)
{
	static const struct recording_writer plain = {.ops = &writer_serial};
	struct engine_output output = {
		.fd = rec->sink.fd,
		.path = rec->sink.main_path ? rec->sink.main_path : rec->sink.path,
		.pipe = rec->sink.pipe,
		.nr_rings = rec->plan.nr_rings,
		.ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE),
	};

	return engine_open(rec->options->threads ? &plain : &rec->options->writer, &output, &rec->writer,
			   &rec->writer_params, reterr);
}

/* Header first: from then on the writer goes on where it ends. */
static int start_output(struct recording *rec, struct diag *reterr)
{
	AUTO_BUF struct buf front = {0}, world_records = {0};
	int err = rec->sink.pipe ? prologue_pipe(&rec->features, &front, reterr)
				   : prologue_file(rec->described.descs, rec->features.nr_events, &front, &rec->header);

	if (err == -ENOMEM || front.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (err)
		return err;
	err = open_writer(rec, reterr);
	if (err)
		return err;
	struct prologue_world world = {
		.set = &rec->set,
		.descs = rec->described.descs,
		.nr_descs = rec->features.nr_events,
		.target = rec->options->target,
		.workload = &rec->workload,
		.names = rec->sink.pipe,
	};
	err = prologue_world(&world, &world_records, reterr);
	if (err)
		return err;
	err = writer_put(rec->writer, front.data, front.len);
	if (!err)
		err = writer_put(rec->writer, world_records.data, world_records.len);
	return err ? write_error(rec, err, reterr) : 0;
}

/* Which thread drains which CPUs; with --threads only. */
static int lay_out_threads(struct recording *rec, struct diag *reterr)
{
	const struct target *target = rec->options->target;
	struct topology topology __attribute__((cleanup(topology_fini))) = {0};

	if (!rec->options->threads)
		return 0;
	int err = topology_read("/sys", &topology, reterr);
	if (!err)
		err = thread_spec_resolve(rec->options->thread_spec, target->per_thread ? NULL : &target->cpus, &topology,
					  &rec->layout, reterr);
	if (!err && target->per_thread)
		thread_layout_trim(&rec->layout, rec->plan.nr_rings);
	return err;
}

static int start_readers(struct recording *rec, struct diag *reterr)
{
	bool directory = rec->options->threads;
	struct data_files_params files = {
		.set = &rec->set,
		.writer = &rec->options->writer,
		.flush_bytes = rec->options->flush_bytes,
		.live = rec->sink.pipe,
		.into = directory ? NULL : rec->writer,
		.path = rec->sink.path,
	};
	int err = data_files_open(&files, &rec->files, reterr);
	if (err)
		return err;
	struct readers_params readers = {
		.set = &rec->set,
		.files = &rec->files,
		.layout = directory ? &rec->layout : NULL,
		.realtime = rec->options->realtime,
		.workload = rec->workload.pid,
	};
	return readers_start(&rec->readers, &readers, reterr);
}

static int start_events(struct recording *rec, struct diag *reterr)
{
	int err = 0;

	if (!rec->options->delay_ms)
		err = eventset_enable(&rec->set);
	if (err)
		return diag_set(reterr, err, "cannot enable the events: %s", strerror(-err));
	return rec->workload.pid ? workload_release(&rec->workload, rec->options->workload[0], reterr) : 0;
}

static void tell_reader(const struct reader *reader, size_t index)
{
	AUTO_BUF struct buf rings = {0}, where = {0};
	const char *separator = "";

	for (size_t i = 0; i < reader->nr_rings; i++, separator = ",")
		buf_printf(&rings, "%s%zu", separator, reader->rings[i]);
	if (reader->affinity)
		cpuset_format(reader->affinity, &where);
	log_verbose("thread %zu: rings %s; on CPUs %s; scheduling %s", index, buf_text(&rings),
		    where.len ? buf_text(&where) : "of the recorder", reader->scheduling);
}

static void tell_plan(const struct recording *rec)
{
	AUTO_BUF struct buf text = {0};
	const struct data_file *file = &rec->files.files[0];
	const struct writer_params *params = rec->options->threads ? &rec->files.params : &rec->writer_params;
	const struct writer_ops *ops = file->writer->ops;
	size_t ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);

	if (log_level() < LOG_VERBOSE)
		return;
	/* The kernel's own mark, as no event asks for another; perf_event_open(2) wakeup_watermark. */
	buf_printf(&text, "%zu event fds, %zu rings of %zu KiB, wake-up at %zu KiB, flush from %zu KiB; writer %s",
		   rec->plan.nr_slots, rec->plan.nr_rings, ring_bytes / 1024, ring_bytes / 2 / 1024,
		   file->stream.flush_bytes / 1024, ops->name);
	if (ops->stages)
		buf_printf(&text, ", %zu blocks of %zu KiB", params->nr_blocks, params->block_bytes / 1024);
	if (ops->maps)
		buf_printf(&text, ", windows of %zu KiB", params->window_bytes / 1024);
	log_verbose("%s", buf_text(&text));
	for (size_t i = 0; i < rec->readers.nr; i++)
		tell_reader(&rec->readers.readers[i], i);
}

static void tell_readers_work(const struct recording *rec)
{
	for (size_t i = 0; i < rec->readers.nr; i++) {
		const struct reader *reader = &rec->readers.readers[i];
		uint64_t bytes = 0;
		for (size_t s = 0; s < reader->nr_streams; s++)
			bytes += reader->streams[s]->counters.bytes;
		log_verbose("thread %zu: %llu bytes, %llu wake-ups, %.3f s of CPU", i, (unsigned long long)bytes,
			    (unsigned long long)reader->wakeups, (double)reader->cpu_ns / 1e9);
	}
}

/* Events flow from here until the workload, the targets, a signal or a failed writer ends it. */
static int run_events(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct supervision supervision = {
		.set = &rec->set,
		.workload = &rec->workload,
		.control = &rec->readers.control,
		.signal_fd = rec->signal_fd,
		.enable_after_ms = rec->options->delay_ms,
	};

	tell_plan(rec);
	int err = start_events(rec, reterr);
	if (!err) {
		err = supervise(&supervision, &result->signal);
		if (err)
			diag_set(reterr, err, "waiting for the end: %s", strerror(-err));
	}
	eventset_disable(&rec->set);
	readers_stop(&rec->readers);
	tell_readers_work(rec);
	return err ? err : readers_error(&rec->readers, &rec->files, reterr);
}

static int note_loss(struct recording *rec, size_t slot, uint64_t lost, struct recording_result *result)
{
	const struct plan_slot *plan = &rec->plan.slots[slot];
	struct recording_loss *grown =
		realloc(result->losses, (result->nr_losses + 1) * sizeof(*result->losses));

	if (!grown)
		return -ENOMEM;
	grown[result->nr_losses++] = (struct recording_loss){
		.event = rec->options->events->events[plan->event].name,
		.cpu = plan->cpu,
		.tid = plan->pid,
		.records = lost,
	};
	result->losses = grown;
	result->lost_records += lost;
	return 0;
}

/* What the kernel could not give us, per event fd, into the file and into the result. */
static int account_losses(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	AUTO_BUF struct buf records = {0};
	const struct event_list *events = rec->options->events;

	result->losses_counted = true;
	for (size_t i = 0; i < events->nr; i++)
		result->losses_counted &= (events->events[i].attr.read_format & PERF_FORMAT_LOST) != 0;
	for (size_t i = 0; i < rec->plan.nr_slots; i++) {
		uint64_t lost = eventset_lost(&rec->set, i);
		if (!lost)
			continue;
		int err = note_loss(rec, i, lost, result);
		if (!err)
			err = synth_lost_samples(&rec->described.descs[rec->plan.slots[i].event].attr, rec->set.ids[i], lost,
						 &records);
		if (err)
			return diag_set(reterr, err, "out of memory");
	}
	int err = writer_put(rec->writer, records.data, records.len);
	return err ? write_error(rec, err, reterr) : 0;
}

/* What the rings held and no file got. */
static uint64_t unwritten(const struct recording *rec, uint64_t of_main_file)
{
	uint64_t bytes = of_main_file;

	for (size_t i = 0; i < rec->files.nr; i++)
		bytes += rec->files.files[i].unwritten_bytes;
	return bytes;
}

/* What went to a device cannot be read back. */
static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int finish(struct recording *rec, uint64_t written, bool torn, struct recording_result *result,
		  struct diag *reterr)
{
	AUTO_FREE struct hits_region *parts = calloc(rec->files.nr + 1, sizeof(*parts));
	struct finish_params params = {
		.fd = rec->sink.fd,
		.path = rec->sink.path,
		.header = rec->header,
		.data_bytes = written > rec->header.data.offset ? written - rec->header.data.offset : 0,
		.torn = torn,
		.features = &rec->features,
		.build_ids = rec->options->build_ids && is_regular(rec->sink.fd),
		.parts = parts,
		.nr_parts = rec->options->threads ? rec->files.nr : 0,
	};
	struct finish_result finished;

	if (!parts)
		return diag_set(reterr, -ENOMEM, "out of memory");
	result->bytes = 0;
	for (size_t i = 0; i < params.nr_parts; i++) {
		parts[i] = (struct hits_region){rec->files.files[i].fd, 0, rec->files.files[i].stored};
		result->bytes += parts[i].bytes;
	}
	int err = finish_file(&params, &finished, reterr);
	result->bytes += finished.data_bytes;
	result->cut_samples = finished.cut_samples;
	result->nr_samples = finished.nr_samples;
	result->samples_counted = finished.samples_counted;
	/* Where the disk is elsewhere its errors may wait until now: close(2). */
	int close_err = sink_close(&rec->sink);
	if (close_err && !torn && !err)
		err = diag_set(reterr, close_err, "%s: cannot finish the file: %s", rec->sink.path, strerror(-close_err));
	return err;
}

static int close_output(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct diag later;
	uint64_t queued = rec->writer->queued, written = 0, left = 0;
	int write_err = writer_close(take_ptr(rec->writer), &written);
	if (write_err) {
		output_error(rec, written, write_err, reterr);
		/* The part that was written of a piece that failed is not queued, but may still be in its ring. */
		uint64_t had = queued + (rec->options->threads ? 0 : data_files_left(&rec->files));
		left = had > written ? had - written : 0;
	}
	int files_err = data_files_close(&rec->files, write_err ? &later : reterr);
	int err = write_err ? write_err : files_err;

	result->unwritten_bytes = err ? unwritten(rec, left) : 0;
	result->bytes = written;
	if (rec->sink.pipe)
		return err;
	int finish_err = finish(rec, written, write_err != 0, result, err ? &later : reterr);
	return err ? err : finish_err;
}

static void recording_fini(struct recording *rec)
{
	writer_close(rec->writer, NULL);
	readers_fini(&rec->readers);
	thread_layout_fini(&rec->layout);
	data_files_fini(&rec->files);
	sink_close(&rec->sink);
	eventset_close(&rec->set);
	plan_fini(&rec->plan);
	workload_end(&rec->workload, rec->signal_fd);
	described_events_fini(&rec->described);
	if (rec->signal_fd >= 0)
		close(rec->signal_fd);
}

/*
 * Opening a FIFO waits for its reader, as long as that takes: a signal ends us there as it did before. Nothing is lost
 * then, and the workload has not begun.
 */
static int open_sink(struct recording *rec, struct diag *reterr)
{
	sigset_t blocked, waiting;

	if (rec->options->threads)
		return sink_open_directory(rec->options->output, &rec->sink, reterr);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	waiting = rec->old_mask;
	sigaddset(&waiting, SIGCHLD); /* would be lost: its default is to be ignored */
	pthread_sigmask(SIG_SETMASK, &waiting, NULL);
	int err = sink_open(rec->options->output, &rec->sink, reterr);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	return err;
}

/* Everything up to the point where events can flow. */
static int prepare(struct recording *rec, struct diag *reterr)
{
	int err = configure(rec, reterr);
	if (!err)
		err = check_events(rec, reterr);
	if (!err)
		err = catch_signals(rec, reterr);
	if (!err)
		err = fork_workload(rec, reterr);
	if (!err) {
		err = plan_make(rec->options->events, rec->options->target, &rec->plan);
		if (err)
			diag_set(reterr, err, "%s", strerror(-err));
	}
	if (!err)
		err = eventset_open(&rec->set, &rec->plan, rec->options->events, rec->options->ring, reterr);
	if (!err)
		err = lay_out_threads(rec, reterr);
	if (!err)
		err = open_sink(rec, reterr);
	if (!err) {
		err = describe_events(rec);
		if (err)
			diag_set(reterr, err, "out of memory");
	}
	if (!err)
		err = start_output(rec, reterr);
	return err ? err : start_readers(rec, reterr);
}

int recording_run(const struct recording_options *options, struct recording_result *ret, struct diag *reterr)
{
	struct recording rec = {
		.options = options,
		.signal_fd = -1,
		.sink.fd = -1,
	};
	struct recording_result result = {0};
	int err = prepare(&rec, reterr);

	if (!err) {
		result.output = rec.sink.path;
		err = run_events(&rec, &result, reterr);
		/* One error policy: whatever happened, what is there is finished, and the first error is told. */
		struct diag later;
		int loss_err = account_losses(&rec, &result, err ? &later : reterr);
		err = err ? err : loss_err;
		int close_err = close_output(&rec, &result, err ? &later : reterr);
		err = err ? err : close_err;
	}
	workload_end(&rec.workload, rec.signal_fd);
	result.has_wait_status = rec.workload.pid != 0;
	result.wait_status = rec.workload.wait_status;
	result.nr_rings = rec.plan.nr_rings;
	result.ring_bytes = rec.set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);
	result.nr_threads = rec.readers.nr;
	for (size_t i = 0; i < rec.readers.nr; i++)
		result.wakeups += rec.readers.readers[i].wakeups;
	for (size_t i = 0; i < rec.files.nr; i++) {
		result.rounds += rec.files.files[i].stream.counters.rounds;
		result.ring_total_bytes += rec.files.files[i].stream.counters.bytes;
	}
	recording_fini(&rec);
	result.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	*ret = result;
	return err;
}

void recording_result_fini(struct recording_result *result)
{
	free(result->losses);
	*result = (struct recording_result){0};
}
