/* SPDX-License-Identifier: MIT */
#include "cmd/flame/flame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/fd.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/input/input.h"
#include "cmd/input/loss_data.h"
#include "cmd/report/report_samples.h"
#include "perfdata/ledger.h"
#include "record/output/file_place.h"

enum { FIRST_BIN_NS = 10000, MAX_CPUS = 65536 };

/* zeroed is fine */
static void timeline_fini(struct timeline *timeline)
{
	free(timeline->cpus);
	*timeline = (struct timeline){0};
}

static struct timeline_cpu *find_cpu(struct timeline *timeline, int32_t cpu)
{
	if (timeline->last < timeline->nr_cpus && timeline->cpus[timeline->last].cpu == cpu)
		return &timeline->cpus[timeline->last];
	for (uint32_t i = 0; i < timeline->nr_cpus; i++) {
		if (timeline->cpus[i].cpu == cpu) {
			timeline->last = i;
			return &timeline->cpus[i];
		}
	}
	struct timeline_cpu *cpus = timeline->nr_cpus < MAX_CPUS
					    ? reallocarray(timeline->cpus, timeline->nr_cpus + 1, sizeof(*cpus))
					    : NULL;
	if (!cpus)
		return NULL;
	timeline->cpus = cpus;
	memset(&cpus[timeline->nr_cpus], 0, sizeof(*cpus));
	cpus[timeline->nr_cpus].cpu = cpu;
	timeline->last = timeline->nr_cpus++;
	return &cpus[timeline->last];
}

static void halve(struct timeline *timeline)
{
	for (uint32_t i = 0; i < timeline->nr_cpus; i++) {
		uint32_t *bins = timeline->cpus[i].bins;
		for (unsigned bin = 0; bin < TIMELINE_BINS / 2; bin++)
			bins[bin] = bins[2 * bin] + bins[2 * bin + 1];
		memset(bins + TIMELINE_BINS / 2, 0, TIMELINE_BINS / 2 * sizeof(*bins));
	}
	timeline->bin_ns *= 2;
}

/* Times need not be in order; one before the first counts as the first. 0 or -ENOMEM. */
static int timeline_add(struct timeline *timeline, int32_t cpu, uint64_t time_ns)
{
	if (!timeline->bin_ns) {
		timeline->start_ns = timeline->end_ns = time_ns;
		timeline->bin_ns = FIRST_BIN_NS;
	}
	struct timeline_cpu *row = find_cpu(timeline, cpu);
	if (!row)
		return -ENOMEM;
	uint64_t since = time_ns < timeline->start_ns ? 0 : time_ns - timeline->start_ns;
	if (timeline->end_ns < time_ns)
		timeline->end_ns = time_ns;
	while (since / timeline->bin_ns >= TIMELINE_BINS)
		halve(timeline);
	row->bins[since / timeline->bin_ns]++;
	return 0;
}

static int compare_cpu(const void *left, const void *right)
{
	const struct timeline_cpu *a = left, *b = right;

	return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

/* Merges bins until a table of all CPUs has `max` at most, and orders the CPUs. Returns the bins in use of each. */
static unsigned timeline_shrink(struct timeline *timeline, unsigned max)
{
	unsigned bins = TIMELINE_BINS;

	if (!timeline->bin_ns)
		return 0;
	qsort(timeline->cpus, timeline->nr_cpus, sizeof(*timeline->cpus), compare_cpu);
	for (; bins > 16 && (uint64_t)bins * timeline->nr_cpus > max; bins /= 2)
		halve(timeline);
	unsigned used = (unsigned)((timeline->end_ns - timeline->start_ns) / timeline->bin_ns) + 1;
	return used < bins ? used : bins;
}

/* millrace flame: a recording as one page of HTML: flame graph, and when each CPU was sampled. */
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
	 .set = option_set_path,
	 .offset = offsetof(struct flame_options, output),
	 .group = "Output"},
	{.name = "title",
	 .arg = "TEXT",
	 .help = "Title of the page; default: the name of the input",
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

/* Losses come from the records in file order and from the ledger: the file is read again. */
static void read_losses(struct flame *flame)
{
	struct session *session;
	struct diag diag = {0};

	if (session_info(flame->session)->pipe ||
	    session_open(input_path(&flame->options.input), SESSION_FORCE | SESSION_FILE_ORDER, &session, &diag))
		return;
	loss_data_read(session, &flame->lost, &diag); /* what it could read is what there is */
	session_close(session);
}

static int write_page(struct flame *flame, FILE *to)
{
	struct flame_page page = {
		.title = flame->options.title ? flame->options.title : input_path(&flame->options.input),
		.timeline = &flame->timeline,
		.nr_bins = timeline_shrink(&flame->timeline, MAX_CELLS),
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

/* The page is complete before it replaces what has its name. -errno and why. */
static int write_file(const char *path, const char *text, size_t len, struct diag *reterr)
{
	AUTO_FILE_PLACE struct file_place place = {.dir_fd = -1};
	char temporary[FILE_PLACE_TEMPORARY_ROOM];
	int err = file_place_find(path, &place, reterr);

	if (err)
		return err;
	bool special = place.exists && !S_ISREG(place.st.st_mode) && !S_ISLNK(place.st.st_mode);
	int fd = special ? file_place_open(&place, O_WRONLY) : file_place_create_temporary(&place, temporary);
	if (fd < 0)
		return diag_set(reterr, fd, "%s: %s", path, strerror(-fd));
	err = fd_write(fd, text, len);
	if (close(fd) && !err)
		err = -errno;
	if (!err && !special)
		err = file_place_rename(&place, temporary);
	if (err && !special)
		file_place_discard(&place, temporary);
	return err ? diag_set(reterr, err, "%s: %s", path, strerror(-err)) : 0;
}

static const char *page_path(const struct flame_options *options)
{
	return options->output ? options->output : "flame.html";
}

static int write_text(const struct flame_options *options, const char *text, size_t len)
{
	const char *path = page_path(options);
	struct diag diag = {0};
	int err;

	if (strcmp(path, "-")) {
		err = write_file(path, text, len, &diag);
	} else {
		err = fd_write(STDOUT_FILENO, text, len);
		if (err)
			diag_set(&diag, err, "standard output: %s", strerror(-err));
	}
	if (err)
		log_error("%s", diag.text);
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
	input_enter_sandbox(&flame.options.input, page_path(&flame.options));
	if (input_open(&flame.options.input, 0, &flame.session))
		return INPUT_EXIT_ERROR;
	int err = read_records(&flame, &diag);
	if (err)
		log_error("%s", diag.text);
	read_losses(&flame);
	if (write_output(&flame))
		err = -EIO;
	input_report_losses(&flame.losses);
	input_report_doubts(flame.machine);
	flame_fini(&flame);
	return err ? INPUT_EXIT_ERROR : 0;
}

const struct command command_flame = {
	.name = "flame",
	.summary = "Draw a recording as a page: flame graph and timeline",
	.usage = "[OPTIONS]",
	.description = "Reads a recording and writes one HTML file that needs nothing else: a flame graph of the call "
		       "chains, to be searched and zoomed, of all threads or of one, for each event; and above it how "
		       "many samples each CPU had when, with the gaps marked where data was lost.\n"
		       "\n"
		       "Examples:\n"
		       "  millrace flame -o flame.html\n"
		       "  millrace record -g -o - -- make | millrace flame",
	.options = flame_table,
	.run = flame_run,
};
