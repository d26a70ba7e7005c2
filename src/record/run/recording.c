/* SPDX-License-Identifier: MIT */
#include "record/run/recording.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "compress/extent.h"
#include "compress/stack_cut.h"
#include "record/adapt/steering.h"
#include "record/adapt/task_pauser.h"
#include "record/build_ids/collector.h"
#include "record/build_ids/object_watch.h"
#include "record/drain/early_drain.h"
#include "record/drain/overwrite.h"
#include "record/drain/readers.h"
#include "record/drain/thread_spec.h"
#include "record/features/features.h"
#include "record/off_cpu/off_cpu_stage.h"
#include "record/output/data_files.h"
#include "record/output/finish.h"
#include "record/output/joiner.h"
#include "record/output/output_file.h"
#include "record/output/output_path.h"
#include "record/output/prologue.h"
#include "record/output/task_log.h"
#include "record/run/control.h"
#include "record/run/cpu_watch.h"
#include "record/run/end_signals.h"
#include "record/run/end_status.h"
#include "record/run/housekeeping.h"
#include "record/run/ledger.h"
#include "record/run/off_cpu_run.h"
#include "record/run/rotation.h"
#include "record/run/sample_counter.h"
#include "record/run/supervise.h"
#include "record/setup/eventset.h"
#include "record/setup/fd_closer.h"
#include "record/setup/memory_plan.h"
#include "record/setup/perf_clock.h"
#include "record/setup/plan.h"
#include "record/setup/target.h"
#include "record/setup/trigger_events.h"
#include "record/setup/workload.h"
#include "record/synth/synth.h"
#include "record/unwind/unwinding.h"
#include "record/unwind/user_chain.h"
#include "stream/batch_pool.h"
#include "stream/stage.h"
#include "sysinfo/memory.h"
#include "sysinfo/privileges.h"
#include "sysinfo/thread.h"
#include "sysinfo/topology.h"

/*
 * Everything that one recording owns; each part is made by one step of recording_run() and ended by recording_fini().
 */
struct recording {
	const struct recording_options *options;
	struct end_signals signals;
	struct control control;
	struct workload workload;
	struct task_pauser task_pauser; /* zeroed: none */
	struct trigger_events trigger;
	struct plan plan;
	struct eventset set;
	struct memory_plan memory;
	struct early_drain *early; /* NULL: no task events, or readers run */
	struct steering steering;
	struct overwrite *overwrite;
	struct described_events described;
	struct features_params features;
	struct batch_pool *pool; /* between draining and writing; NULL: not made yet */
	struct feature_compressed compressed;
	struct object_watch *watch;     /* NULL: no build-ids are wanted */
	char *cache;                    /* heap; as in output_params */
	_Atomic uint64_t cache_bytes;   /* likewise */
	struct task_log *task_log;      /* NULL: one file is all there will be */
	struct stage_maker *makers;     /* of the stages of each output */
	struct unwinding *unwinding;    /* NULL: no event needs it */
	const struct ring **task_rings; /* heap; those with records about tasks, of unwinding */
	struct off_cpu_run off_cpu;
	struct collector_maker collectors;
	struct sample_counter samples; /* for the status line */
	struct joiner_maker joiner;
	struct output_params common;
	char *output_path; /* heap; where the output is, links followed */
	struct output_file output;
	struct rotation rotation;
	struct topology topology; /* zeroed where one thread drains */
	struct thread_layout layout;
	struct readers readers;
	struct ledger_book book;
	struct recorder_cost cost;
	struct cpu_watch cpus;
	struct commit commit;
	struct housekeeping housekeeping;
	struct end_status end_status;
	int *sync_fds; /* heap */
	struct loss_times losses;
};

static int catch_signals(struct recording *rec, struct diag *reterr)
{
	return end_signals_catch(&rec->signals, reterr);
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
	sampling.pipe_output = output_path_is_pipe(options->output);
	sampling.side_channel = options->side_channel;
	sampling.overwrite_rings = true;
	sampling.has_workload = options->workload != NULL;
	return sampling;
}

/* Of stacks that are unwound, where the kernel would look for frame pointers that are not there. */
static void leave_out_user_chains(struct recording *rec)
{
	struct event_list *events = rec->options->events;
	bool known = false;

	for (size_t i = 0; i < events->nr; i++) {
		if (!events->events[i].unwinds || events->events[i].attr.exclude_callchain_user)
			continue;
		if (!known && user_chain_is_of_use(rec->options->target, rec->options->workload))
			return;
		known = true;
		events->events[i].attr.exclude_callchain_user = 1;
	}
}

static int configure(struct recording *rec, struct diag *reterr)
{
	const struct event_options sampling = sampling_of(rec);

	int err = event_list_configure(rec->options->events, &sampling, reterr);
	if (!err)
		leave_out_user_chains(rec);
	if (!err && off_cpu_run_filter_wake_ups(rec->options->events, rec->options->target))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	return err;
}

static int open_trigger(struct recording *rec, struct diag *reterr)
{
	if (!rec->options->switch_events || !rec->options->switch_events->nr)
		return 0;
	const struct event_options sampling = sampling_of(rec);

	return trigger_events_open(&rec->trigger, rec->options->switch_events, &sampling, rec->options->target, reterr);
}

static int fork_workload(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;

	if (!options->workload)
		return 0;
	enum workload_flags flags = (output_path_is_stdout(options->output) ? WORKLOAD_STDOUT_TO_STDERR : 0) |
				    (options->on_pressure == ON_PRESSURE_FREEZE ? WORKLOAD_OWN_SESSION : 0);
	int err = workload_fork(&rec->workload, options->workload, flags, &rec->signals.old_mask, reterr);
	if (!err && rec->options->target->kind == EVENT_TARGET_WORKLOAD)
		err = target_add_tid(rec->options->target, rec->workload.pid);
	return err;
}

/* Whom: those of -p, or of -t, or else the command with all that it starts in its process group. */
static int open_task_pauser(struct recording *rec, struct diag *reterr)
{
	const struct target *target = rec->options->target;
	const pid_t group = -rec->workload.pid;
	int err;

	if (rec->options->on_pressure != ON_PRESSURE_FREEZE)
		return 0;
	if (target->nr_pids)
		err = task_pauser_open(&rec->task_pauser, target->pids, target->nr_pids);
	else if (target->kind == EVENT_TARGET_TASKS)
		err = task_pauser_open(&rec->task_pauser, target->tids, target->nr_tids);
	else
		err = task_pauser_open(&rec->task_pauser, &group, 1);
	return err ? diag_set(reterr, err, "--on-pressure=freeze: %s", strerror(-err)) : 0;
}

static int describe_events(struct recording *rec, struct diag *reterr)
{
	int err = described_events_make(&rec->set, &rec->described);

	rec->features = (struct features_params){
		.events = rec->described.descs,
		.nr_events = rec->described.nr_descs,
		.argc = rec->options->argc,
		.argv = rec->options->argv,
		.pipe = rec->output.dest.pipe,
		.tracepoints = (const char *const *)rec->described.tracepoints,
		.nr_tracepoints = rec->described.nr_tracepoints,
		.groups = rec->described.groups,
		.nr_groups = rec->described.nr_groups,
	};
	rec->common = (struct output_params){
		.options = rec->options,
		.set = &rec->set,
		.described = &rec->described,
		.features = &rec->features,
		.workload = &rec->workload,
		.layout = rec->options->threads ? &rec->layout : NULL,
	};
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

static int plan_memory(struct recording *rec, struct diag *reterr)
{
	return memory_plan_make(rec->options, &rec->memory, reterr);
}

/* The command, which has been forked, keeps the policy that it was given; our threads are yet to be started. */
static int keep_memory_on_nodes(struct recording *rec, struct diag *reterr)
{
	(void)rec, (void)reterr;
	memory_stay_on_nodes();
	return 0;
}

/* Where closing the events takes long, another process does it. If it cannot be started, we do. */
static int start_fd_closer(struct recording *rec, struct diag *reterr)
{
	(void)reterr;
	if (!rec->options->wait_close && fd_closer_is_worth_it(rec->options->events))
		rec->set.leaves_fds = fd_closer_start() == 0;
	return 0;
}

/* Of one output: a file, which the writers direct and auto open once more; or a directory, with one for each ring. */
static size_t output_fds(const struct recording *rec)
{
	const struct recording_options *options = rec->options;
	const struct writer_ops *ops = options->writer.ops;
	size_t of_file = !ops || ops == &writer_auto || ops == &writer_direct ? 2 : 1;

	return options->directory ? 1 + of_file * rec->plan.nr_drained : of_file;
}

/* Whether files are finished while others are recorded; a snapshot of --flight has none but the one that it writes. */
static bool finishes_beside(const struct recording_options *options)
{
	return options->rotation.on && !options->rotation.history_ns;
}

/* That are opened after the events: a wake-up for each reader thread, and what carries rings of the overwrite channel.
 */
static size_t later_fds(const struct recording *rec)
{
	/*
	 * BESIDE_FINISHER: for moments; tasks and objects are looked at for the next file. OF_DIRECTORY: its files are
	 * all open, twice, while the tracepoints are described.
	 */
	enum { FREEZE_FDS = 1, OF_OVERWRITE_PLACE = 1, BESIDE_FINISHER = 4, OF_DIRECTORY = 2 };
	const struct recording_options *options = rec->options;
	size_t nr_outputs = options->rotation.on ? 2 : 1;

	return nr_outputs * output_fds(rec) + (finishes_beside(options) ? BESIDE_FINISHER : 0) +
	       (options->directory && !finishes_beside(options) ? OF_DIRECTORY : 0) +
	       (options->threads ? rec->layout.nr_threads : 1) +
	       OF_OVERWRITE_PLACE * (rec->plan.nr_rings - rec->plan.nr_drained) +
	       (options->on_pressure == ON_PRESSURE_FREEZE ? FREEZE_FDS : 0);
}

static int note_left_out(struct recording *rec)
{
	int err = 0;

	for (size_t i = 0; i < rec->plan.nr_slots && !err; i++)
		if (rec->set.stands_in[i])
			err = cpu_watch_left_out(&rec->cpus, (unsigned)rec->plan.slots[i].cpu);
	return err;
}

/* Those of the overwrite channel are as large as those that are drained. */
static int open_rings(struct recording *rec, struct diag *reterr)
{
	/*
	 * Writes of 1 MiB are cheaper than smaller ones; what a thread that sleeps has not drained is gone if the
	 * recorder is killed.
	 */
	enum { WAKEUP = 1 << 20, WAKEUP_OF_THREADS = 256 << 10 };
	struct ring_sizes sizes = rec->options->ring;

	sizes.most_bytes = rec->memory.most_ring_bytes;
	sizes.bounded = rec->options->max_memory != 0;
	sizes.wakeup_bytes = rec->options->threads ? WAKEUP_OF_THREADS : WAKEUP;
	sizes.margin_bytes = rec->memory.ring_margin_bytes;
	rec->set.later_fds = later_fds(rec);
	rec->set.clock = perf_clock_new(); /* or the time of its start is not known */
	int early_err = early_drain_new(&rec->plan, rec->options->realtime, &rec->early);
	AUTO_FD int pausing = fd_closer_pause_others(rec->options->events);
	(void)pausing; /* closed on return */
	int err = eventset_open(&rec->set, &rec->plan, rec->options->events, sizes, reterr);
	if (err)
		return err;
	err = early_err ? early_err : early_drain_start(rec->early, &rec->set);
	if (err)
		return diag_set(reterr, err, "cannot drain the rings of task events: %s", diag_start_error(err));
	if (note_left_out(rec))
		return diag_set(reterr, -ENOMEM, "out of memory");
	if (sizes.bounded)
		sizes.pages = rec->set.ring_pages;
	err = overwrite_open(&rec->set, sizes, &rec->overwrite, reterr);
	return err ? err : eventset_set_filters(&rec->set, reterr);
}

static int open_steering(struct recording *rec, struct diag *reterr)
{
	const struct governor_bounds bounds = {.cpus = rec->options->max_cpus,
					       .level = rec->options->compression_level};
	int err = steering_open(&rec->steering, &bounds);

	return err ? diag_set(reterr, err, "eventfd: %s", strerror(-err)) : 0;
}

/*
 * Real-time threads that only store: more of them than can be of use take CPUs from the load, and wait for each other
 * and for the file system. 0: as many as CPUs, for what is compressed or unwound.
 */
static size_t nr_workers(const struct recording *rec)
{
	enum { OF_EACH_THREAD = 2 };
	const struct recording_options *options = rec->options;
	size_t cpus = cpuset_count_allowed();
	size_t nr = OF_EACH_THREAD * (options->threads ? rec->layout.nr_threads : 1);

	return options->compression_level || event_list_unwinds(options->events) ? 0 : nr < cpus ? nr : cpus;
}

/* Whether stages wait for other records, and leave little of a batch: what is left costs them more than compression. */
static bool keeps_batches(const struct recording *rec)
{
	return event_list_unwinds(rec->options->events) || rec->options->sampling.off_cpu.on;
}

static int start_pool(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;
	bool shared = options->threads && !options->directory;
	size_t nr_streams = options->directory ? rec->plan.nr_drained : shared ? rec->layout.nr_threads : 1;
	struct batch_pool_params params = {
		.level = options->compression_level,
		.nr_workers = nr_workers(rec),
		/* At a switch of the output two are open for each. */
		.nr_pipelines = 2 * nr_streams,
		.events = rec->described.ring_descs,
		.nr_events = rec->described.nr_ring_descs,
		.thorough = keeps_batches(rec),
	};

	/*
	 * Where all CPUs are busy what is drained piles up before workers that share theirs. To compress what it is
	 * unwound to is as short.
	 */
	params.realtime = !params.level || event_list_only_unwinds(rec->options->events);
	params.no_index = !params.level && !options->rotation.history_ns;
	params.budget_bytes = rec->memory.pool_bytes;
	params.bounds_all = true;
	params.ready_bytes = rec->memory.ready_bytes;
	params.spares = rec->memory.pool_spares;
	params.extent_bytes = memory_plan_extent_bytes(options, rec->output.dest.pipe);
	params.pressure = rec->task_pauser.frozen ? &rec->task_pauser.pressure : NULL;
	params.trims = options->on_pressure == ON_PRESSURE_TRIM;
	params.notifier = &rec->steering.notifier;
	rec->compressed = (struct feature_compressed){
		.type = FEATURE_COMPRESSED_ZSTD,
		.level = (uint32_t)params.level,
		.ratio = 1, /* of a pipe it is not known before */
		/* perf decompresses a record into a buffer of this size. */
		.mmap_bytes = EXTENT_RECORD_BYTES_MAX + (uint32_t)sysconf(_SC_PAGESIZE),
	};
	int err = batch_pool_new(&params, &rec->pool, reterr);
	if (err)
		return err;
	rec->features.compressed = params.level ? &rec->compressed : NULL;
	rec->common.pool = rec->pool;
	return 0;
}

/* Which rings have records about tasks. Heap; NULL: out of memory. */
static bool *find_task_rings(const struct recording *rec)
{
	const struct plan *plan = &rec->plan;
	bool *rings = calloc(plan->nr_rings + 1, sizeof(*rings));

	for (size_t i = 0; rings && i < plan->nr_slots; i++) {
		const struct perf_event_attr *attr = &rec->options->events->events[plan->slots[i].event].attr;
		rings[plan->slots[i].ring] |= attr->task || attr->comm || attr->mmap;
	}
	return rings;
}

/* Marks the events in whose rings there are records about tasks. 0 or -ENOMEM. */
static int find_task_events(const struct recording *rec, struct unwinding_event *by_event)
{
	const struct plan *plan = &rec->plan;
	AUTO_FREE bool *rings = find_task_rings(rec);

	for (size_t i = 0; rings && i < plan->nr_slots; i++)
		by_event[plan->slots[i].event].carries_task_events |= rings[plan->slots[i].ring];
	return rings ? 0 : -ENOMEM;
}

static int open_unwinding(struct recording *rec, struct diag *reterr)
{
	const struct event_list *events = rec->options->events;
	AUTO_FREE struct unwinding_event *by_event = calloc(events->nr + 1, sizeof(*by_event));
	const struct unwinding_params params = {.events = rec->described.ring_descs,
						.by_event = by_event,
						.nr_events = rec->described.nr_ring_descs,
						.watch = rec->watch,
						.realtime = rec->pool->realtime};

	for (size_t i = 0; by_event && i < events->nr; i++)
		by_event[i] = (struct unwinding_event){.unwinds = events->events[i].unwinds,
						       .max_stack = events->events[i].max_stack};
	int err = by_event ? find_task_events(rec, by_event) : -ENOMEM;
	if (!err)
		err = unwinding_new(&params, &rec->unwinding);
	if (err == -EINVAL)
		return diag_set(reterr, err,
				"call graphs by unwind need times in the samples of the first event, too: use "
				"--timestamp");
	if (err)
		return diag_set(reterr, err, "out of memory");
	stage_makers_add(&rec->makers, unwinding_maker(rec->unwinding));
	return 0;
}

/* The events of a command begin with its exec, which is when its first records come. */
static bool starts_at_exec(const struct recording *rec)
{
	return !rec->options->times.delayed && rec->options->target->kind == EVENT_TARGET_WORKLOAD;
}

/* Behind the stage that unwinds. */
static int open_off_cpu(struct recording *rec, struct diag *reterr)
{
	const struct off_cpu_run_params params = {
		.options = rec->options,
		.plan = &rec->plan,
		.described = &rec->described,
		.book = &rec->book,
		.workload_pid = rec->workload.pid,
		.overwrites = rec->overwrite != NULL,
		.most_stack_bytes = rec->memory.wait_bytes,
		.starts_at_exec = starts_at_exec(rec),
	};
	int err = off_cpu_run_open(&rec->off_cpu, &rec->set, &params, reterr);

	if (err)
		return err;
	stage_makers_add(&rec->makers, off_cpu_maker(rec->off_cpu.stages));
	rec->common.full_ns = off_cpu_full_ns(rec->off_cpu.stages);
	return 0;
}

/* A command may write on the same terminal: with one, only for those who ask for more. */
static bool shows_status(const struct recording *rec)
{
	return isatty(STDERR_FILENO) && (!rec->options->workload || log_level() >= LOG_VERBOSE);
}

/* The stages of each output, in their order: what changes records stands before what looks at them. */
static int choose_stages(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;
	int err = event_list_unwinds(options->events) ? open_unwinding(rec, reterr) : 0;

	if (!err && options->sampling.off_cpu.on)
		err = open_off_cpu(rec, reterr);
	if (err)
		return err;
	rec->collectors = (struct collector_maker){
		.maker.make = collector_make, .events = rec->described.descs, .nr_events = rec->described.nr_descs};
	if (shows_status(rec) && !options->cpus_per_thread) {
		rec->samples.maker.make = sample_counter_make;
		stage_makers_add(&rec->makers, &rec->samples.maker);
	}
	/* Threads that each have as many rings as they can copy: that file is read back in the end. */
	if (options->build_ids && !options->cpus_per_thread)
		stage_makers_add(&rec->makers, &rec->collectors.maker);
	rec->joiner = (struct joiner_maker){.maker.make = joiner_make, .holds_for_two = !options->threads};
	if (keeps_batches(rec) && options->compression_level && !options->rotation.history_ns)
		stage_makers_add(&rec->makers, &rec->joiner.maker);
	rec->common.makers = rec->makers;
	return 0;
}

/* All that was compressed is written. */
static void end_compression(struct recording *rec, struct recording_result *result)
{
	if (!rec->pool)
		return;
	batch_pool_stop(rec->pool);
	result->packed = rec->pool->totals;
	for (size_t i = 0; i < POOL_DROP_REASONS; i++)
		result->lost_records += result->packed.drops[i].nr_samples;
	result->compressed = rec->compressed.level != 0;
	result->pool_bytes = rec->pool->memory_bytes;
}

/* Header and initial state: the writer goes on where they end. */
static int start_output(struct recording *rec, struct diag *reterr)
{
	bool retained = rec->options->rotation.history_ns;
	int err = retained ? output_file_open_retained(&rec->output, &rec->common, reterr)
			   : output_file_open(&rec->output, &rec->common, 0, reterr);

	/* Stages that have to know from the start what is mapped are told, and the file at its end. */
	if (!err && rec->options->tail_synthesize && rec->makers)
		return output_file_begin_task_log(&rec->output, &rec->common, reterr);
	if (err || rec->options->tail_synthesize)
		return err;
	if (rec->options->rotation.on) {
		err = task_log_new(&rec->described.descs[0].attr, &rec->output.files, &rec->task_log);
		if (err)
			return diag_set(reterr, err, "out of memory");
		rec->common.task_log = rec->housekeeping.task_log = rec->task_log;
	}
	if (retained)
		return output_file_begin_task_log(&rec->output, &rec->common, reterr);
	return output_file_put_initial_state(&rec->output, &rec->common, &rec->rotation.initial_bytes, reterr);
}

static int open_output(struct recording *rec, struct diag *reterr)
{
	sigset_t blocked;

	if (!rec->output.dest.pipe)
		return start_output(rec, reterr);
	end_signals_unblock(&rec->signals, &blocked);
	int err = start_output(rec, reterr);
	end_signals_block(&blocked);
	return err;
}

static int share_cpus(struct recording *rec, const struct topology *topology, struct diag *reterr)
{
	const struct cpuset *cpus = &rec->options->target->cpus;
	/* To copy the stacks of a CPU is several times as much as to copy other samples. */
	unsigned cpus_per_thread =
		rec->options->cpus_per_thread / (event_list_copies_stacks(rec->options->events) ? 2 : 1);
	int err = thread_layout_divide(cpus, cpus_per_thread, topology, &rec->layout);

	if (err)
		return diag_set(reterr, err, "out of memory");
	log_verbose(
		"%u CPUs: %zu threads drain them into one file, one for at most %u CPUs (--no-threads: one for all)",
		cpuset_count(cpus), rec->layout.nr_threads, cpus_per_thread);
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
		err = thread_spec_resolve(rec->options->thread_spec, target->per_thread ? NULL : &target->cpus,
					  &rec->topology, &rec->layout, reterr);
	if (err == -EINVAL && rec->options->thread_spec_place)
		diag_prefix(reterr, "%s", rec->options->thread_spec_place);
	if (!err && target->per_thread)
		thread_layout_trim(&rec->layout, rec->plan.nr_places);
	return err;
}

/* Where copies of objects go; on the heap. NULL: nowhere, or out of memory. */
static char *name_cache(const struct recording_options *options)
{
	const char *home = getenv("HOME");
	char *path = NULL;

	if (options->cache.bundle)
		return asprintf(&path, "%s.bundle", options->output ? options->output : "perf.data") < 0 ? NULL : path;
	if (options->cache.off)
		return NULL;
	if (options->cache.directory)
		return strdup(options->cache.directory);
	return !home || asprintf(&path, "%s/.debug", home) < 0 ? NULL : path;
}

static bool wants_bpf_events(const struct event_list *events)
{
	for (size_t i = 0; i < events->nr; i++)
		if (events->events[i].attr.bpf_event)
			return true;
	return false;
}

/* What the limit leaves beside all that is needed. */
static size_t spare_fds(const struct recording *rec)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur <= rec->set.needed_fds
		       ? 0
		       : limit.rlim_cur - rec->set.needed_fds;
}

/* What is needed is enough for two outputs: one that is recorded, and one that comes next or is finished. */
static size_t more_jobs(const struct recording *rec)
{
	size_t nr = spare_fds(rec) / output_fds(rec);

	if (!finishes_beside(rec->options))
		return 0;
	return nr < ROTATION_MOST_JOBS - 1 ? nr : ROTATION_MOST_JOBS - 1;
}

/* Nothing that came through a pipe is read back, to find out what was sampled, and no build-ids follow. */
static bool counts_gone_objects(const struct recording *rec)
{
	return rec->output.dest.pipe && rec->options->build_ids && !rec->options->cache.off;
}

static void report_gone_objects(const struct recording *rec)
{
	size_t nr = counts_gone_objects(rec) ? object_watch_count_gone(rec->watch) : 0;

	if (nr)
		log_note("%zu mapped object%s not under %s path here any more, and a recording into a pipe keeps no "
			 "copies: code in %s will have no names, but where a container that lives has the file",
			 nr, nr == 1 ? " is" : "s are", nr == 1 ? "its" : "their", nr == 1 ? "it" : "them");
}

static int open_watch(struct recording *rec, struct diag *reterr)
{
	const bool keeps = rec->options->build_ids && !rec->output.dest.pipe;

	if (!keeps && !counts_gone_objects(rec) && !event_list_unwinds(rec->options->events))
		return 0;
	if (keeps) {
		rec->common.cache = rec->cache = name_cache(rec->options);
		rec->common.cache_bytes = &rec->cache_bytes;
	}
	size_t left = spare_fds(rec) - more_jobs(rec) * output_fds(rec);
	if (left >= SPARE_ROOM_LEAST_FDS)
		left -= 1 + more_jobs(rec); /* spare room of each output */
	const struct object_watch_params params = {.target = rec->options->target,
						   .interval_ns = event_list_interval_ns(rec->options->events),
						   .bpf = keeps && wants_bpf_events(rec->options->events),
						   .reports_missed = keeps,
						   .max_fds = left};
	int err = object_watch_open(&params, &rec->watch);
	rec->common.watch = rec->watch;
	if (rec->watch)
		rec->features.bpf_programs = object_watch_bpf_programs(rec->watch);
	return err ? diag_set(reterr, err, "cannot watch for objects: %s", strerror(-err)) : 0;
}

/* Its rings have room for what is mapped until then: a thread that started sooner would wake up for it. */
static int start_watch(struct recording *rec, struct diag *reterr)
{
	int err = object_watch_start(rec->watch);

	return err ? diag_set(reterr, err, "cannot watch for objects: %s", diag_start_error(err)) : 0;
}

/* All events are open. The command, which waits for its exec, has what it was started with. */
static int drop_privileges(struct recording *rec, struct diag *reterr)
{
	(void)reterr;
	privileges_drop(rec->workload.pid || rec->task_pauser.frozen);
	return 0;
}

/* The threads that drain also unwind, where records about tasks have rings of their own. 0 or -ENOMEM. */
static int convert_in_rings(struct recording *rec, const struct thread_layout *layout, struct stream *const *streams)
{
	const struct plan *plan = &rec->plan;
	AUTO_FREE bool *has_task_events = find_task_rings(rec);
	struct unwinding_rings rings = {.nr_threads = layout ? layout->nr_threads : 1};

	rec->task_rings = calloc(plan->nr_rings + 1, sizeof(*rec->task_rings));
	if (!has_task_events || !rec->task_rings)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_rings; i++) {
		if (has_task_events[i] && plan->rings[i].channel != CHANNEL_SIDE)
			return 0;
		if (has_task_events[i])
			rec->task_rings[rings.nr++] = &rec->set.rings[i];
	}
	rings.rings = rec->task_rings;
	int err = unwinding_open_rings(rec->unwinding, &rings, rec->pool);
	for (size_t i = 0; i < plan->nr_drained && !err; i++)
		streams[i]->converter =
			unwinding_converter(rec->unwinding, thread_layout_of_ring(layout, &plan->rings[i]));
	return err;
}

/* The stream that each drained ring is drained by: its own, that of its thread, or the one for all. Heap; NULL. */
static struct stream **streams_by_ring(struct recording *rec, const struct thread_layout *layout)
{
	struct data_files *files = &rec->output.files;
	struct stream **streams = calloc(rec->plan.nr_drained + 1, sizeof(struct stream *));

	for (size_t ring = 0; streams && ring < rec->plan.nr_drained; ring++) {
		size_t reader = thread_layout_of_ring(layout, &rec->plan.rings[ring]);
		streams[ring] = &files->files[files->directory ? ring : reader].stream;
	}
	return streams;
}

static int start_readers(struct recording *rec, struct diag *reterr)
{
	const struct thread_layout *layout = rec->options->threads ? &rec->layout : NULL;
	struct stream **streams = streams_by_ring(rec, layout);
	struct readers_params readers = {
		.set = &rec->set,
		.streams = streams,
		.layout = layout,
		.early = rec->early,
		.notifier = &rec->steering.notifier,
		.notifies_wakeups = rec->options->max_cpus > 0,
		.realtime = rec->options->realtime,
		.stores = !rec->options->threads && rec->pool->no_index,
		.workload = rec->workload.pid,
	};

	int err = streams ? 0 : -ENOMEM;
	if (!err && rec->unwinding)
		err = convert_in_rings(rec, layout, streams);
	err = err ? diag_set(reterr, err, "out of memory") : readers_start(&rec->readers, &readers, reterr);
	free(streams);
	early_drain_free(take_ptr(rec->early));
	return err;
}

static int reopen_cpu(void *ctx, int cpu, struct diag *reterr)
{
	struct recording *rec = ctx;

	if (rec->trigger.fd >= 0)
		log_note("events of --switch-output-event are not opened again on CPU %d", cpu);
	return eventset_reopen(&rec->set, cpu, reterr);
}

/* A command that cannot be run is told by its exec alone, when the events are on. */
static int start_events(struct recording *rec, struct diag *reterr)
{
	int err = 0;

	rec->cost = (struct recorder_cost){
		.readers = &rec->readers,
		.pool = rec->pool,
		.housekeeping_cpu_ns = &rec->housekeeping.cpu_ns,
		.start_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID),
	};
	rec->cpus.reopen = reopen_cpu;
	rec->cpus.reopen_ctx = rec;
	if (!rec->options->times.delayed)
		err = eventset_enable(&rec->set);
	else if (!rec->workload.pid)
		err = eventset_switch(&rec->set, EVENTSET_SIDE_BAND, true);
	if (!err)
		err = trigger_events_enable(&rec->trigger);
	if (err)
		return diag_set(reterr, err, "cannot enable the events: %s", strerror(-err));
	if (!rec->options->times.delayed && !starts_at_exec(rec))
		off_cpu_run_switch(&rec->off_cpu, true);
	return rec->workload.pid ? workload_release(&rec->workload, rec->options->workload[0], reterr) : 0;
}

static void log_reader(const struct reader *reader, size_t index)
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
		    elsewhere ? ", not allowed on all of " : "", elsewhere ? buf_text(&wanted) : "",
		    reader->scheduling);
}

static void log_plan(const struct recording *rec)
{
	AUTO_BUF struct buf text = {0};
	const struct data_file *file = &rec->output.files.files[0];
	const struct writer_params *params =
		rec->options->directory ? &rec->output.files.params : &rec->output.writer_params;
	const struct writer_ops *ops = file->writer->stores;
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
		buf_printf(&text, "; level %d, %zu workers, %zu extents of %zu KiB", rec->pool->level,
			   rec->pool->nr_workers, rec->pool->nr_jobs, rec->pool->extent_bytes / 1024);
	log_verbose("%s", buf_text(&text));
	for (size_t i = 0; i < rec->readers.nr; i++)
		log_reader(&rec->readers.readers[i], i);
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

static void log_readers_work(const struct recording *rec)
{
	if (log_level() < LOG_VERBOSE)
		return;
	for (size_t i = 0; i < rec->readers.nr; i++) {
		const struct reader *reader = &rec->readers.readers[i];
		uint64_t bytes = 0;
		for (size_t s = 0; s < reader->nr_streams; s++)
			bytes += reader->streams[s]->counters.bytes;
		log_verbose("thread %zu: %llu bytes, %llu wake-ups, %.3f s of CPU, lost %llu", i,
			    (unsigned long long)bytes, (unsigned long long)reader->wakeups,
			    (double)reader->at_end.use.cpu_ns / 1e9, (unsigned long long)lost_of(rec, reader));
		if (reader->nr_cpus_left)
			log_verbose("thread %zu: needed all of its CPU and went to another one, %u times", i,
				    reader->nr_cpus_left);
	}
}

static int prepare_housekeeping(struct recording *rec)
{
	const struct writer_ops *ops = rec->options->writer.ops;
	bool cuts = ops && ops->cuts && !rec->pool; /* of extents those count that are whole */
	bool one_file = !rec->output.dest.pipe && !rec->options->directory && !cuts;
	struct housekeeping *housekeeping = &rec->housekeeping;

	rec->commit = (struct commit){
		.fd = one_file ? rec->output.dest.fd : -1,
		.data_offset = rec->output.header.data.offset,
		.start = rec->output.writer->offset,
		.files = &rec->output.files,
	};
	housekeeping->nr_sync_fds = 0;
	free(rec->sync_fds);
	rec->sync_fds = calloc(rec->output.files.nr + 1, sizeof(*rec->sync_fds));
	if (!rec->sync_fds)
		return -ENOMEM;
	for (size_t i = 0; i < rec->output.files.nr; i++)
		if (rec->output.files.files[i].fd >= 0)
			rec->sync_fds[housekeeping->nr_sync_fds++] = rec->output.files.files[i].fd;
	housekeeping->retained = rec->output.retained ? rec->output.writer : NULL;
	if (!rec->output.dest.pipe && rec->output.dest.fd >= 0)
		rec->sync_fds[housekeeping->nr_sync_fds++] = rec->output.dest.fd;
	housekeeping->sync_fds = rec->sync_fds;
	housekeeping->sync_ms = rec->options->sync_ms;
	housekeeping->interval_ns = event_list_interval_ns(rec->options->events);
	housekeeping->book = &rec->book;
	housekeeping->task_pauser = &rec->task_pauser;
	housekeeping->commit = &rec->commit;
	housekeeping->pool = rec->pool;
	return 0;
}

/* For the rotation: the housekeeping looks at the present output only. */
static void pause_housekeeping(void *recording)
{
	housekeeping_pause(&((struct recording *)recording)->housekeeping);
}

static int resume_housekeeping(void *recording)
{
	struct recording *rec = recording;
	int err = prepare_housekeeping(rec);

	if (!err)
		housekeeping_resume(&rec->housekeeping);
	return err;
}

static int open_rotation(struct recording *rec, struct diag *reterr)
{
	struct rotation *rotation = &rec->rotation;

	rotation->spec = rec->options->rotation;
	rotation->max_bytes = rec->options->max_bytes;
	rotation->timestamp = rec->options->timestamp_name;
	rotation->params = &rec->common;
	rotation->output = &rec->output;
	rotation->readers = &rec->readers;
	rotation->overwrite = rec->overwrite;
	rotation->unwinding = rec->unwinding;
	rotation->off_cpu = &rec->off_cpu;
	rotation->book = &rec->book;
	rotation->cost = &rec->cost;
	rotation->max_jobs = 1 + more_jobs(rec);
	rotation->pause = pause_housekeeping;
	rotation->resume = resume_housekeeping;
	rotation->ctx = rec;
	return rotation_open(rotation, reterr);
}

/* The ledger is open before the first event is enabled. */
static int open_ledger(struct recording *rec, struct diag *reterr)
{
	int err = ledger_book_open(&rec->book, &rec->set, rec->pool ? rec->pool->cutter : NULL);

	rec->book.interval_until_ns = &rec->readers.control.interval_until_ns;
	rec->book.full_ns = &rec->pool->full_until_ns;
	if (!err)
		err = loss_times_init(&rec->losses, rec->described.descs, rec->described.nr_descs);
	if (!err)
		err = prepare_housekeeping(rec);
	if (!err)
		err = housekeeping_start(&rec->housekeeping);
	return err ? diag_set(reterr, err, "cannot keep the ledger: %s", diag_start_error(err)) : 0;
}

/* Its last readings, when nothing comes any more. */
static int close_ledger(struct recording *rec, struct diag *reterr)
{
	int err = cpu_watch_account(&rec->cpus, &rec->book.ledger);
	int note_err = task_pauser_note(&rec->task_pauser, &rec->book.ledger);
	int steering_err = steering_account(&rec->steering, &rec->book.ledger);
	int disabled_err = off_cpu_run_account(&rec->off_cpu, &rec->book.ledger);
	int close_err = ledger_book_close(&rec->book);

	err = err ? err : note_err;
	err = err ? err : steering_err;
	err = err ? err : disabled_err;
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
static void add_coverage(struct recording *rec, struct recording_result *result)
{
	enum { PART_OF_MEMORY = 8 };
	/* Of one file that is not whole all was read back. */
	const bool read_back = result->unwritten_bytes && !rec->rotation.nr_switches;
	uint64_t memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	const struct coverage_params params = {
		.ledger = &rec->book.ledger,
		.losses = &rec->losses,
		.mixed = !rec->options->directory && rec->plan.nr_drained > 1 && !read_back,
		.nr_places = rec->plan.nr_places,
		.ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE),
		.drained_bytes = result->ring_total_bytes,
		.most_ring_bytes =
			(size_t)(memory_bytes / PART_OF_MEMORY / (rec->plan.nr_places ? rec->plan.nr_places : 1)),
		.nr_samples = result->nr_samples,
		.least_ring_bytes = ring_sizes_least_bytes(event_list_most_dump_bytes(rec->options->events)),
	};

	/* Out of memory: then it is not known. */
	(void)!coverage_make(&params, &result->coverage);
}

/* Events flow until the workload, the targets, a signal or a failed writer ends it. */
static int run_events(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct supervision supervision = {
		.set = &rec->set,
		.workload = &rec->workload,
		.readers = &rec->readers.control,
		.signal_fd = rec->signals.fd,
		.times = &rec->options->times,
		.control = &rec->control,
		.rotation = &rec->rotation,
		.trigger = &rec->trigger,
		.cpus = &rec->cpus,
		.steering = &rec->steering,
		.shows_status = shows_status(rec),
		/* Samples in overwrite rings go by only when a snapshot is taken. */
		.nr_samples =
			rec->samples.maker.make && rec->plan.nr_drained == rec->plan.nr_rings ? &rec->samples.nr : NULL,
		.files = &rec->output.files,
		.separate_files = rec->options->directory,
		.book = &rec->book,
	};

	steering_start(&rec->steering, rec->pool, &rec->readers.control);
	int err = supervise(&supervision, &result->signal, reterr);
	steering_stop(&rec->steering);
	uint64_t stopped_ns = off_cpu_run_end(&rec->off_cpu);
	eventset_disable(&rec->set);
	ledger_book_end(&rec->book);
	end_status_start(&rec->end_status, rec->pool);
	batch_pool_disable_pressure(rec->pool);
	housekeeping_stop(&rec->housekeeping);
	readers_stop(&rec->readers);
	off_cpu_run_stop(&rec->off_cpu, stopped_ns);
	object_watch_stop(rec->watch);
	report_gone_objects(rec);
	log_readers_work(rec);
	const struct stream *failed = NULL;
	int drain_err = readers_error(&rec->readers, &failed);

	if (!err && drain_err)
		return data_files_error(&rec->output.files, failed, drain_err, reterr);
	return err;
}

static int note_loss(struct recording *rec, size_t slot, uint64_t lost, struct recording_result *result)
{
	const struct plan_slot *plan = &rec->plan.slots[slot];
	const struct event *event = &rec->options->events->events[plan->event];
	struct recording_loss *grown = realloc(result->losses, (result->nr_losses + 1) * sizeof(*result->losses));

	if (!grown)
		return -ENOMEM;
	grown[result->nr_losses++] = (struct recording_loss){
		.event = event->name,
		.cpu = plan->cpu,
		.tid = plan->pid,
		.records = lost,
		.ring_bytes = plan->ring < rec->plan.nr_drained ? rec->set.rings[plan->ring].bytes : 0,
		.task_events = event->side_band || event->side_channel,
	};
	result->losses = grown;
	*(grown[result->nr_losses - 1].task_events ? &result->lost_task_events : &result->lost_records) += lost;
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
	const struct part_names *names = &rotation->names;
	size_t nr = rotation->spec.history_ns ? names->nr + names->nr_removed : rotation->nr_switches + 1;
	char kept[64] = "", *name = NULL;

	if (names->nr == 1 && !names->nr_removed)
		return strdup(names->names[0]);
	if (rotation->spec.history_ns && !names->nr)
		return strdup(rotation->finisher.gave_up ? "no file" : "no file: no snapshot was requested");
	if (!names->nr)
		return strdup(rotation->renamed ? rotation->renamed : rec->output.dest.path);
	if (names->nr_removed)
		snprintf(kept, sizeof(kept), " (%zu are kept)", names->nr);
	return asprintf(&name, "%zu files %s.*%s", nr, names->base, kept) < 0 ? NULL : name;
}

static int close_output(struct recording *rec, struct recording_result *result, struct diag *reterr)
{
	struct output_closing closing = {.ledger = &rec->book.ledger, .losses = &rec->losses};
	struct output_result closed;
	int err = rotation_finish(&rec->rotation, &closing, &closed, reterr);

	/* Out of memory: then it is not told. */
	(void)!ledger_set_cost(&rec->book.ledger, "end cpu ns", closed.end_cpu_ns);
	char *name = name_output(rec);
	if (name) { /* or the name stays that with which it began */
		free(result->output);
		result->output = name;
	}
	result->change = rec->rotation.change;
	end_status_stop(&rec->end_status);
	end_compression(rec, result);
	result->overwrite = overwrite_counters(rec->overwrite);
	result->bytes = closed.bytes;
	result->nr_samples = closed.nr_samples;
	result->samples_counted = closed.samples_counted;
	const struct off_cpu_counts counts = off_cpu_counts(rec->off_cpu.stages);
	result->nr_off_cpu = counts.nr_samples;
	result->nr_wait_stacks = counts.nr_stacks;
	result->nr_no_room_stacks = counts.nr_no_room;
	result->unwritten_bytes = closed.unwritten_bytes;
	result->cut_samples = closed.cut_samples;
	return err;
}

static void recording_fini(struct recording *rec)
{
	end_status_stop(&rec->end_status);
	housekeeping_stop(&rec->housekeeping);
	ledger_book_fini(&rec->book);
	recorder_cost_fini(&rec->cost);
	free(rec->sync_fds);
	loss_times_fini(&rec->losses);
	readers_fini(&rec->readers);
	thread_layout_fini(&rec->layout);
	topology_fini(&rec->topology);
	rotation_close(&rec->rotation);
	output_file_fini(&rec->output);
	off_cpu_run_close(&rec->off_cpu);
	unwinding_free(rec->unwinding);
	free(rec->task_rings);
	task_log_free(rec->task_log);
	object_watch_free(rec->watch);
	free(rec->cache);
	batch_pool_disable_pressure(rec->pool);
	batch_pool_free(rec->pool);
	task_pauser_close(&rec->task_pauser);
	steering_close(&rec->steering);
	overwrite_free(rec->overwrite);
	trigger_events_close(&rec->trigger);
	early_drain_free(rec->early);
	eventset_close(&rec->set);
	plan_fini(&rec->plan);
	workload_end(&rec->workload, rec->signals.fd);
	described_events_fini(&rec->described);
	control_close(&rec->control);
	cpu_watch_close(&rec->cpus);
	end_signals_close(&rec->signals);
	free(rec->output_path);
}

static int open_path(struct recording *rec, struct diag *reterr)
{
	sigset_t blocked;

	bool named = rec->options->rotation.history_ns || rec->options->directory;
	int err = output_path_resolve(rec->options->output || !named ? rec->options->output : "perf.data",
				      &rec->output_path, reterr);
	if (err)
		return err;
	rec->output.dest.path = rec->output_path;
	if (rec->options->rotation.history_ns) /* there is none until a snapshot is requested */
		return 0;
	if (rec->options->directory)
		return output_path_open_directory(rec->output_path, &rec->output.dest, reterr);
	end_signals_unblock(&rec->signals, &blocked);
	err = output_path_open(rec->output_path, &rec->output.dest, reterr);
	end_signals_block(&blocked);
	return err;
}

static int open_control(struct recording *rec, struct diag *reterr)
{
	return control_open(&rec->control, &rec->options->control, reterr);
}

static int make_plan(struct recording *rec, struct diag *reterr)
{
	const struct recording_options *options = rec->options;
	int err = plan_check_cpus(options->events, options->target, reterr);

	if (err)
		return err;
	if (plan_breaks_rings(options->events, options->target, sysconf(_SC_NPROCESSORS_ONLN)))
		log_note("-s: a thread that ends writes its counts into the rings of all CPUs, and by that Linux may "
			 "lose "
			 "samples without counting them: leave out -s where all are wanted (report -s tid has those of "
			 "each thread)");
	err = plan_make(options->events, options->target, &rec->plan);
	cpu_watch_open(&rec->cpus, options->target);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : 0;
}

/* Everything up to the point where events flow, in this order. recording_fini() undoes as much as was done. */
static int prepare(struct recording *rec, struct diag *reterr)
{
	static int (*const steps[])(struct recording * rec, struct diag * reterr) = {
		configure,
		catch_signals,
		open_control,
		fork_workload,
		open_task_pauser,
		make_plan,
		open_trigger, /* before the rings that take all the memory that may be locked */
		plan_memory,
		keep_memory_on_nodes,
		start_fd_closer,
		lay_out_threads,
		open_rings,
		open_path,
		describe_events,
		open_steering,
		open_watch,
		/* Threads that start later inherit what is left. */
		drop_privileges,
		start_pool,
		choose_stages,
		open_output,
		start_readers,
		open_rotation,
		start_watch,
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps) && !err; i++)
		err = steps[i](rec, reterr);
	if (!err) {
		output_file_write_provisional_header(&rec->output, &rec->common);
		err = open_ledger(rec, reterr);
	}
	if (!err) { /* all our threads run by now */
		memory_lock();
		err = eventset_leave_out_recorder(&rec->set, reterr);
	}
	if (!err) {
		log_plan(rec);
		err = start_events(rec, reterr);
		if (err)
			eventset_disable(&rec->set);
	}
	if (err && rec->readers.nr) /* they use what is freed before them */
		readers_stop(&rec->readers);
	if (err)
		output_path_undo(&rec->output.dest);
	else
		output_path_confirm(&rec->output.dest);
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

/* Whatever happened, what is there is finished; the first error is reported. */
static int finish(struct recording *rec, struct recording_result *result, int err, struct diag *reterr)
{
	struct diag later;
	int wait_err = rotation_wait(&rec->rotation, err ? &later : reterr);

	err = err ? err : wait_err;
	int ledger_err = close_ledger(rec, err ? &later : reterr);
	err = err ? err : ledger_err;
	int loss_err = account_losses(rec, result, err ? &later : reterr);
	err = err ? err : loss_err;
	int close_err = close_output(rec, result, err ? &later : reterr);
	return err ? err : close_err;
}

/* What the parts have counted, before they end. */
static void collect_result(struct recording *rec, struct recording_result *result)
{
	result->has_wait_status = rec->workload.pid != 0;
	result->wait_status = rec->workload.wait_status;
	result->nr_rings = rec->plan.nr_rings;
	result->nr_freezes = rec->task_pauser.nr_stops;
	result->frozen_ns = rec->task_pauser.total_ns;
	result->nr_unguarded = rec->task_pauser.nr_unguarded;
	result->nr_trimmed = count_trimmed(rec);
	result->unwinding = unwinding_counts(rec->unwinding);
	result->steering = steering_result(&rec->steering, &rec->book.ledger);
	result->ring_bytes = rec->set.ring_pages * (size_t)sysconf(_SC_PAGESIZE);
	result->nr_threads = rec->readers.nr;
	for (size_t i = 0; i < rec->readers.nr; i++)
		result->wakeups += rec->readers.readers[i].wakeups;
	for (size_t i = 0; i < rec->output.files.nr; i++) {
		result->rounds += rec->output.files.files[i].stream.counters.rounds;
		result->ring_total_bytes += rec->output.files.files[i].stream.counters.bytes;
	}
	add_coverage(rec, result);
	result->nr_costs = rec->book.ledger.nr_costs;
	result->costs = take_ptr(rec->book.ledger.costs);
}

int recording_run(const struct recording_options *options, struct recording_result *ret, struct diag *reterr)
{
	struct recording rec = {
		.options = options,
		.signals = {.fd = -1},
		.control = {.fd = -1, .ack_fd = -1},
		.trigger = {.fd = -1},
		.cpus = {.fd = -1},
		.output = {.dest.fd = -1},
		.steering = {.notifier.fd = -1},
	};
	struct recording_result result = {0};
	int err = prepare(&rec, reterr);

	if (!err) {
		result.output = strdup(rec.output.dest.path);
		err = run_events(&rec, &result, reterr);
		err = finish(&rec, &result, err, reterr);
	}
	workload_end(&rec.workload, rec.signals.fd);
	collect_result(&rec, &result);
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
