/* SPDX-License-Identifier: MIT */
/* millrace record: options into a recording, and its result into words and an exit status. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/bundle.h"
#include "cmd/command.h"
#include "cmd/configuration.h"
#include "cmd/drain_choice.h"
#include "cmd/record_options.h"
#include "cmd/record_sampling.h"
#include "cmd/record_summary.h"
#include "pack/zstd.h"
#include "record/recording.h"
#include "record/sink.h"

enum {
	EXIT_LOSS = 3,    /* --fail-on-loss */
	EXIT_USAGE = 129, /* as perf */
	EXIT_ERROR = 255,
};

/* What ended the workload, or us, is passed on: a shell sees the same as without the recorder. */
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

/* Where the samples were not counted, any loss is too much. */
static bool lost_too_much(const struct recording_result *result, const struct loss_limit *limit)
{
	uint64_t lost = result->lost_records + result->cut_samples;

	if (!limit->given || (!lost && !result->unwritten_bytes))
		return false;
	if (!result->samples_counted || result->unwritten_bytes)
		return true;
	return 100.0 * (double)lost > limit->percent * (double)(lost + result->nr_samples);
}

/* 0 or -errno, which was told. */
static int bundle(const char *output)
{
	struct bundle_result result;
	struct diag diag = {0};
	int err = bundle_make(output, &result, &diag);

	if (err)
		log_error("--bundle: %s", diag.text);
	else if (result.nr_missed)
		log_note("--bundle: kept %zu objects, but %zu, such as %s, are not there any more or have changed", result.nr_kept,
			 result.nr_missed, result.missed);
	return err;
}

/* For tests, which want rings to change threads as often as they may, and not when that is of use. */
static uint64_t restless_ns(void)
{
	const char *ms = getenv("MILLRACE_RESTLESS_MS");

	return ms ? strtoull(ms, NULL, 10) * 1000000 : 0;
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
		.side_channel = !options->no_side_channel,
		.ring = {.pages = options->ring_pages, .exact = options->ring_pages != 0,
			 .grows = !options->ring_pages || options->max_memory},
		.max_memory = options->max_memory,
		.max_cpus = options->max_cpus,
		.writer = options->writer,
		.compression_level = options->compression_level,
		.on_pressure = options->on_pressure,
		.buffer_bytes = (size_t)options->buffer_bytes,
		.flush_bytes = (size_t)options->flush_bytes,
		.output = options->output,
		.restless_ns = restless_ns(),
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
		.synth = options->synth,
		.sync_ms = options->sync_ms,
		.workload = first < argc ? argv + first : NULL,
		.argc = argc,
		.argv = argv,
	};
	struct recording_result result;
	struct diag diag = {0};

	recording.rotation.on |= options->switch_events.nr > 0;
	/* What is held in memory is compressed, if it can be. */
	if (recording.rotation.flight_ns && !recording.compression_level && zstd_available())
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
	drain_choose(options, sink_is_pipe(options->output), &recording);
	if (!options->events.nr && event_list_add_default(&options->events)) {
		log_error("out of memory");
		return EXIT_ERROR;
	}
	if (options->dry_run)
		return 0;
	err = recording_run(&recording, &result, &diag);
	if (err)
		log_error("%s", diag.text);
	if (result.output)
		record_summary_print(&result);
	if (!err && options->bundle)
		err = bundle(result.output);
	bool failed = result.has_wait_status && result.wait_status;
	int status = err ? EXIT_ERROR
		   : lost_too_much(&result, &options->fail_on_loss) && !failed ? EXIT_LOSS : exit_status(&result);
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
	struct record_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_record, argc, argv, &options, &config)) {
	case OPTION_EXIT:
		options_fini(&options);
		return 0;
	case OPTION_BAD:
		options_fini(&options);
		return EXIT_USAGE;
	case OPTION_OK:
		break;
	}
	struct diag diag = {0};
	if (record_options_check(&options, &diag)) {
		log_error("%s", diag.text);
		options_fini(&options);
		return EXIT_USAGE;
	}
	log_set_level(options.quiet ? LOG_ERRORS : options.verbose);
	int status = record(&options, argc, argv, config.given.first);
	options_fini(&options);
	return status;
}

const struct command command_record = {
	.name = "record",
	.summary = "Record events of a command, of running tasks or of the whole machine into perf.data",
	.usage = "[OPTIONS] [--] COMMAND [ARGS]\n[OPTIONS] -a | -C LIST | -p PID | -t TID [[--] COMMAND [ARGS]]",
	.description = "Runs COMMAND and records what it does until it ends; with -a, -C, -p or -t records those, until "
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
