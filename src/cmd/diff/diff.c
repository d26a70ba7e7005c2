/* SPDX-License-Identifier: MIT */
/* millrace diff: what two or more recordings differ in, as a table. */
#include "cmd/diff/diff.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/json_writer.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/event_pair.h"
#include "cmd/input/input.h"
#include "cmd/report/report_read.h"
#include "cmd/view/view.h"

struct diff_command {
	struct input_options input;
	struct sample_filter filter;
	struct diff_options diff;
	enum hist_column keys[HIST_KEYS];
	unsigned nr_keys;
	int verbose;
	bool json, stdio, tui;
};

/* Behind `before`. NULL: it is not there, or no number of 64 bits; else what follows it. */
static const char *read_weight(const char *at, char before, int64_t *ret)
{
	char *end;

	if (!at || *at != before)
		return NULL;
	errno = 0;
	*ret = strtoll(at + 1, &end, 10);
	return errno || end == at + 1 ? NULL : end;
}

static bool read_weights(const char *at, struct diff_options *ret)
{
	const char *end = read_weight(read_weight(at, ':', &ret->weight_baseline), ',', &ret->weight_data);

	return end && !*end;
}

static int set_compute(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	static const char *const words[] = {"delta", "delta-abs", "ratio", "wdiff"};
	struct diff_command *command = value;
	size_t len = strcspn(arg, ":");

	(void)option, (void)negated;
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i]) != len || strncmp(words[i], arg, len) != 0)
			continue;
		if (i != DIFF_WDIFF && arg[len])
			break;
		if (i == DIFF_WDIFF && !read_weights(arg + len, &command->diff))
			return diag_set(reterr, -EINVAL, "\"%s\" needs two weights of 64 bits: wdiff:BASELINE,DATA",
					arg);
		command->diff.compute = (enum diff_compute)i;
		return 0;
	}
	if (!strcmp(arg, "cycles"))
		return diag_set(reterr, -EINVAL, "cycles of blocks are not compared here: use perf diff");
	return diag_set(reterr, -EINVAL, "\"%s\" is none of delta, delta-abs, ratio, wdiff:BASELINE,DATA", arg);
}

static int set_keys(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	static const struct {
		const char *word;
		enum hist_column key;
	} words[] = {{"pid", HIST_TID}, {"comm", HIST_COMM},       {"dso", HIST_DSO},         {"symbol", HIST_SYM},
		     {"cpu", HIST_CPU}, {"srcline", HIST_SRCLINE}, {"srcfile", HIST_SRCFILE}, {"tid", HIST_TID}};
	struct diff_command *command = value;
	unsigned nr = 0;

	(void)option, (void)negated;
	for (const char *at = arg;; at++) {
		size_t len = strcspn(at, ","), i = 0;
		while (i < sizeof(words) / sizeof(words[0]) && (!len || strncmp(words[i].word, at, len) != 0))
			i++;
		if (i == sizeof(words) / sizeof(words[0]))
			return diag_set(reterr, -EINVAL,
					"\"%.*s\" is none of pid, tid, comm, dso, symbol, cpu, srcline, srcfile",
					(int)len, at);
		bool again = false;
		for (unsigned j = 0; j < nr; j++)
			again |= command->keys[j] == words[i].key;
		if (!again)
			command->keys[nr++] = words[i].key;
		at += len;
		if (!*at)
			break;
	}
	command->nr_keys = nr;
	return 0;
}

static const struct option diff_table[] = {
	INPUT_OPTIONS_BUT_FILE(struct diff_command, input),
	{.letter = 'c',
	 .name = "compute",
	 .arg = "METHOD",
	 .values = "delta delta-abs ratio",
	 .help = "Compare by delta (of shares), delta-abs (sorted by its size; the default), ratio (of periods), or "
		 "wdiff:BASELINE,DATA (difference of periods with weights)",
	 .set = set_compute,
	 .offset = 0,
	 .flags = OPTION_NO_NEGATE,
	 .group = "Comparison"},
	{.letter = 's',
	 .name = "sort",
	 .arg = "KEY,...",
	 .values = "pid tid comm dso symbol cpu srcline srcfile",
	 .help = "Count together what is equal in these: pid (or tid), comm, dso, symbol, cpu, srcline, srcfile; "
		 "default "
		 "dso,symbol",
	 .set = set_keys,
	 .offset = 0,
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'o',
	 .name = "order",
	 .arg = "N",
	 .help = "Sort by the difference of file N, 1 being the first one behind the baseline; 0: by the baseline",
	 .set = option_set_u64,
	 .offset = offsetof(struct diff_command, diff.order),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'b',
	 .name = "baseline-only",
	 .help = "Print only what the baseline and another file have",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, diff.baseline_only)},
	{.letter = 'p',
	 .name = "period",
	 .help = "Print the periods, too",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, diff.periods)},
	{.letter = 'F',
	 .name = "formula",
	 .help = "Print how each number was computed",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, diff.formula)},
	SAMPLE_FILTER_OPTIONS(struct diff_command, filter, "Filters", 'C', 0),
	SAMPLE_FILTER_DSOS('d', struct diff_command, filter),
	{.name = "percentage",
	 .arg = "HOW",
	 .values = "absolute relative",
	 .help = "Shares are of what is shown (relative) or of all samples (absolute, the default)",
	 .set = sample_filter_set_percentage,
	 .offset = offsetof(struct diff_command, diff.relative),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 't',
	 .name = "field-separator",
	 .arg = "CHARACTER",
	 .help = "Put this between columns; in texts it becomes a dot",
	 .set = option_set_separator,
	 .offset = offsetof(struct diff_command, diff.separator),
	 .flags = OPTION_NO_NEGATE,
	 .group = "Output"},
	{.name = "json",
	 .help = "Print the rows as JSON",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, json)},
	{.name = "tui",
	 .help = "Show the rows in a view on the terminal, with call trees: the default where standard input and "
		 "output "
		 "are terminals",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, tui),
	 .family = "interface"},
	{.name = "stdio",
	 .help = "Print text: the default elsewhere, and with options that only text has",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, stdio),
	 .family = "interface"},
	{.letter = 'q',
	 .name = "quiet",
	 .help = "Print the rows alone, and no notes",
	 .set = option_set_flag,
	 .offset = offsetof(struct diff_command, diff.quiet)},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct diff_command, verbose)},
	OPTION_ACCEPTED('m', "modules", NULL, "symbols of kernel modules are always used"),
	OPTION_REFUSED('D', "dump-raw-trace", NULL, "millrace report -D prints the records"),
	OPTION_REFUSED(0, "cycles-hist", NULL, "cycles of blocks are not compared here: use perf diff"),
	OPTION_REFUSED(0, "stream", NULL, "streams of branches are not compared here: use perf diff"),
	{0},
};

/* What a filter asks for must tell entries apart, so that none is shown in part. */
static void add_key(struct hist_options *hist, enum hist_column key, const char *list)
{
	if (list && !hist_has_key(hist, key))
		hist->keys[hist->nr_keys++] = key;
}

static int read_file(const struct diff_command *command, const char *path, bool view, struct reading *reading)
{
	struct samples_options samples = {
		.hist = {.nr_keys = command->nr_keys}, .filter = command->filter, .chains = view};
	struct input_options input = command->input;
	struct diag diag = {0};

	memcpy(samples.hist.keys, command->keys, sizeof(samples.hist.keys));
	add_key(&samples.hist, HIST_COMM, command->filter.comms);
	add_key(&samples.hist, HIST_DSO, command->filter.dsos);
	add_key(&samples.hist, HIST_SYM, command->filter.symbols);
	add_key(&samples.hist, HIST_TID, command->filter.pids ? command->filter.pids : command->filter.tids);
	input.path = path;
	int err = input_open(&input, 0, &reading->session);
	if (err)
		return err;
	err = reading_run(reading, &samples, &command->input.machine, &diag);
	if (!err && command->filter.cpus)
		err = sample_filter_check_cpus(reading->session, &diag);
	if (!err && !view) {
		err = samples_count(&reading->samples);
		diag_set(&diag, err, "out of memory");
	}
	if (err)
		log_error("%s: %s", path, diag.text);
	input_report_losses(&reading->losses);
	return err;
}

const struct event_samples *diff_find_event(const struct diff_files *files, unsigned file, size_t event)
{
	const struct samples *samples = &files->readings[file].samples;
	struct event_list from, to;

	from.events = session_events(files->readings[0].session, &from.nr);
	to.events = session_events(files->readings[file].session, &to.nr);
	int32_t found = event_pair_find(&from, event, &to);
	if (found < 0 || (size_t)found >= samples->nr || !samples->events[found].tally.nr)
		return NULL;
	return &samples->events[found];
}

/* The table of an event of the baseline, as in perf also when no other file has it. 0 or -ENOMEM. */
static int print_event(const struct diff_files *files, size_t event, const struct diff_options *options,
		       struct json_writer *json, bool *ret_pair)
{
	size_t nr_events;
	const struct event_desc *desc = &session_events(files->readings[0].session, &nr_events)[event];
	struct diff_rows rows;
	int err = diff_rows_init(&rows, files->nr);

	for (unsigned i = 0; i < files->nr && !err; i++) {
		const struct event_samples *found = diff_find_event(files, i, event);
		*ret_pair |= i && found;
		err = diff_rows_add(&rows, i, found ? found->hist : NULL, options);
	}
	if (!err) {
		diff_rows_sort(&rows, options);
		if (json)
			diff_json_put(json, &rows, desc, options);
		else
			diff_table_print(&rows, desc->name, files->paths, options, stdout);
	}
	diff_rows_fini(&rows);
	return err;
}

/* Why nothing is compared. */
static void report_no_event(const struct diff_files *files)
{
	const struct samples *samples[DIFF_FILES_MAX];

	for (unsigned i = 0; i < files->nr; i++)
		samples[i] = &files->readings[i].samples;
	reading_report_no_pair(files->paths, samples, files->nr);
}

static int print_events(const struct diff_files *files, const struct diff_options *options, struct json_writer *json)
{
	size_t nr;

	session_events(files->readings[0].session, &nr);
	bool any = false, pair = false;
	int err = 0;

	for (size_t i = 0; i < nr && i < files->readings[0].samples.nr && !err; i++) {
		if (!files->readings[0].samples.events[i].tally.nr)
			continue;
		if (any && !options->quiet && !json)
			putchar('\n');
		any = true;
		err = print_event(files, i, options, json, &pair);
	}
	if (!err && !pair)
		report_no_event(files);
	return err;
}

static int print_json(const struct diff_files *files, const struct diff_options *options)
{
	struct json_writer json = {.to = stdout};

	json_object(&json, NULL);
	json_array(&json, "files");
	for (unsigned i = 0; i < files->nr; i++)
		json_text(&json, NULL, files->paths[i]);
	json_end(&json);
	json_array(&json, "events");
	int err = print_events(files, options, &json);
	json_end(&json);
	json_end(&json);
	putchar('\n');
	return err;
}

/* 1: a view is shown; 0: text is printed; -ENOTSUP and why: --tui cannot be had. */
static int view_wanted(const struct diff_command *command, struct diag *reterr)
{
	const struct diff_options *diff = &command->diff;
	bool sources = false;
	const char *why;

	for (unsigned i = 0; i < command->nr_keys; i++)
		sources |= command->keys[i] == HIST_SRCLINE || command->keys[i] == HIST_SRCFILE;
	bool text = diff->compute > DIFF_DELTA_ABS || diff->baseline_only || diff->periods || diff->formula || sources;
	if (command->tui && text)
		return diag_set(reterr, -ENOTSUP,
				"--tui shows only differences of shares: leave out -c ratio, -c wdiff, -b, -p, -F and "
				"keys of source lines");
	if (!command->tui && (text || command->stdio || command->json || diff->quiet || diff->separator))
		return 0;
	if (view_possible(&why))
		return 1;
	return command->tui ? diag_set(reterr, -ENOTSUP, "--tui: %s", why) : 0;
}

static int show(const struct diff_files *files, const struct diff_options *options)
{
	struct diag diag = {0};
	int err = diff_view_run(files, options, &diag);

	if (err)
		log_error("%s", diag.text);
	return err;
}

static int print(const struct diff_command *command, const struct diff_files *files)
{
	int err = command->json ? print_json(files, &command->diff) : print_events(files, &command->diff, NULL);

	if (err)
		log_error("out of memory");
	int written = standard_output_flush();
	return err ? err : written;
}

static void hide_column(struct diff_command *command, enum hist_column key, const char *list)
{
	command->diff.hidden[key] = list && list[0] && !strchr(list, ',');
}

static int compare(const struct diff_command *command, struct diff_files *files, bool view)
{
	int err = 0;

	for (unsigned i = 0; i < files->nr && !err; i++)
		err = read_file(command, files->paths[i], view, &files->readings[i]);
	if (!err)
		err = view ? show(files, &command->diff) : print(command, files);
	for (unsigned i = 0; i < files->nr && !err; i++)
		input_report_doubts(files->readings[i].machine);
	for (unsigned i = 0; i < files->nr && !err; i++)
		input_report_late(files->readings[i].session);
	for (unsigned i = 0; i < files->nr; i++)
		reading_fini(&files->readings[i]);
	return err ? INPUT_EXIT_ERROR : 0;
}

/* As in perf: the files, or perf.data.old and perf.data, or perf.data.old beside one. */
static int name_files(struct diff_files *files, int argc, char **argv)
{
	if (argc > DIFF_FILES_MAX) {
		log_error("diff compares %d files at most", DIFF_FILES_MAX);
		return -EINVAL;
	}
	if (argc < 2) {
		files->paths[0] = argc ? "perf.data" : "perf.data.old";
		files->paths[1] = argc ? argv[0] : "perf.data";
		files->nr = 2;
		return 0;
	}
	for (int i = 0; i < argc; i++)
		files->paths[i] = argv[i];
	files->nr = (unsigned)argc;
	return 0;
}

static int diff_run(int argc, char **argv)
{
	struct diff_command command = {
		.diff = {.compute = DIFF_DELTA_ABS, .order = 1}, .keys = {HIST_DSO, HIST_SYM}, .nr_keys = 2};
	AUTO_FREE struct diff_files *files = calloc(1, sizeof(*files));
	struct diag diag = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_diff, argc, argv, &command, &config);

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	if (!files) {
		log_error("out of memory");
		return COMMAND_SHORTAGE;
	}
	if (name_files(files, argc - config.given.first, argv + config.given.first))
		return COMMAND_USAGE;
	if (command.diff.order >= files->nr) {
		log_error("--order %" PRIu64 ": there are %u files, 0 being the baseline", command.diff.order,
			  files->nr);
		return COMMAND_USAGE;
	}
	log_set_level(command.diff.quiet ? LOG_ERRORS : command.verbose);
	int err = sample_filter_complete(&command.filter, &diag);
	if (err)
		log_error("%s", diag.text);
	hide_column(&command, HIST_COMM, command.filter.comms);
	hide_column(&command, HIST_DSO, command.filter.dsos);
	command.diff.dso_list = command.filter.dsos && command.filter.dsos[0];
	hide_column(&command, HIST_SYM, command.filter.symbols);
	command.diff.keys = command.keys;
	command.diff.nr_keys = command.nr_keys;
	int view = err ? 0 : view_wanted(&command, &diag);
	if (view < 0)
		log_error("%s", diag.text);
	else if (!err)
		input_enter_sandbox(&command.input, view ? VIEW_OUTPUT : NULL, 0);
	int status = err || view < 0 ? COMMAND_USAGE : compare(&command, files, view);
	sample_filter_fini(&command.filter);
	return status;
}

const struct command command_diff = {
	.name = "diff",
	.summary = "Print what two or more recordings differ in",
	.usage = "[OPTIONS] [BASELINE [FILE...]]",
	.description =
		"Reads recordings and prints, for each event and function, its share in the first one and how much "
		"it differs in the others, the largest differences first, in the layout of `perf diff`. What is "
		"compared is known by names, so that programs may be different builds.\n"
		"\n"
		"Examples:\n"
		"  millrace diff before.data after.data\n"
		"  millrace diff -c ratio -s comm,dso before.data after.data\n"
		"  millrace flame --diff before.data after.data",
	.options = diff_table,
	.run = diff_run,
};
