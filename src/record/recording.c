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
#include "pack/extent.h"
#include "pack/stack_cut.h"
#include "record/commit.h"
#include "record/control.h"
#include "record/cpu_watch.h"
#include "record/data_files.h"
#include "record/described_events.h"
#include "record/drain_watch.h"
#include "record/event_switch.h"
#include "record/features.h"
#include "record/filters.h"
#include "record/finish.h"
#include "record/flight.h"
#include "record/freezer.h"
#include "record/hits.h"
#include "record/keeper.h"
#include "record/ledger.h"
#include "record/rotation.h"
#include "record/sideline.h"
#include "record/sink.h"
#include "record/steering.h"
#include "record/supervise.h"
#include "record/outlet.h"
#include "record/plan.h"
#include "record/prologue.h"
#include "record/readers.h"
#include "record/recorder_cost.h"
#include "record/synth.h"
#include "record/thread_spec.h"
#include "record/topology.h"
#include "record/trigger_events.h"
#include "record/workload.h"
#include "stream/pack_pool.h"

/* Everything that one recording owns; each part is made by one step of recording_run() and ended by recording_fini(). */
struct recording {
	const struct recording_options *options;
	sigset_t old_mask;
	int signal_fd;
	struct control control;
	struct workload workload;
	struct freezer freezer; /* zeroed: none */
	struct trigger_events trigger;
	struct plan plan;
	struct eventset set;
	struct growth_bounds bounds;
	size_t pool_bytes; /* 0: none but what -z needs */
	struct ring_growth growth; /* zeroed: none */
	struct steering steering;
	struct flight *flight;
	struct described_events described;
	struct features_params features;
	struct pack_pool *pool; /* NULL: nothing is compressed */
	struct feature_compressed compressed;
	struct sideline *sideline; /* NULL: one file is all there will be */
	struct outlet_params common;
	struct outlet outlet;
	struct rotation rotation;
	struct topology topology; /* zeroed where one thread drains */
	struct thread_layout layout;
	struct drain_watch drain;
	struct readers readers;
	struct ledger_book book;
	struct recorder_cost cost;
	struct cpu_watch cpus;
	struct commit commit;
	struct keeper keeper;
	int *sync_fds; /* heap */
	struct loss_times losses;
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
	sigaddset(&set, SIGUSR2);
	rec->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (rec->signal_fd < 0)
		return diag_set(reterr, -errno, "signalfd: %s", strerror(errno));
	/* A reader that goes away and a file that may not grow are errors of the output, not our death. */
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGXFSZ);
	sigaddset(&set, SIGUSR2); /* asks for a snapshot, of recorders that make any; perf ignores it, too */
	pthread_sigmask(SIG_BLOCK, &set, &rec->old_mask);
	return 0;
}

static struct event_options sampling_of(const struct recording *rec)
{
	const struct recording_options *options = rec->options;
	struct event_options sampling = options->sampling;

	sampling.target = rec->options->target->kind;
	sampling.per_thread = rec->options->target->per_thread;
	sampling.threads_only = options->threads_only;
	sampling.inherit = options->inherit && !sampling.per_thread && !sampling.threads_only;
	sampling.delayed = options->times.delayed;
	sampling.pipe_output = sink_is_pipe(options->output);
	sampling.side_channel = options->side_channel;
	sampling.overwrite_rings = true;
	sampling.has_workload = options->workload != NULL;
	return sampling;
}

static int configure(struct recording *rec, struct diag *reterr)
{
	const struct event_options sampling = sampling_of(rec);

	return event_list_configure(rec->options->events, &sampling, reterr);
}

static int open_trigger(struct recording *rec, struct diag *reterr)
{
	const struct event_options sampling = sampling_of(rec);

	return trigger_events_open(&rec->trigger, rec->options->switch_events, &sampling, rec->options->target, reterr);
}

static int fork_workload(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;

	if (!options->workload)
		return 0;
	enum workload_flags flags = (sink_is_stdout(options->output) ? WORKLOAD_STDOUT_TO_STDERR : 0) |
				    (options->on_pressure == ON_PRESSURE_FREEZE ? WORKLOAD_OWN_SESSION : 0);
	int err = workload_fork(&rec->workload, options->workload, flags, &rec->old_mask, reterr);
	if (!err && rec->options->target->kind == EVENT_TARGET_WORKLOAD)
		err = target_add_tid(rec->options->target, rec->workload.pid);
	return err;
}

/* Whom: those of -p, or of -t, or else the command with all that it starts in its process group. */
static int open_freezer(struct recording *rec, struct diag *reterr)
{
	const struct target *target = rec->options->target;
	const pid_t group = -rec->workload.pid;
	int err;

	if (rec->options->on_pressure != ON_PRESSURE_FREEZE)
		return 0;
	if (target->nr_pids)
		err = freezer_open(&rec->freezer, target->pids, target->nr_pids);
	else if (target->kind == EVENT_TARGET_TASKS)
		err = freezer_open(&rec->freezer, target->tids, target->nr_tids);
	else
		err = freezer_open(&rec->freezer, &group, 1);
	return err ? diag_set(reterr, err, "--on-pressure=freeze: %s", strerror(-err)) : 0;
}

static int describe_events(struct recording *rec)
{
	int err = described_events_make(&rec->set, &rec->described);

	rec->features = (struct features_params){
		.events = rec->described.descs,
		.nr_events = rec->described.nr_descs,
		.argc = rec->options->argc,
		.argv = rec->options->argv,
		.pipe = rec->outlet.sink.pipe,
		.tracepoints = (const char *const *)rec->described.tracepoints,
		.nr_tracepoints = rec->described.nr_tracepoints,
		.groups = rec->described.groups,
		.nr_groups = rec->described.nr_groups,
	};
	rec->common = (struct outlet_params){
		.options = rec->options,
		.set = &rec->set,
		.described = &rec->described,
		.features = &rec->features,
		.workload = &rec->workload,
		.layout = rec->options->threads ? &rec->layout : NULL,
	};
	return err;
}

/* Is there memory before the writer that nobody named a size for? */
static bool has_default_pool(const struct recording_options *options)
{
	return !options->buffer_bytes && !options->rotation.flight_ns &&
	       (options->compression_level || options->on_pressure == ON_PRESSURE_FREEZE ||
		(options->threads && !options->directory));
}

/* Of what the user named, or of what is sane here: rings get what the memory before the writer leaves. */
static int divide_memory(struct recording *rec, struct diag *reterr)
{
	enum { DEFAULT_POOL = 64 << 20 };
	const struct recording_options *options = rec->options;
	uint64_t half = options->max_memory / 2;

	rec->bounds = growth_bounds_here();
	rec->pool_bytes = options->buffer_bytes;
	if (!options->max_memory)
		return 0;
	if (has_default_pool(options))
		rec->pool_bytes = half < DEFAULT_POOL ? (size_t)half : DEFAULT_POOL;
	if (rec->pool_bytes >= options->max_memory)
		return diag_set(reterr, -ENOMEM, "--max-memory=%lluK leaves nothing for rings beside --buffer-memory=%zuK",
				(unsigned long long)options->max_memory / 1024, rec->pool_bytes / 1024);
	rec->bounds.all_bytes = options->max_memory - rec->pool_bytes;
	return 0;
}

/* Those of the flight channel are as large as those that are drained. */
static int open_rings(struct recording *rec, struct diag *reterr)
{
	struct eventset_sizes sizes = rec->options->ring;

	sizes.most_bytes = rec->bounds.all_bytes;
	sizes.bounded = rec->options->max_memory != 0;
	/* Who drains one ring alone is not kept from it by another, and should not sleep on half of a roomy one: a kill takes it. */
	sizes.roomy = !rec->options->threads;
	int err = eventset_open(&rec->set, &rec->plan, rec->options->events, sizes, reterr);
	if (!err && sizes.bounded)
		sizes.pages = rec->set.ring_pages;
	return err ? err : flight_open(&rec->set, sizes, &rec->flight, reterr);
}

/* Extents are what is dropped: small enough that the last of them are most of what may be held. */
static size_t flight_extent_bytes(uint64_t held_bytes)
{
	enum { PARTS = 16, LEAST = 64 << 10 };
	uint64_t bytes = held_bytes / PARTS / 4096 * 4096;

	return bytes < LEAST ? LEAST : bytes > EXTENT_BYTES_SMALL ? EXTENT_BYTES_SMALL : (size_t)bytes;
}

static int open_steering(struct recording *rec, struct diag *reterr)
{
	const struct governor_bounds bounds = {.cpus = rec->options->max_cpus, .level = rec->options->compression_level};
	int err = steering_open(&rec->steering, &bounds);

	return err ? diag_set(reterr, err, "eventfd: %s", strerror(-err)) : 0;
}

static int start_compression(struct recording *rec, struct diag *reterr)
{
	enum { SHARED_READY_BYTES = 64 << 20 };
	const struct recording_options *options = rec->options;
	bool shared = options->threads && !options->directory;
	size_t nr_streams = options->directory ? rec->plan.nr_drained : shared ? rec->layout.nr_threads : 1;
	struct pack_params params = {
		.level = options->compression_level,
		/* At a switch of the output two are open for each. */
		.nr_stages = 2 * nr_streams,
		/* One output is written by one at a time; others look at what comes next, which takes longer than draining. */
		.nr_workers = shared && !options->compression_level ? 2 + nr_streams : 0,
		.events = rec->described.descs,
		.nr_events = rec->described.nr_descs,
	};

	/* Where all CPUs are busy what is drained piles up before workers that share theirs. */
	params.realtime = options->cpus_per_thread && !params.level;
	params.budget_bytes = rec->pool_bytes;
	/* Who looks on gets an extent for each pass, however little is in it. */
	if (rec->outlet.sink.pipe && params.level)
		params.extent_bytes = EXTENT_BYTES_SMALL;
	params.pressure = rec->freezer.frozen ? &rec->freezer.pressure : NULL;
	/* Where nothing may be lost the drain does not wait for pages either. */
	params.ready_bytes = params.pressure ? SIZE_MAX : shared ? SHARED_READY_BYTES : 0;
	params.trims = options->on_pressure == ON_PRESSURE_TRIM;
	params.bell = &rec->steering.bell;
	if (options->rotation.flight_ns)
		params.extent_bytes = flight_extent_bytes(options->rotation.flight_bytes);
	/* Threads that share an output fill extents, each its own. */
	else if (!params.level && !params.budget_bytes && !params.pressure && !params.trims && !shared)
		return 0;
	rec->compressed = (struct feature_compressed){
		.type = FEATURE_COMPRESSED_ZSTD,
		.level = (uint32_t)params.level,
		.ratio = 1, /* of a pipe nobody knows it before */
		/* perf decompresses a record into a buffer of this size. */
		.mmap_bytes = EXTENT_RECORD_BYTES_MAX + (uint32_t)sysconf(_SC_PAGESIZE),
	};
	int err = pack_pool_new(&params, &rec->pool, reterr);
	if (err)
		return err;
	rec->features.compressed = params.level ? &rec->compressed : NULL;
	rec->common.pool = rec->pool;
	return 0;
}

/* All that was compressed is written. */
static void end_compression(struct recording *rec, struct recording_result *result)
{
	if (!rec->pool)
		return;
	pack_pool_stop(rec->pool);
	if (rec->compressed.level)
		result->packed = rec->pool->totals;
}

/*
 * Who waits for a reader, of a FIFO that is opened or of a pipe that is full, does so as long as that takes: a signal ends us
 * there as it did before. Nothing is lost then: the workload has not begun. Threads that are made meanwhile end meanwhile.
 */
static void let_signals_end_us(const struct recording *rec, sigset_t *ret_blocked)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, ret_blocked);
	set = *ret_blocked;
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		if (!sigismember(&rec->old_mask, ending[i]))
			sigdelset(&set, ending[i]);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/* Header and world: from then on the writer goes on where they end. */
static int start_output(struct recording *rec, struct diag *reterr)
{
	bool flight = rec->options->rotation.flight_ns;
	int err = flight ? outlet_open_held(&rec->outlet, &rec->common, reterr)
			 : outlet_open(&rec->outlet, &rec->common, 0, reterr);

	if (err || rec->options->tail_synthesize)
		return err;
	if (rec->options->rotation.on) {
		err = sideline_new(&rec->plan, &rec->described.descs[0].attr, &rec->outlet.files, &rec->sideline);
		if (err)
			return diag_set(reterr, err, "out of memory");
		rec->common.sideline = rec->keeper.sideline = rec->sideline;
	}
	if (flight)
		return outlet_learn_world(&rec->outlet, &rec->common, reterr);
	return outlet_put_world(&rec->outlet, &rec->common, &rec->rotation.world_bytes, reterr);
}

static int start_pipe(struct recording *rec, struct diag *reterr)
{
	sigset_t blocked;

	let_signals_end_us(rec, &blocked);
	int err = start_output(rec, reterr);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	return err;
}

static int share_cpus(struct recording *rec, const struct topology *topology, struct diag *reterr)
{
	const struct cpuset *cpus = &rec->options->target->cpus;
	int err = thread_layout_divide(cpus, rec->options->cpus_per_thread, topology, &rec->layout);

	if (err)
		return diag_set(reterr, err, "out of memory");
	log_verbose("%u CPUs: %zu threads drain them into one file, one for at most %u CPUs (--no-threads: one for all)",
		    cpuset_count(cpus), rec->layout.nr_threads, rec->options->cpus_per_thread);
	return 0;
}

/* Which thread drains which CPUs; where there is more than one. */
static int lay_out_threads(struct recording *rec, struct diag *reterr)
{
	const struct target *target = rec->options->target;

	if (!rec->options->threads)
		return 0;
	int err = topology_read("/sys", &rec->topology, reterr);
	if (!err && rec->options->cpus_per_thread)
		return share_cpus(rec, &rec->topology, reterr);
	if (!err)
		err = thread_spec_resolve(rec->options->thread_spec, target->per_thread ? NULL : &target->cpus, &rec->topology,
					  &rec->layout, reterr);
	if (!err && target->per_thread)
		thread_layout_trim(&rec->layout, rec->plan.nr_places);
	return err;
}

/* Where LOST records alone tell what was lost, those of a ring that is left would be missing. */
static int start_growth(struct recording *rec, struct diag *reterr)
{
	if (!rec->set.carried || !eventset_counts_lost(&rec->set))
		return 0;
	int err = ring_growth_open(&rec->growth, &rec->set, &rec->bounds);
	if (!err)
		err = ring_growth_start(&rec->growth);
	return err ? diag_set(reterr, err, "cannot watch over the rings: %s", strerror(-err)) : 0;
}

/*
 * May the governor give a ring to another thread? Where the output is switched all readers' lists have to stand still, and where
 * tasks are frozen each CPU has its own reader, which the CPU runs before it fills the ring.
 */
static bool rings_move(const struct recording *rec)
{
	const struct recording_options *options = rec->options;

	return options->threads && rec->layout.nr_threads > 1 && rec->plan.nr_drained && !options->rotation.on && !options->rotation.flight_ns &&
	       options->on_pressure != ON_PRESSURE_FREEZE;
}

static int start_readers(struct recording *rec, struct diag *reterr)
{
	struct readers_params readers = {
		.set = &rec->set,
		.files = &rec->outlet.files,
		.layout = rec->options->threads ? &rec->layout : NULL,
		.growth = rec->growth.started ? &rec->growth : NULL,
		.bell = &rec->steering.bell,
		.tells_wakeups = rec->options->max_cpus > 0,
		.rings_move = rings_move(rec),
		.realtime = rec->options->realtime,
		.workload = rec->workload.pid,
	};
	const struct drain_watch_params watch = {
		.plan = &rec->plan,
		.layout = &rec->layout,
		.topology = &rec->topology,
		.readers = &rec->readers,
		.restless_ns = rec->options->restless_ns,
	};
	int err = readers_start(&rec->readers, &readers, reterr);

	if (!err && drain_watch_open(&rec->drain, &watch)) {
		readers_stop(&rec->readers);
		err = diag_set(reterr, -ENOMEM, "out of memory");
	}
	return err;
}

static int start_events(struct recording *rec, struct diag *reterr)
{
	/* All our threads run by now. */
	int err = filters_leave_out_recorder(&rec->set, reterr);

	if (err)
		return err;
	if (!rec->options->times.delayed)
		err = eventset_enable(&rec->set);
	else if (!rec->workload.pid)
		err = event_switch(&rec->set, EVENT_SWITCH_SIDE_BAND, true);
	if (!err)
		err = trigger_events_enable(&rec->trigger);
	if (err)
		return diag_set(reterr, err, "cannot enable the events: %s", strerror(-err));
	return rec->workload.pid ? workload_release(&rec->workload, rec->options->workload[0], reterr) : 0;
}

static void tell_reader(const struct reader *reader, size_t index)
{
	AUTO_BUF struct buf rings = {0}, where = {0}, wanted = {0};
	const char *separator = "";

	for (size_t i = 0; i < reader->nr_rings; i++, separator = ",")
		buf_printf(&rings, "%s%zu", separator, reader->rings[i]);
	cpuset_format(&reader->runs_on, &where);
	if (reader->affinity)
		cpuset_format(reader->affinity, &wanted);
	/* A container, say: cpuset(7). */
	bool elsewhere = wanted.len && strcmp(buf_text(&wanted), buf_text(&where));
	log_verbose("thread %zu: rings %s; on CPUs %s%s%s; scheduling %s", index, buf_text(&rings), buf_text(&where),
		    elsewhere ? ", not allowed on all of " : "", elsewhere ? buf_text(&wanted) : "", reader->scheduling);
}

static void tell_plan(const struct recording *rec)
{
	AUTO_BUF struct buf text = {0};
	const struct data_file *file = &rec->outlet.files.files[0];
	const struct writer_params *params = rec->options->directory ? &rec->outlet.files.params : &rec->outlet.writer_params;
	const struct writer_ops *ops = file->writer->ops;
	size_t ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);

	if (log_level() < LOG_VERBOSE)
		return;
	buf_printf(&text, "%zu event fds, %zu rings of %zu KiB, wake-up at %zu KiB, flush from %zu KiB; writer %s",
		   rec->plan.nr_slots, rec->plan.nr_rings, ring_bytes / 1024, rec->set.wakeup_bytes / 1024,
		   file->stream.flush_bytes / 1024, ops->name);
	if (ops->stages)
		buf_printf(&text, ", %zu blocks of %zu KiB", params->nr_blocks, params->block_bytes / 1024);
	if (ops->maps)
		buf_printf(&text, ", windows of %zu KiB", params->window_bytes / 1024);
	if (rec->pool)
		buf_printf(&text, "; level %d, %zu workers, %zu extents of %zu KiB", rec->pool->level, rec->pool->nr_workers,
			   rec->pool->nr_jobs, rec->pool->extent_bytes / 1024);
	log_verbose("%s", buf_text(&text));
	for (size_t i = 0; i < rec->readers.nr; i++)
		tell_reader(&rec->readers.readers[i], i);
}

/* What was lost for want of room in the rings of a thread, which it did not drain in time. */
static uint64_t lost_of(const struct recording *rec, const struct reader *reader)
{
	uint64_t lost = 0;

	for (size_t slot = 0; slot < rec->plan.nr_slots; slot++)
		for (size_t i = 0; i < reader->nr_rings; i++)
			if (reader->rings[i] == rec->plan.slots[slot].ring)
				lost += eventset_lost(&rec->set, slot);
	return lost;
}

static void tell_readers_work(const struct recording *rec)
{
	if (log_level() < LOG_VERBOSE)
		return;
	for (size_t i = 0; i < rec->readers.nr; i++) {
		const struct reader *reader = &rec->readers.readers[i];
		uint64_t bytes = 0;
		for (size_t s = 0; s < reader->nr_streams; s++)
			bytes += reader->streams[s]->counters.bytes;
		log_verbose("thread %zu: %llu bytes, %llu wake-ups, %.3f s of CPU, lost %llu", i, (unsigned long long)bytes,
			    (unsigned long long)reader->wakeups, (double)reader->at_end.use.cpu_ns / 1e9,
			    (unsigned long long)lost_of(rec, reader));
	}
}

static int prepare_keeper(struct recording *rec)
{
	const struct writer_ops *asked = rec->options->writer.ops;
	bool cuts = asked && asked->cuts && !rec->pool; /* of extents those count that are whole */
	bool one_file = !rec->outlet.sink.pipe && !rec->options->directory && !cuts;
	struct keeper *keeper = &rec->keeper;

	rec->commit = (struct commit){
		.fd = one_file ? rec->outlet.sink.fd : -1,
		.data_offset = rec->outlet.header.data.offset,
		.start = rec->outlet.writer->offset,
		.files = &rec->outlet.files,
	};
	keeper->nr_sync_fds = 0;
	free(rec->sync_fds);
	rec->sync_fds = calloc(rec->outlet.files.nr + 1, sizeof(*rec->sync_fds));
	if (!rec->sync_fds)
		return -ENOMEM;
	for (size_t i = 0; i < rec->outlet.files.nr; i++)
		if (rec->outlet.files.files[i].fd >= 0)
			rec->sync_fds[keeper->nr_sync_fds++] = rec->outlet.files.files[i].fd;
	keeper->held = rec->outlet.held ? rec->outlet.writer : NULL;
	if (!rec->outlet.sink.pipe && rec->outlet.sink.fd >= 0)
		rec->sync_fds[keeper->nr_sync_fds++] = rec->outlet.sink.fd;
	keeper->sync_fds = rec->sync_fds;
	keeper->sync_ms = rec->options->sync_ms;
	keeper->book = &rec->book;
	keeper->freezer = &rec->freezer;
	keeper->commit = &rec->commit;
	return 0;
}

/* For the rotation: the keeper looks at the present output only. */
static void pause_keeper(void *recording)
{
	keeper_stop(&((struct recording *)recording)->keeper);
}

static int resume_keeper(void *recording)
{
	struct recording *rec = recording;
	int err = prepare_keeper(rec);

	return err ? err : keeper_start(&rec->keeper);
}

static int open_rotation(struct recording *rec, struct diag *reterr)
{
	struct rotation *rotation = &rec->rotation;

	rotation->spec = rec->options->rotation;
	rotation->max_bytes = rec->options->max_bytes;
	rotation->timestamp = rec->options->timestamp_name;
	rotation->params = &rec->common;
	rotation->outlet = &rec->outlet;
	rotation->readers = &rec->readers;
	rotation->flight = rec->flight;
	rotation->book = &rec->book;
	rotation->cost = &rec->cost;
	rotation->pause = pause_keeper;
	rotation->resume = resume_keeper;
	rotation->other = rec;
	return rotation_open(rotation, reterr);
}

/* The ledger is open before the first event is enabled. */
static int open_ledger(struct recording *rec, struct diag *reterr)
{
	int err = ledger_book_open(&rec->book, &rec->set, rec->pool ? rec->pool->cutter : NULL);

	rec->book.paced_ns = &rec->readers.control.paced_ns;
	if (!err)
		err = loss_times_init(&rec->losses, rec->described.descs, rec->described.nr_descs);
	if (!err)
		err = prepare_keeper(rec);
	if (!err)
		err = keeper_start(&rec->keeper);
	return err ? diag_set(reterr, err, "cannot keep the ledger: %s", strerror(-err)) : 0;
}

/* Its last readings, when nothing comes any more. */
static int close_ledger(struct recording *rec, struct diag *reterr)
{
	int err = cpu_watch_account(&rec->cpus, &rec->book.ledger);
	int note_err = freezer_note(&rec->freezer, &rec->book.ledger);
	int growth_err = ring_growth_account(&rec->growth, &rec->book.ledger);
	int steering_err = steering_account(&rec->steering, &rec->book.ledger);
	int close_err = ledger_book_close(&rec->book);

	err = err ? err : note_err;
	err = err ? err : growth_err;
	err = err ? err : steering_err;
	err = err ? err : close_err;
	if (!err)
		err = recorder_cost_add(&rec->cost, &rec->book.ledger);
	if (!err)
		err = steering_cost(&rec->steering, &rec->book.ledger);
	if (!err)
		err = recorder_cost_cut(&rec->cost, &rec->book.span);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

/* How much of its time the recording saw; after the file was finished. */
static void tell_coverage(struct recording *rec, struct recording_result *result)
{
	const struct coverage_params params = {
		.ledger = &rec->book.ledger,
		.losses = &rec->losses,
		.nr_places = rec->plan.nr_places,
		.ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE),
		.drained_bytes = result->ring_total_bytes,
		.nr_samples = result->nr_samples,
	};

	/* Out of memory: then it is not known. */
	(void)!coverage_make(&params, &result->coverage);
}

/* Events flow from here until the workload, the targets, a signal or a failed writer ends it. */
static int run_events(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct supervision supervision = {
		.set = &rec->set,
		.workload = &rec->workload,
		.readers = &rec->readers.control,
		.signal_fd = rec->signal_fd,
		.times = &rec->options->times,
		.control = &rec->control,
		.rotation = &rec->rotation,
		.trigger = &rec->trigger,
		.cpus = &rec->cpus,
		.steering = &rec->steering,
	};

	tell_plan(rec);
	int err = open_ledger(rec, reterr);
	rec->cost = (struct recorder_cost){
		.readers = &rec->readers,
		.pool = rec->pool,
		.keeper = &rec->keeper,
		.start_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID),
	};
	if (!err)
		err = start_events(rec, reterr);
	if (!err) {
		steering_start(&rec->steering, rec->pool, &rec->readers.control, &rec->drain);
		err = supervise(&supervision, &result->signal, reterr);
		steering_stop(&rec->steering);
	}
	eventset_disable(&rec->set);
	pack_pool_press_no_more(rec->pool);
	keeper_stop(&rec->keeper);
	ring_growth_stop(&rec->growth);
	readers_stop(&rec->readers);
	tell_readers_work(rec);
	return err ? err : readers_error(&rec->readers, &rec->outlet.files, reterr);
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
		.ring_bytes = plan->ring < rec->plan.nr_drained ? eventset_ring_bytes(&rec->set, plan->ring) : 0,
	};
	result->losses = grown;
	result->lost_records += lost;
	return 0;
}

/* What the kernel could not give us, per event fd, into the result. */
static int account_losses(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	result->losses_counted = rec->book.ledger.counted;
	for (size_t i = 0; i < rec->plan.nr_slots; i++) {
		uint64_t lost = eventset_lost(&rec->set, i);
		if (lost && note_loss(rec, i, lost, result))
			return diag_set(reterr, -ENOMEM, "out of memory");
	}
	return 0;
}

/* A name for what was written; NULL: out of memory. */
static char *name_output(const struct recording *rec)
{
	const struct rotation *rotation = &rec->rotation;
	char *name = NULL;

	if (rotation->names.nr == 1)
		return strdup(rotation->names.names[0]);
	if (rotation->spec.flight_ns && !rotation->names.nr)
		return strdup("no file: nobody asked for one");
	if (!rotation->names.nr)
		return strdup(rec->outlet.sink.path);
	if (asprintf(&name, "%zu files %s.*", rotation->spec.flight_ns ? rotation->names.nr : rotation->nr_switches + 1,
		     rotation->names.base) < 0)
		return NULL;
	return name;
}

static int close_output(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct outlet_closing closing = {.ledger = &rec->book.ledger, .losses = &rec->losses};
	struct outlet_result closed;
	int err = rotation_finish(&rec->rotation, &closing, &closed, reterr);

	/* Out of memory: then it is not told. */
	(void)!ledger_set_cost(&rec->book.ledger, "end cpu ns", closed.end_cpu_ns);
	free(result->output);
	result->output = name_output(rec);
	end_compression(rec, result);
	result->flight = flight_counters(rec->flight);
	result->bytes = closed.bytes;
	result->nr_samples = closed.nr_samples;
	result->samples_counted = closed.samples_counted;
	result->unwritten_bytes = closed.unwritten_bytes;
	result->cut_samples = closed.cut_samples;
	return err;
}

static void recording_fini(struct recording *rec)
{
	keeper_stop(&rec->keeper);
	ledger_book_fini(&rec->book);
	recorder_cost_fini(&rec->cost);
	free(rec->sync_fds);
	loss_times_fini(&rec->losses);
	drain_watch_close(&rec->drain);
	readers_fini(&rec->readers);
	thread_layout_fini(&rec->layout);
	topology_fini(&rec->topology);
	rotation_close(&rec->rotation);
	outlet_fini(&rec->outlet);
	sideline_free(rec->sideline);
	pack_pool_press_no_more(rec->pool);
	pack_pool_free(rec->pool);
	freezer_close(&rec->freezer);
	steering_close(&rec->steering);
	flight_free(rec->flight);
	trigger_events_close(&rec->trigger);
	ring_growth_close(&rec->growth);
	eventset_close(&rec->set);
	plan_fini(&rec->plan);
	workload_end(&rec->workload, rec->signal_fd);
	described_events_fini(&rec->described);
	control_close(&rec->control);
	cpu_watch_close(&rec->cpus);
	if (rec->signal_fd >= 0)
		close(rec->signal_fd);
}

static int open_sink(struct recording *rec, struct diag *reterr)
{
	sigset_t blocked;

	if (rec->options->rotation.flight_ns) {
		/* There is none until somebody asks for one. */
		rec->outlet.sink.path = rec->options->output ? rec->options->output : "perf.data";
		return 0;
	}
	if (rec->options->directory)
		return sink_open_directory(rec->options->output, &rec->outlet.sink, reterr);
	let_signals_end_us(rec, &blocked);
	int err = sink_open(rec->options->output, &rec->outlet.sink, reterr);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	return err;
}

/* Everything up to the point where events can flow. */
static int prepare(struct recording *rec, struct diag *reterr)
{
	int err = configure(rec, reterr);
	if (!err)
		err = catch_signals(rec, reterr);
	if (!err)
		err = control_open(&rec->control, &rec->options->control, reterr);
	if (!err)
		err = fork_workload(rec, reterr);
	if (!err)
		err = open_freezer(rec, reterr);
	if (!err) {
		err = plan_make(rec->options->events, rec->options->target, &rec->plan);
		if (err)
			diag_set(reterr, err, "%s", strerror(-err));
	}
	cpu_watch_open(&rec->cpus, rec->options->target);
	/* Before the rings that take all the memory that may be locked. */
	if (!err)
		err = open_trigger(rec, reterr);
	if (!err)
		err = divide_memory(rec, reterr);
	if (!err)
		err = open_rings(rec, reterr);
	if (!err)
		err = filters_apply(&rec->set, reterr);
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
		err = open_steering(rec, reterr);
	if (!err)
		err = start_compression(rec, reterr);
	if (!err)
		err = rec->outlet.sink.pipe ? start_pipe(rec, reterr) : start_output(rec, reterr);
	if (!err)
		err = start_growth(rec, reterr);
	if (!err)
		err = start_readers(rec, reterr);
	if (!err) {
		err = open_rotation(rec, reterr);
		if (err)
			readers_stop(&rec->readers);
	}
	if (!err)
		outlet_finish_ahead(&rec->outlet, &rec->common);
	return err;
}

static uint64_t count_trimmed(const struct recording *rec)
{
	struct stack_cut_count count;
	uint64_t nr = 0;

	for (size_t i = 0; rec->pool && rec->pool->cutter && stack_cut_count(rec->pool->cutter, i, &count); i++)
		nr += count.count;
	return nr;
}

int recording_run(const struct recording_options *options, struct recording_result *ret, struct diag *reterr)
{
	struct recording rec = {
		.options = options,
		.signal_fd = -1,
		.control = {.fd = -1, .ack_fd = -1},
		.trigger = {.fd = -1},
		.cpus = {.fd = -1},
		.outlet = {.sink.fd = -1},
		.steering = {.bell.fd = -1},
	};
	struct recording_result result = {0};
	int err = prepare(&rec, reterr);

	if (!err) {
		result.output = strdup(rec.outlet.sink.path);
		err = run_events(&rec, &result, reterr);
		/* One error policy: whatever happened, what is there is finished, and the first error is told. */
		struct diag later;
		int settle_err = rotation_settle(&rec.rotation, err ? &later : reterr);
		err = err ? err : settle_err;
		int ledger_err = close_ledger(&rec, err ? &later : reterr);
		err = err ? err : ledger_err;
		int loss_err = account_losses(&rec, &result, err ? &later : reterr);
		err = err ? err : loss_err;
		int close_err = close_output(&rec, &result, err ? &later : reterr);
		err = err ? err : close_err;
	}
	workload_end(&rec.workload, rec.signal_fd);
	result.has_wait_status = rec.workload.pid != 0;
	result.wait_status = rec.workload.wait_status;
	result.nr_rings = rec.plan.nr_rings;
	result.nr_freezes = rec.freezer.nr_stops;
	result.frozen_ns = rec.freezer.total_ns;
	result.nr_unguarded = rec.freezer.nr_unguarded;
	result.nr_trimmed = count_trimmed(&rec);
	result.steering = steering_result(&rec.steering, &rec.book.ledger);
	result.ring_bytes = rec.set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);
	result.nr_threads = rec.readers.nr;
	for (size_t i = 0; i < rec.readers.nr; i++)
		result.wakeups += rec.readers.readers[i].wakeups;
	for (size_t i = 0; i < rec.outlet.files.nr; i++) {
		result.rounds += rec.outlet.files.files[i].stream.counters.rounds;
		result.ring_total_bytes += rec.outlet.files.files[i].stream.counters.bytes;
	}
	tell_coverage(&rec, &result);
	result.nr_costs = rec.book.ledger.nr_costs;
	result.costs = take_ptr(rec.book.ledger.costs);
	recording_fini(&rec);
	result.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	*ret = result;
	return err;
}

void recording_result_fini(struct recording_result *result)
{
	free(result->losses);
	free(result->output);
	free(result->costs);
	*result = (struct recording_result){0};
}
