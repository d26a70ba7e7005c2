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
#include "cmd/header_text.h"
#include "cmd/input.h"
#include "cmd/output.h"
#include "cmd/sample_text.h"

struct script_options {
	struct input_options input;
	bool header, header_only, full_header;
	int verbose;
};

static const struct option script_table[] = {
	INPUT_OPTIONS(struct script_options, input),
	{.name = "header",
	 .help = "Print first what the file says of itself and of the machine",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, header),
	 .group = "Output"},
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
	struct sample_text *text;
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

static int take(struct script *script, const struct session_record *record, struct diag *reterr)
{
	input_count_losses(&script->losses, record);
	if (record->view.header->type == PERF_RECORD_SAMPLE) {
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
	struct session_record record;
	int got = 1;

	if (!session_info(script->session)->pipe)
		print_header(script);
	while (!(script->header_done && script->options.header_only) && !output_is_over(&script->out)) {
		got = session_next(script->session, &record, reterr);
		if (got <= 0)
			break;
		if (!script->header_done && !is_front(record.view.header->type))
			print_header(script);
		int err = take(script, &record, reterr);
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
	if (!err) {
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

	if (script_open(&script)) {
		script_close(&script);
		return INPUT_EXIT_ERROR;
	}
	err = run_records(&script, &diag);
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
		"  millrace record -e 'sched:*' -a -o - -- sleep 1 | millrace script",
	.options = script_table,
	.run = script_run,
};
