/* SPDX-License-Identifier: MIT */
/* millrace script: every sample of a recording as text, in the order of time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/configuration.h"
#include "cmd/folded.h"
#include "cmd/header_text.h"
#include "cmd/input.h"
#include "cmd/output.h"
#include "cmd/report_samples.h"
#include "cmd/sample_filter.h"
#include "cmd/sample_text.h"

struct script_options {
	struct input_options input;
	struct sample_filter filter;
	bool header, header_only, full_header, folded;
	int verbose;
};

static const struct option script_table[] = {
	INPUT_OPTIONS(struct script_options, input),
	SAMPLE_FILTER_OPTIONS(struct script_options, filter, "Filters"),
	{.name = "dsos",
	 .arg = "NAME,...",
	 .help = "Show only samples in these programs and libraries",
	 .set = option_set_string,
	 .offset = offsetof(struct script_options, filter.dsos)},
	{.name = "folded",
	 .help = "Print how often each call chain of the first event occurs, a line each, as flamegraph.pl and speedscope read it",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, folded),
	 .group = "Output"},
	{.name = "header",
	 .help = "Print first what the file says of itself and of the machine",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, header)},
	{.name = "header-only",
	 .help = "Print that alone",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, header_only)},
	{.letter = 'I',
	 .name = "show-info",
	 .help = "Print the long parts of it too: topology and caches",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, full_header)},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct script_options, verbose)},
	{0},
};

/* Everything that one run holds. */
struct script {
	struct script_options options;
	struct session *session;
	struct machine *machine;
	struct sample_text *text; /* NULL: folded, from `samples` */
	struct samples samples;
	struct output out;
	struct input_losses losses;
	bool header_done;
	bool watched; /* by a person: nobody waits for a full buffer */
};

static bool is_front(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE;
}

/* A pipe's features come as its first records: the header is printed behind them. */
static void print_header(struct script *script)
{
	script->header_done = true;
	if (script->options.header || script->options.header_only)
		header_print(stdout, script->session, script->options.full_header);
	fflush(stdout); /* what follows does not go through stdio */
}

static bool asks_for_places(const struct sample_filter *filter)
{
	return filter->comms || filter->pids || filter->tids || filter->dsos || filter->symbols;
}

static int is_shown(struct script *script, const struct sample *sample)
{
	const struct sample_filter *filter = &script->options.filter;

	if (!sample_filter_has_cpu(filter, sample->cpu))
		return 0;
	if (!asks_for_places(filter))
		return 1;
	struct task *task = machine_task(script->machine, sample->pid, sample->tid);
	struct location at;
	if (!task)
		return -ENOMEM;
	machine_resolve(script->machine, task, sample->cpumode, sample->ip, &at);
	const struct sample_subject subject = {
		.comm = task_comm(task),
		.pid = task_pid(task),
		.tid = sample->tid,
		.dso = at.dso,
		.symbol = at.symbol,
	};
	return sample_filter_shows(filter, &subject);
}

/* Folded chains are counted, and printed at the end. */
static int take_folded(struct script *script, const struct session_record *record)
{
	if (record->view.header->type == PERF_RECORD_SAMPLE)
		return samples_take(&script->samples, record);
	samples_note(&script->samples, record);
	return machine_process(script->machine, record);
}

static int take(struct script *script, const struct session_record *record, struct diag *reterr)
{
	input_count_losses(&script->losses, record);
	if (!script->text)
		return take_folded(script, record) ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
	if (record->view.header->type == PERF_RECORD_SAMPLE) {
		int shown = is_shown(script, &record->sample);
		if (shown <= 0)
			return shown ? diag_set(reterr, shown, "out of memory") : 0;
		int err = sample_text_print(script->text, record, reterr);
		if (script->watched)
			output_flush(&script->out);
		return err;
	}
	return machine_process(script->machine, record) ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
}

/* All records, until one fails, nobody reads the output any more, or the end. */
static int run_records(struct script *script, struct diag *reterr)
{
	struct input_records records __attribute__((cleanup(input_records_close))) = {0};
	const struct session_record *record;
	int got = 1;

	if (!session_info(script->session)->pipe)
		print_header(script);
	if (script->header_done && script->options.header_only)
		return 0;
	int err = input_records_open(&records, script->session);
	if (err)
		return diag_set(reterr, err, "cannot start a thread: %s", strerror(-err));
	while (!(script->header_done && script->options.header_only) && !output_is_over(&script->out)) {
		got = input_records_next(&records, &record, reterr);
		if (got <= 0)
			break;
		if (!script->header_done && !is_front(record->view.header->type))
			print_header(script);
		err = take(script, record, reterr);
		if (err)
			return err;
	}
	if (!script->header_done)
		print_header(script);
	return got < 0 ? got : 0;
}

static int script_open(struct script *script)
{
	int err = input_open(&script->options.input, 0, &script->session);

	if (err)
		return err;
	err = machine_new(&script->options.input.machine, script->session, &script->machine);
	if (!err)
		err = output_open(&script->out, STDOUT_FILENO);
	if (!err && script->options.folded) {
		const struct samples_options options = {
			.hist = {.keys = {HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 3},
			.filter = script->options.filter,
			.chains = true,
		};
		err = samples_init(&script->samples, &options, script->session, script->machine);
	} else if (!err) {
		script->text = sample_text_new(script->session, script->machine, &script->out);
		err = script->text ? 0 : -ENOMEM;
	}
	if (err)
		log_error("%s", strerror(-err));
	return err;
}

static void script_close(struct script *script)
{
	sample_text_free(script->text);
	samples_fini(&script->samples);
	sample_filter_fini(&script->options.filter);
	machine_free(script->machine);
	session_close(script->session);
}

static int script_run(int argc, char **argv)
{
	struct script script = {0};
	struct diag diag = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	int err, status = 0;

	switch (configuration_parse(&command_script, argc, argv, &script.options, &config)) {
	case OPTION_EXIT:
		return 0;
	case OPTION_BAD:
		return COMMAND_USAGE;
	case OPTION_OK:
		break;
	}
	int first = config.given.first;
	if (first < argc) {
		log_error("script takes no argument, but got \"%s\"; a file is given with -i", argv[first]);
		return COMMAND_USAGE;
	}
	log_set_level(script.options.verbose);
	script.watched = isatty(STDOUT_FILENO);

	if (sample_filter_settle(&script.options.filter, &diag)) {
		log_error("%s", diag.text);
		sample_filter_fini(&script.options.filter);
		return COMMAND_USAGE;
	}
	if (script_open(&script)) {
		script_close(&script);
		return INPUT_EXIT_ERROR;
	}
	err = run_records(&script, &diag);
	if (script.options.folded)
		folded_print(&script.samples, 0, &script.out);
	int out_err = output_close(&script.out);
	if (err) {
		log_error("%s", diag.text);
		status = INPUT_EXIT_ERROR;
	}
	if (out_err && out_err != -EPIPE) {
		log_error("standard output: %s", strerror(-out_err));
		status = INPUT_EXIT_ERROR;
	}
	input_tell_losses(&script.losses);
	input_tell_late(script.session);
	script_close(&script);
	return status;
}

const struct command command_script = {
	.name = "script",
	.summary = "Print every sample of a recording as text",
	.usage = "[OPTIONS]",
	.description =
		"Reads a recording and prints its samples in the order of time, as `perf script` does: command, thread, CPU "
		"where it was sampled, time in seconds, period, event, and the address with its symbol, or the call chain "
		"on lines of their own, or the fields of a tracepoint.\n\n"
		"Examples:\n"
		"  millrace script | head -50\n"
		"  millrace script --folded | flamegraph.pl > flame.svg\n"
		"  millrace record -e 'sched:*' -a -o - -- sleep 1 | millrace script",
	.options = script_table,
	.run = script_run,
};
