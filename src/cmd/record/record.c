/* SPDX-License-Identifier: MIT */
/* millrace record: options into a recording, and its result into words and an exit status. */
#include "cmd/record/record.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "compress/zstd.h"
#include "record/output/output_path.h"
#include "record/run/recording.h"
#include "record/setup/target.h"
#include "record/setup/workload.h"
#include "sysinfo/thread.h"

enum {
	CACHE_MAX_BYTES = 1 << 30,
	/*
	 * Of as many one thread copies the rings away, however busy they are, with room to spare: docs/decisions/0005.
	 * With no more than that it drains them all.
	 */
	CPUS_EACH = 8,
};

/* --affinity=node with --threads: threads for each node, unless said otherwise. */
static const char *thread_spec_of(const struct record_options *options)
{
	if (options->threads.spec || !options->affinity)
		return options->threads.spec;
	return strcmp(options->affinity, "node") ? "cpu" : "numa";
}

/* The reader of a pipe waits for each round, which several threads finish later than one. */
static bool can_be_several(const struct record_options *options, enum drain_facts facts, const struct target *target)
{
	return !options->threads.one && !(facts & DRAIN_INTO_PIPE) && !target->per_thread;
}

void drain_choose(const struct record_options *options, enum drain_facts facts, struct recording_options *recording)
{
	bool pipe = facts & DRAIN_INTO_PIPE;
	unsigned nr_cpus = cpuset_count(&recording->target->cpus);
	/* A retained history is one, whichever thread drained it. */
	bool together = options->single_file || options->rotation.history_ns || pipe;
	/* freeze: with a reader on each CPU a ring is drained before its CPU goes on filling it. */
	bool requested = options->threads.given || options->on_pressure == ON_PRESSURE_FREEZE;
	bool several = !requested && can_be_several(options, facts, recording->target);
	bool many = several && !(facts & DRAIN_IN_FAIR_SHARE) && nr_cpus > CPUS_EACH;
	/* Each thread waits for its CPU as the load does, and gets a share of that CPU only. */
	bool on_each = several && facts & DRAIN_IN_FAIR_SHARE && nr_cpus > 1;

	recording->threads = requested || many || on_each;
	recording->directory = options->threads.given && !together;
	recording->thread_spec = thread_spec_of(options);
	recording->thread_spec_place = options->threads.place;
	recording->cpus_per_thread = many ? CPUS_EACH : 0;
	recording->writer = options->writer;
	if (options->writer.ops == &writer_null && !recording->directory)
		recording->output = "/dev/null";
}

/* millrace record: options into a recording, and its result into words and an exit status. */
enum {
	EXIT_LOSS = 3,    /* --fail-on-loss */
	EXIT_USAGE = 129, /* as perf */
	EXIT_ERROR = 255,
};

/*
 * The signal that ended the workload, or the recorder, ends this process too: a shell sees the same as without the
 * recorder.
 */
static int exit_status(const struct recording_result *result)
{
	int signal_number = result->signal;

	if (result->has_wait_status) {
		if (WIFEXITED(result->wait_status))
			return WEXITSTATUS(result->wait_status);
		signal_number = WTERMSIG(result->wait_status);
	}
	if (signal_number) {
		sigset_t set;
		sigemptyset(&set);
		sigaddset(&set, signal_number);
		prctl(PR_SET_DUMPABLE, 0); /* the core is the command's, not ours */
		signal(signal_number, SIG_DFL);
		raise(signal_number);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	}
	return 0;
}

/* Where the samples were not counted, any loss is too much; where losses were not, it could be any. */
static bool lost_too_much(const struct recording_result *result, const struct loss_limit *limit)
{
	uint64_t lost = result->lost_records + result->lost_task_events + result->cut_samples;

	if (limit->given && limit->percent < 100 && !result->losses_counted) {
		log_note("--fail-on-loss: this kernel does not count what it drops (Linux 6.0 and later do), "
			 "so that more may have been lost");
		return true;
	}
	if (!limit->given || (!lost && !result->unwritten_bytes))
		return false;
	if (!result->samples_counted || result->unwritten_bytes)
		return true;
	return 100.0 * (double)lost > limit->percent * (double)(lost + result->nr_samples);
}

/* 0 or -errno, which was logged. */
static int bundle(const char *output)
{
	struct bundle_result result;
	struct diag diag = {0};
	int err = bundle_make(output, &result, &diag);

	if (err)
		log_error("--bundle: %s", diag.text);
	else if (result.nr_missed)
		log_note(
			"--bundle: kept %zu object%s, but not %zu, such as %s: gone, or changed, since it was recorded",
			result.nr_kept, text_s(result.nr_kept), result.nr_missed, result.missed);
	return err;
}

static bool is_target(const struct target *target, long pid)
{
	for (size_t i = 0; i < target->nr_pids; i++)
		if (target->pids[i] == pid)
			return true;
	return false;
}

/* The number of processes that those of -p had made before, and that are not recorded; we are none of them. */
static size_t count_children(const struct target *target)
{
	size_t nr = 0;

	for (size_t i = 0; i < target->nr_tids; i++) {
		AUTO_BUF struct buf text = {0};
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)target->tids[i], (int)target->tids[i]);
		if (fd_slurp(path, 1 << 20, &text)) /* CONFIG_PROC_CHILDREN; or it has ended */
			continue;
		char *end = NULL;
		for (const char *at = buf_text(&text);; at = end) {
			long pid = strtol(at, &end, 10);
			if (end == at)
				break;
			nr += pid != getpid() && !is_target(target, pid);
		}
	}
	return nr;
}

static bool any_inherits(const struct event_list *events)
{
	for (size_t i = 0; i < events->nr; i++)
		if (events->events[i].attr.inherit && !events->events[i].side_band)
			return true;
	return false;
}

/* Does any event tell of tasks on a CPU? */
static bool any_on_cpu(const struct event_list *events)
{
	for (size_t i = 0; i < events->nr; i++) {
		const struct perf_event_attr *attr = &events->events[i].attr;
		bool dummy = attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
		if (!events->events[i].off_cpu && !dummy)
			return true;
	}
	return false;
}

/* Or only those of --off-cpu, which a process has as well that only waits for its children. */
static bool has_no_samples(const struct record_options *options, const struct recording_result *result)
{
	if (!result->samples_counted || !result->nr_samples)
		return result->samples_counted;
	/* Of all that were made the outputs may have some only: then it is not known which. */
	bool has_all = !options->rotation.on && !result->cut_samples && !result->lost_records;
	return has_all && result->nr_samples == result->nr_off_cpu && any_on_cpu(&options->events);
}

/* Servers work in processes that were there before. `where`: no samples of what. */
static void hint_children(const struct target *target, const struct event_list *events, const char *where)
{
	size_t nr = target->nr_pids ? count_children(target) : 0;
	AUTO_BUF struct buf name = {0};
	char path[64];

	if (!nr)
		return;
	if (target->nr_pids > 1) {
		log_note("no samples%s: -p takes these %zu processes%s, but not the other %zu that they have: "
			 "name them too (pgrep -P PID lists them), or use -a or -G",
			 where, target->nr_pids, any_inherits(events) ? " and those that they start from now on" : "",
			 nr);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)target->pids[0]);
	if (!fd_slurp(path, 64, &name) && name.len)
		name.data[--name.len] = '\0';
	log_note("no samples%s: -p takes process %d (%s)%s, but not the %zu children that it has: name them too (-p "
		 "%d,PID,…; pgrep -P %d lists them), or use -a or -G",
		 where, (int)target->pids[0], name.len ? (const char *)name.data : "?",
		 any_inherits(events) ? " and those that it starts from now on" : "", nr, (int)target->pids[0],
		 (int)target->pids[0]);
}

/* What the kernel keeps from those who may not watch everything. */
static void hint_rights(const struct recording_options *recording, const char *where)
{
	const bool only_workload = recording->target->kind == EVENT_TARGET_WORKLOAD;
	const char *why = only_workload ? workload_why_not_watched(recording->workload[0]) : NULL;

	if (why)
		log_note("no samples%s: %s %s, and Linux ends the events of a task that runs such a program: record "
			 "%sall CPUs (-a)",
			 where, recording->workload[0], why, geteuid() ? "as root, or " : "");
}

/* The vendor's name: CPUID with EAX 0, in EBX, EDX and ECX. */
static bool has_amd_cpus(void)
{
#ifdef __x86_64__
	unsigned last, name[3];

	return __get_cpuid(0, &last, &name[0], &name[2], &name[1]) && !memcmp(name, "AuthenticAMD", sizeof(name));
#else
	return false;
#endif
}

static int record(struct record_options *options, int argc, char **argv, int first)
{
	struct target target __attribute__((cleanup(target_fini))) = {0};
	bool freeze = options->on_pressure == ON_PRESSURE_FREEZE;
	struct recording_options recording = {
		.target = &target,
		.threads_only = options->target.tids != NULL,
		.events = &options->events,
		.sampling = options->sampling,
		.inherit = !options->no_inherit,
		.side_channel = !options->side_channel.off,
		.ring = {.pages = options->ring_pages,
			 .side_pages = options->side_channel.ring_pages,
			 .exact = options->ring_pages != 0},
		.max_memory = options->max_memory,
		.max_cpus = options->max_cpus,
		.writer = options->writer,
		.compression_level = options->compression_level,
		.on_pressure = options->on_pressure,
		.buffer_bytes = (size_t)options->buffer_bytes,
		.flush_bytes = (size_t)options->flush_bytes,
		.output = options->output,
		.times = options->times,
		.control = options->control,
		.rotation = options->rotation,
		.switch_events = &options->switch_events,
		.max_files = (size_t)options->max_files,
		.max_bytes = options->max_bytes,
		.timestamp_name = options->timestamp_name,
		.tail_synthesize = options->tail_synthesize,
		.realtime = options->realtime,
		.build_ids = !options->no_build_ids && !options->sampling.map_build_ids,
		.all_build_ids = options->all_build_ids,
		.cache = {.off = options->no_build_id_cache,
			  .directory = options->build_id_dir,
			  .bundle = options->bundle,
			  .max_bytes = CACHE_MAX_BYTES},
		.synth = options->synth,
		.sync_ms = options->sync_ms,
		.durable = options->durable,
		.wait_close = options->wait_close,
		.workload = first < argc ? argv + first : NULL,
		.argc = argc,
		.argv = argv,
	};
	struct recording_result result;
	struct diag diag = {0};

	recording.rotation.on |= options->switch_events.nr > 0;
	/* A retained history is compressed where zstd is there. */
	if (recording.rotation.history_ns && !recording.compression_level && zstd_available())
		recording.compression_level = 1;
	options->target.has_workload = recording.workload != NULL;
	if (freeze && !recording.workload && !options->target.pids && !options->target.tids) {
		log_error("--on-pressure=freeze needs a command, -p or -t: tasks that were not named are not stopped");
		return EXIT_USAGE;
	}
	int err = target_resolve(&options->target, &target, &diag);
	if (err) {
		log_error("%s", diag.text);
		return err == -EINVAL ? EXIT_USAGE : EXIT_ERROR;
	}
	if (options->sampling.off_cpu.on && cpuset_count(&target.other_cpus)) {
		log_error("--off-cpu needs the switches of all CPUs, as tasks move between them: leave out -C");
		return EXIT_USAGE;
	}
	drain_choose(options,
		     (output_path_is_pipe(options->output) ? DRAIN_INTO_PIPE : 0) |
			     (priority_is_realtime(options->realtime) ? 0 : DRAIN_IN_FAIR_SHARE),
		     &recording);
	if (!options->events.nr && event_list_add_default(&options->events, has_amd_cpus())) {
		log_error("out of memory");
		return EXIT_ERROR;
	}
	if (options->dry_run)
		return 0;
	err = recording_run(&recording, &result, &diag);
	if (err)
		log_error("%s", diag.text);
	if (result.output || !err)
		record_summary_print(&result);
	if (!err && has_no_samples(options, &result)) {
		const char *where = result.nr_samples ? " on a CPU" : "";
		hint_children(&target, &options->events, where);
		hint_rights(&recording, where);
	}
	if (!err && result.change == OUTPUT_REMOVED)
		err = -ENOENT;
	if (!err && options->bundle)
		err = bundle(result.output ? result.output : options->output);
	bool failed = result.has_wait_status && result.wait_status;
	int status = err                                                         ? EXIT_ERROR
		     : !failed && lost_too_much(&result, &options->fail_on_loss) ? EXIT_LOSS
										 : exit_status(&result);
	recording_result_fini(&result);
	return status;
}

static void options_fini(struct record_options *options)
{
	event_list_fini(&options->events);
	event_list_fini(&options->switch_events);
}

static int run(int argc, char **argv)
{
	struct record_options options = {.sampling = {.lean = PERF_SAMPLE_PERIOD}};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_record, argc, argv, &options, &config)) {
	case OPTION_EXIT: options_fini(&options); return 0;
	case OPTION_BAD: options_fini(&options); return EXIT_USAGE;
	case OPTION_OK: break;
	}
	struct diag diag = {0};
	if (record_options_check(&options, &diag)) {
		log_error("%s", diag.text);
		options_fini(&options);
		return EXIT_USAGE;
	}
	options.sampling.switches |= options.latency;
	log_set_level(options.quiet ? LOG_ERRORS : options.verbose);
	AUTO_FREE char *place = configuration_place(&config, &command_record, "threads");
	options.threads.place = place;
	int status = record(&options, argc, argv, config.given.first);
	options_fini(&options);
	return status;
}

const struct command command_record = {
	.name = "record",
	.summary = "Record events of a command, of running tasks or of the whole machine into perf.data",
	.usage = "[OPTIONS] [--] COMMAND [ARGS]\n[OPTIONS] -a | -C LIST | -p PID | -t TID [[--] COMMAND [ARGS]]",
	.description =
		"Runs COMMAND and records what it does until it ends; with -a, -C, -p or -t records those, until "
		"COMMAND ends or Ctrl-C. The file is read by millrace report, millrace script and every reader "
		"of perf.data. The exit status is that of COMMAND.\n\n"
		"Examples:\n"
		"  millrace record -g -- make -j8\n"
		"  millrace record -a -e 'sched:*' -- sleep 1\n"
		"  millrace record -F 999 --call-graph dwarf -p 1234 -o app.data\n",
	.options = record_option_table,
	.runs_command = true,
	.run = run,
};
