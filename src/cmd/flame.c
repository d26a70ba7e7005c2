/* SPDX-License-Identifier: MIT */
/* millrace flame: a recording as one page of HTML: flame graph, and when each CPU was sampled. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/configuration.h"
#include "cmd/flame_page.h"
#include "cmd/flame_tree.h"
#include "cmd/input.h"
#include "cmd/loss_data.h"
#include "cmd/report_samples.h"
#include "cmd/timeline.h"
#include "format/feature_ledger.h"

/* What keeps a page below a megabyte: a node takes some 10 bytes, a name some 30. */
static const struct flame_limits limits = {.nodes = 15000, .threads = 200};

enum { MAX_CELLS = 1 << 16 /* of the timeline's table */ };

struct flame_options {
	struct input_options input;
	const char *output, *title;
	int verbose;
};

static const struct option flame_table[] = {
	INPUT_OPTIONS(struct flame_options, input),
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Write the page to FILE; default flame.html; - is standard output",
	 .set = option_set_string,
	 .offset = offsetof(struct flame_options, output),
	 .group = "Output"},
	{.name = "title",
	 .arg = "TEXT",
	 .help = "What stands on top of the page; default the name of the input",
	 .set = option_set_string,
	 .offset = offsetof(struct flame_options, title)},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct flame_options, verbose)},
	{0},
};

struct flame {
	struct flame_options options;
	struct session *session;
	struct machine *machine;
	struct samples samples;
	struct timeline timeline;
	struct input_losses losses;
	struct loss_data lost;
};

static int take(struct flame *flame, const struct session_record *record)
{
	const struct sample *sample = &record->sample;

	input_count_losses(&flame->losses, record);
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return machine_process(flame->machine, record);
	int err = samples_take(&flame->samples, record);
	if (!err && sample->present & PERF_SAMPLE_TIME)
		err = timeline_add(&flame->timeline, sample->present & PERF_SAMPLE_CPU ? (int32_t)sample->cpu : -1,
				   sample->time);
	return err;
}

static int read_records(struct flame *flame, struct diag *reterr)
{
	static const struct samples_options options = {
		.hist = {.keys = {HIST_TID, HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 4},
		.chains = true,
	};
	const struct session_record *record;
	struct input_records records = {0};
	int got = 0;
	int err = machine_new(&flame->options.input.machine, flame->session, &flame->machine);

	if (!err)
		err = samples_init(&flame->samples, &options, flame->session, flame->machine);
	if (!err)
		err = input_records_open(&records, flame->session, 1);
	while (!err && (got = input_records_next(&records, &record, reterr)) > 0)
		err = take(flame, record);
	input_records_close(&records);
	if (err)
		return diag_set(reterr, err, "%s", strerror(-err));
	return got;
}

/* Where data was lost is told by the records in the order of the file, and by the ledger: a second reading. */
static void read_losses(struct flame *flame)
{
	struct session *session;
	struct diag diag = {0};

	if (session_info(flame->session)->pipe || session_open(input_path(&flame->options.input),
							       SESSION_FORCE | SESSION_FILE_ORDER, &session, &diag))
		return;
	loss_data_read(session, &flame->lost, &diag); /* what it could read is what there is */
	session_close(session);
}

static int write_page(struct flame *flame, FILE *to)
{
	struct flame_page page = {
		.title = flame->options.title ? flame->options.title : input_path(&flame->options.input),
		.timeline = &flame->timeline,
		.nr_bins = timeline_settle(&flame->timeline, MAX_CELLS),
		.gaps = flame->lost.gaps,
		.nr_gaps = flame->lost.nr_gaps,
		.lost = flame->losses.lost_samples,
	};
	struct flame_tree tree;

	page.events = session_events(flame->session, &page.nr_events);
	int err = flame_tree_make(&flame->samples, &limits, &tree);
	page.tree = &tree;
	if (!err)
		flame_page_print(&page, to);
	flame_tree_fini(&tree);
	return err;
}

static int write_text(const struct flame_options *options, const char *text, size_t len)
{
	const char *path = options->output ? options->output : "flame.html";
	bool standard = strcmp(path, "-") == 0;
	int fd = standard ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int err = fd < 0 ? -errno : fd_write(fd, text, len);

	if (fd >= 0 && !standard && close(fd) && !err)
		err = -errno;
	if (err)
		log_error("%s: %s", path, strerror(-err));
	return err;
}

static int write_output(struct flame *flame)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	int err = to ? write_page(flame, to) : -ENOMEM;

	if (to && fclose(to) && !err)
		err = -ENOMEM;
	if (err)
		log_error("%s", strerror(-err));
	else
		err = write_text(&flame->options, text, len);
	free(text);
	return err;
}

static void flame_fini(struct flame *flame)
{
	loss_data_fini(&flame->lost);
	timeline_fini(&flame->timeline);
	samples_fini(&flame->samples);
	machine_free(flame->machine);
	session_close(flame->session);
}

static int flame_run(int argc, char **argv)
{
	struct flame flame = {0};
	struct diag diag = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_flame, argc, argv, &flame.options, &config);

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	if (config.given.first < argc) {
		log_error("flame takes no argument, but got \"%s\"; a file is given with -i", argv[config.given.first]);
		return COMMAND_USAGE;
	}
	log_set_level(flame.options.verbose);
	if (input_open(&flame.options.input, 0, &flame.session))
		return INPUT_EXIT_ERROR;
	int err = read_records(&flame, &diag);
	if (err)
		log_error("%s", diag.text);
	read_losses(&flame);
	if (write_output(&flame))
		err = -EIO;
	input_tell_losses(&flame.losses);
	flame_fini(&flame);
	return err ? INPUT_EXIT_ERROR : 0;
}

const struct command command_flame = {
	.name = "flame",
	.summary = "Draw a recording as a page: flame graph and timeline",
	.usage = "[OPTIONS]",
	.description =
		"Reads a recording and writes one HTML file that needs nothing else: a flame graph of the call chains, to be "
		"searched and zoomed, of all threads or of one, for each event; and above it how many samples each CPU had "
		"when, with the gaps marked where data was lost.\n\n"
		"Examples:\n"
		"  millrace flame -o flame.html\n"
		"  millrace record -g -o - -- make | millrace flame",
	.options = flame_table,
	.run = flame_run,
};
