/* SPDX-License-Identifier: MIT */
/* millrace flame: a recording, or what two of them differ in, as one page of HTML. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/flame_store.h"
#include "cmd/input/input.h"
#include "cmd/input/loss_data.h"
#include "cmd/input/records.h"
#include "cmd/report/report_page.h"
#include "cmd/report/report_read.h"
#include "cmd/report/report_samples.h"

struct flame_options {
	struct input_options input;
	const char *output, *title;
	enum page_base base;
	bool diff;
	struct flame_store_options from;
	int verbose;
};

static const struct option flame_table[] = {
	INPUT_OPTIONS(struct flame_options, input),
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Write the page to FILE; default flame.html; - is standard output",
	 .set = option_set_path,
	 .offset = offsetof(struct flame_options, output),
	 .group = "Output"},
	{.name = "diff",
	 .help = "Compare two recordings: what takes a larger share in the second one is red, what takes less blue",
	 .set = option_set_flag,
	 .offset = offsetof(struct flame_options, diff)},
	{.name = "base",
	 .arg = "WHAT",
	 .values = "auto none command process thread",
	 .help = "Begin the graph with each command, process or thread, or none of them; default auto: command when "
		 "there is more than one process",
	 .set = report_page_set_base,
	 .offset = offsetof(struct flame_options, base),
	 .flags = OPTION_NO_NEGATE},
	{.name = "title",
	 .arg = "TEXT",
	 .help = "Title of the page; default: the name of the input",
	 .set = option_set_string,
	 .offset = offsetof(struct flame_options, title)},
	STORE_INPUT_OPTIONS(struct flame_options, from.input),
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct flame_options, verbose)},
	{0},
};

/* One file, and what was read of it. */
struct recording {
	struct input_options input;
	struct session *session;
	struct machine *machine;
	struct samples samples;
	struct report_page_times times;
	struct input_losses losses;
	struct loss_data lost;
};

static int take(struct recording *recording, const struct session_record *record)
{
	struct samples *samples = &recording->samples;

	input_count_losses(&recording->losses, record);
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return machine_process(recording->machine, record);
	int err = samples_take(samples, record);
	if (err || samples->last.left_out)
		return err;
	return report_page_times_add(&recording->times, samples, record, &samples->last);
}

static int read_records(struct recording *recording, struct diag *reterr)
{
	static const struct samples_options options = {
		.hist = {.keys = {HIST_TID, HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 4},
		.chains = true,
	};
	const struct session_record *record;
	struct input_records records = {0};
	int got = 0;
	int err = machine_new(&recording->input.machine, recording->session, &recording->machine);

	if (!err)
		err = samples_init(&recording->samples, &options, recording->session, recording->machine);
	if (!err)
		err = input_records_open(&records, recording->session, 1);
	while (!err && (got = input_records_next(&records, &record, reterr)) > 0)
		err = take(recording, record);
	input_records_close(&records);
	if (err)
		return diag_set(reterr, err, "%s", strerror(-err));
	return got;
}

/* What was read before an error is shown all the same. */
static int recording_read(struct recording *recording)
{
	struct diag diag = {0};
	int err = input_open(&recording->input, 0, &recording->session);

	if (err)
		return err;
	err = read_records(recording, &diag);
	if (err)
		log_error("%s", diag.text);
	loss_data_read_again(recording->session, input_path(&recording->input), &recording->lost);
	return err;
}

static void recording_fini(struct recording *recording)
{
	loss_data_fini(&recording->lost);
	report_page_times_fini(&recording->times);
	samples_fini(&recording->samples);
	machine_free(recording->machine);
	session_close(recording->session);
}

static const char *page_path(const struct flame_options *options)
{
	return options->output ? options->output : "flame.html";
}

/* A page that compares nothing looks like one whose recordings have nothing in common. */
static void report_unpaired(const struct recording recordings[2])
{
	const char *const paths[] = {input_path(&recordings[0].input), input_path(&recordings[1].input)};
	const struct samples *const samples[] = {&recordings[0].samples, &recordings[1].samples};

	if (!reading_any_pair(samples[0], samples[1]))
		reading_report_no_pair(paths, samples, 2);
}

static int write_page(const struct flame_options *options, const struct recording recordings[], unsigned nr)
{
	struct report_page_input inputs[2];
	struct diag diag = {0};
	char *title = NULL;

	for (unsigned i = 0; i < nr; i++)
		inputs[i] = (struct report_page_input){
			.name = input_path(&recordings[i].input),
			.session = recordings[i].session,
			.samples = &recordings[i].samples,
			.times = &recordings[i].times,
			.lost = &recordings[i].lost,
			.lost_samples = recordings[i].losses.lost_samples,
		};
	if (nr > 1 && asprintf(&title, "%s → %s", inputs[0].name, inputs[1].name) < 0)
		title = NULL;
	const struct report_page_options page = {
		.title = options->title ? options->title
			 : title        ? title
					: inputs[0].name,
		.output = page_path(options),
		.base = options->base,
	};
	int err = report_page_write(inputs, nr, &page, &diag);
	if (err)
		log_error("%s", diag.text);
	else if (nr > 1)
		report_unpaired(recordings);
	free(title);
	return err;
}

static int run(const struct flame_options *options, char **files, unsigned nr)
{
	struct recording recordings[2] = {{.input = options->input}, {.input = options->input}};
	int err = 0;
	unsigned nr_read = 0;

	for (unsigned i = 0; i < nr; i++) {
		recordings[i].input.path = files ? files[i] : options->input.path;
		int failed = recording_read(&recordings[i]);
		err = err ? err : failed;
		nr_read += recordings[i].session != NULL;
	}
	if (nr_read == nr) {
		int failed = write_page(options, recordings, nr);
		err = err ? err : failed;
		for (unsigned i = 0; i < nr; i++) {
			input_report_losses(&recordings[i].losses);
			input_report_doubts(recordings[i].machine);
			input_report_late(recordings[i].session);
		}
	}
	for (unsigned i = 0; i < nr; i++)
		recording_fini(&recordings[i]);
	return err ? INPUT_EXIT_ERROR : 0;
}

static int run_store(struct flame_options *options)
{
	struct flame_store_options *from = &options->from;

	from->base = options->base;
	from->title = options->title;
	from->output = page_path(options);
	return flame_store_run(from) ? INPUT_EXIT_ERROR : 0;
}

static int flame_run(int argc, char **argv)
{
	/* A page need not agree with perf's text, where chains that were recorded as addresses are as they were. */
	struct flame_options options = {.input.machine.inlined = INLINE_ALL};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_flame, argc, argv, &options, &config);

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	int nr_files = argc - config.given.first;
	if (!options.diff && nr_files) {
		log_error("flame takes no argument, but got \"%s\"; a file is given with -i, two are compared with "
			  "--diff",
			  argv[config.given.first]);
		return COMMAND_USAGE;
	}
	if (options.diff && (nr_files != 2 || options.input.path)) {
		log_error("flame --diff compares two files: flame --diff OLD NEW");
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	struct diag diag = {0};
	if (store_input_complete(&options.from.input, &options.input, &diag) ||
	    (options.from.input.store.url && options.diff &&
	     diag_set(&diag, -EINVAL, "--diff compares recordings, not stores"))) {
		log_error("%s", diag.text);
		return COMMAND_USAGE;
	}
	input_enter_sandbox(&options.input, page_path(&options), options.from.input.store.url ? SANDBOX_NETWORK : 0);
	if (options.from.input.store.url)
		return run_store(&options);
	return options.diff ? run(&options, argv + config.given.first, 2) : run(&options, NULL, 1);
}

const struct command command_flame = {
	.name = "flame",
	.summary = "Draw a recording as a page: flame graph and timeline",
	.usage = "[OPTIONS]\n--diff [OPTIONS] OLD NEW\n--from=URL --service=NAME [OPTIONS]",
	.description = "Reads a recording and writes one HTML file that needs nothing else: a flame graph of the call "
		       "chains, to be searched and zoomed with mouse or keys, of all threads or of one, for each event "
		       "and for each part of the time; and above it when the samples were taken, with the gaps marked "
		       "where data was lost. With --diff one page shows what has become more and what less.\n"
		       "\n"
		       "Examples:\n"
		       "  millrace flame -o flame.html\n"
		       "  millrace flame --from=clickhouse://store.example --service=web --since=1h\n"
		       "  millrace flame --diff before.data after.data\n"
		       "  millrace record -g -o - -- make | millrace flame",
	.options = flame_table,
	.run = flame_run,
};
