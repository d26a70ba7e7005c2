/* SPDX-License-Identifier: MIT */
#include "record/recording.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "record/features.h"
#include "record/finish.h"
#include "record/sink.h"
#include "record/supervise.h"
#include "record/plan.h"
#include "record/prologue.h"
#include "record/reader.h"
#include "record/synth.h"
#include "record/workload.h"
#include "ring/ring.h"
#include "stream/stream.h"

/* Everything that one recording owns; each part is made by one step of recording_run() and ended by recording_fini(). */
struct recording {
	const struct recording_options *options;
	sigset_t old_mask;
	int signal_fd;
	struct workload workload;
	struct plan plan;
	struct eventset set;
	struct sink sink;
	struct event_desc *descs; /* what the file says of the events */
	char **tracepoints;       /* "sys:event" of those that are one */
	size_t nr_tracepoints;
	struct features_params features;
	struct file_header header;
	struct writer_params writer_params;
	struct writer *writer;
	struct stream stream;
	size_t *rings; /* by number: what the reader drains */
	struct reader_control control;
	struct reader reader;
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

/* The events as the file tells them, now that opening has settled their attrs. */
static int describe_events(struct recording *rec)
{
	const struct event_list *events = rec->options->events;
	size_t nr_ids = rec->plan.nr_slots;

	rec->descs = calloc(events->nr + 1, sizeof(*rec->descs));
	rec->tracepoints = calloc(events->nr + 1, sizeof(*rec->tracepoints));
	if (!rec->descs || !rec->tracepoints)
		return -ENOMEM;
	for (size_t e = 0; e < events->nr; e++) {
		const struct event *event = &events->events[e];
		struct event_desc *desc = &rec->descs[e];
		desc->attr = event->attr;
		desc->name = strdup(event->name);
		desc->ids = calloc(nr_ids + 1, sizeof(*desc->ids));
		if (!desc->name || !desc->ids)
			return -ENOMEM;
		for (size_t i = 0; i < nr_ids; i++)
			if (rec->plan.slots[i].event == e && rec->set.fds[i] >= 0)
				desc->ids[desc->nr_ids++] = rec->set.ids[i];
		if (!event->tracepoint_system)
			continue;
		if (asprintf(&rec->tracepoints[rec->nr_tracepoints], "%s:%s", event->tracepoint_system,
			     event->tracepoint_name) < 0) {
			rec->tracepoints[rec->nr_tracepoints] = NULL;
			return -ENOMEM;
		}
		rec->nr_tracepoints++;
	}
	rec->features = (struct features_params){
		.events = rec->descs,
		.nr_events = events->nr,
		.argc = rec->options->argc,
		.argv = rec->options->argv,
		.pipe = rec->sink.pipe,
		.tracepoints = (const char *const *)rec->tracepoints,
		.nr_tracepoints = rec->nr_tracepoints,
	};
	return 0;
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

/* The engine that was asked for, or the one that can do instead. */
static int open_writer(struct recording *rec, struct diag *reterr)
{
	enum { DEFAULT_BLOCKS = 1, DEFAULT_WINDOW = 64 << 20 };
	const struct recording_writer *asked = &rec->options->writer;
	const struct writer_ops *ops = asked->ops ? asked->ops : &writer_serial;
	size_t ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);
	struct writer_params params = {
		.fd = rec->sink.fd,
		.path = rec->sink.path,
		.nr_blocks = rec->plan.nr_rings * (asked->blocks_per_ring ? asked->blocks_per_ring : DEFAULT_BLOCKS),
		.block_bytes = ring_bytes,
		.window_bytes = asked->window_bytes ? asked->window_bytes : DEFAULT_WINDOW,
	};

	if (ops->seeks && rec->sink.pipe) {
		log_note("writer %s cannot write to a pipe: serial does it", ops->name);
		ops = &writer_serial;
	}
	int err = writer_open(ops, &params, &rec->writer);
	if (err && ops->optional) {
		log_note("writer %s is not allowed here (%s): serial does it", ops->name, strerror(-err));
		err = writer_open(&writer_serial, &params, &rec->writer);
	}
	rec->writer_params = params;
	return err ? diag_set(reterr, err, "%s: writer %s: %s", rec->sink.path, ops->name, strerror(-err)) : 0;
}

/* Header first: from then on the writer goes on where it ends. */
static int start_output(struct recording *rec, struct diag *reterr)
{
	AUTO_BUF struct buf front = {0}, world_records = {0};
	int err = rec->sink.pipe ? prologue_pipe(&rec->features, &front, reterr)
				   : prologue_file(rec->descs, rec->features.nr_events, &front, &rec->header);

	if (err == -ENOMEM || front.failed)
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (err)
		return err;
	err = open_writer(rec, reterr);
	if (err)
		return err;
	struct prologue_world world = {
		.set = &rec->set,
		.descs = rec->descs,
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

static int start_stream(struct recording *rec, struct diag *reterr)
{
	size_t ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);
	enum { LEAST_PART = 16, LEAST_ROUND = 4 << 20 };

	/* A mark above the kernel's own wake-up, at half a ring, would leave bytes where no wake-up comes for them. */
	size_t flush_bytes = rec->options->flush_bytes ? rec->options->flush_bytes : ring_bytes / LEAST_PART;
	rec->stream = (struct stream){
		.rings = rec->set.rings,
		.nr_rings = rec->plan.nr_rings,
		.writer = rec->writer,
		.flush_bytes = flush_bytes < ring_bytes / 4 ? flush_bytes : ring_bytes / 4,
		.round_bytes = rec->plan.nr_rings * ring_bytes,
	};
	if (rec->sink.pipe)
		rec->stream.flush_bytes = rec->stream.round_bytes = 1; /* somebody may be looking on */
	else if (rec->stream.round_bytes < LEAST_ROUND)
		rec->stream.round_bytes = LEAST_ROUND;
	int err = stream_init(&rec->stream);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

/* One thread drains all rings; the main thread watches over it. */
static int start_reader(struct recording *rec, struct diag *reterr)
{
	int err = reader_control_init(&rec->control);
	if (err)
		return diag_set(reterr, err, "eventfd: %s", strerror(-err));

	rec->rings = calloc(rec->plan.nr_rings + 1, sizeof(*rec->rings));
	if (!rec->rings)
		return diag_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < rec->plan.nr_rings; i++)
		rec->rings[i] = i;
	rec->reader = (struct reader){
		.control = &rec->control,
		.set = &rec->set,
		.streams = &rec->stream,
		.nr_streams = 1,
		.rings = rec->rings,
		.nr_rings = rec->plan.nr_rings,
		.realtime = rec->options->realtime,
		.workload = rec->workload.pid,
	};
	err = reader_init(&rec->reader);
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = reader_start(&rec->reader, 1);
	if (err == -EPERM)
		return diag_set(reterr, err, "-r %d: not permitted: needs CAP_SYS_NICE or ulimit -r",
				rec->options->realtime);
	return err ? diag_set(reterr, err, "cannot start a thread: %s", strerror(-err)) : 0;
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

static void tell_plan(const struct recording *rec, const char *scheduling)
{
	AUTO_BUF struct buf text = {0};
	const struct writer_ops *ops = rec->writer->ops;
	size_t ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);

	if (log_level() < LOG_VERBOSE)
		return;
	/* The kernel's own mark, as no event asks for another; perf_event_open(2) wakeup_watermark. */
	buf_printf(&text, "%zu event fds, %zu rings of %zu KiB, wake-up at %zu KiB, flush from %zu KiB; writer %s",
		   rec->plan.nr_slots, rec->plan.nr_rings, ring_bytes / 1024, ring_bytes / 2 / 1024,
		   rec->stream.flush_bytes / 1024, ops->name);
	if (ops->stages)
		buf_printf(&text, ", %zu blocks of %zu KiB", rec->writer_params.nr_blocks,
			   rec->writer_params.block_bytes / 1024);
	if (ops->maps)
		buf_printf(&text, ", windows of %zu KiB", rec->writer_params.window_bytes / 1024);
	buf_printf(&text, "; scheduling %s", scheduling);
	log_verbose("%s", buf_text(&text));
}

/* Events flow from here until the workload, the targets, a signal or a failed writer ends it. */
static int run_events(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct supervision supervision = {
		.set = &rec->set,
		.workload = &rec->workload,
		.control = &rec->control,
		.signal_fd = rec->signal_fd,
		.enable_after_ms = rec->options->delay_ms,
	};

	tell_plan(rec, rec->reader.scheduling);
	int err = start_events(rec, reterr);
	if (!err) {
		err = supervise(&supervision, &result->signal);
		if (err)
			diag_set(reterr, err, "waiting for the end: %s", strerror(-err));
	}
	eventset_disable(&rec->set);
	reader_control_stop(&rec->control);
	reader_join(&rec->reader, 1);
	if (!err && rec->reader.failed)
		err = write_error(rec, rec->reader.err, reterr);
	else if (!err && rec->reader.err)
		err = diag_set(reterr, rec->reader.err, "draining the rings: %s", strerror(-rec->reader.err));
	return err;
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

	for (size_t i = 0; i < rec->plan.nr_slots; i++) {
		uint64_t lost = eventset_lost(&rec->set, i);
		if (!lost)
			continue;
		int err = note_loss(rec, i, lost, result);
		if (!err)
			err = synth_lost_samples(&rec->descs[rec->plan.slots[i].event].attr, rec->set.ids[i], lost,
						 &records);
		if (err)
			return diag_set(reterr, err, "out of memory");
	}
	int err = writer_put(rec->writer, records.data, records.len);
	return err ? write_error(rec, err, reterr) : 0;
}

static uint64_t left_in_rings(const struct recording *rec)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < rec->stream.nr_rings; i++) {
		struct span spans[2];
		bytes += ring_peek(&rec->stream.rings[i], spans);
	}
	return bytes;
}

static int close_output(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct diag later;
	uint64_t queued = rec->writer->queued, written = 0;
	int write_err = writer_close(take_ptr(rec->writer), &written);
	if (write_err) {
		output_error(rec, written, write_err, reterr);
		/* The part that was written of a piece that failed is not queued, but may still be in its ring. */
		uint64_t had = queued + left_in_rings(rec);
		result->unwritten_bytes = had > written ? had - written : 0;
	}

	result->bytes = written;
	if (rec->sink.pipe)
		return write_err;
	struct finish_params params = {
		.fd = rec->sink.fd,
		.path = rec->sink.path,
		.header = rec->header,
		.data_bytes = written > rec->header.data.offset ? written - rec->header.data.offset : 0,
		.torn = write_err != 0,
		.features = &rec->features,
		.build_ids = rec->options->build_ids,
	};
	struct finish_result finished;
	int err = finish_file(&params, &finished, write_err ? &later : reterr);
	result->bytes = finished.data_bytes;
	result->cut_samples = finished.cut_samples;
	result->nr_samples = finished.nr_samples;
	result->samples_counted = finished.samples_counted;
	/* Where the disk is elsewhere its errors may wait until now: close(2). */
	int close_err = sink_close(&rec->sink);
	if (close_err && !write_err && !err)
		err = diag_set(reterr, close_err, "%s: cannot finish the file: %s", rec->sink.path, strerror(-close_err));
	return write_err ? write_err : err;
}

static void free_descriptions(struct recording *rec)
{
	for (size_t i = 0; rec->descs && i < rec->options->events->nr; i++)
		event_desc_fini(&rec->descs[i]);
	free(rec->descs);
	for (size_t i = 0; i < rec->nr_tracepoints; i++)
		free(rec->tracepoints[i]);
	free(rec->tracepoints);
}

static void recording_fini(struct recording *rec)
{
	writer_close(rec->writer, NULL);
	reader_fini(&rec->reader);
	reader_control_fini(&rec->control);
	free(rec->rings);
	stream_fini(&rec->stream);
	sink_close(&rec->sink);
	eventset_close(&rec->set);
	plan_fini(&rec->plan);
	workload_end(&rec->workload, rec->signal_fd);
	free_descriptions(rec);
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
		err = open_sink(rec, reterr);
	if (!err) {
		err = describe_events(rec);
		if (err)
			diag_set(reterr, err, "out of memory");
	}
	if (!err)
		err = start_output(rec, reterr);
	if (!err)
		err = start_stream(rec, reterr);
	return err ? err : start_reader(rec, reterr);
}

int recording_run(const struct recording_options *options, struct recording_result *ret, struct diag *reterr)
{
	struct recording rec = {
		.options = options,
		.signal_fd = -1,
		.sink.fd = -1,
		.control = {.stop_fd = -1, .news_fd = -1},
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
	result.wakeups = rec.reader.wakeups;
	result.rounds = rec.stream.counters.rounds;
	result.ring_total_bytes = rec.stream.counters.bytes;
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
