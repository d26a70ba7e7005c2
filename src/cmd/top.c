/* SPDX-License-Identifier: MIT */
/* millrace top: the view over a recording that runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/terminal.h"
#include "cmd/top_live.h"

enum {
	MOST_WORDS = 100,
	HISTORY_BYTES = 64 << 20,
	LEAST_HISTORY_BYTES = 4 << 20,
	DELAY_SECONDS = 2,
	MOST_DELAY = 3600
};

/* The words of the recorder's command line. */
struct word_list {
	char *words[MOST_WORDS + 1]; /* heap */
	int nr;
	bool has_target;
};

struct top_options {
	struct word_list record;
	struct live_options live;
	double delay_seconds;
	int verbose;
};

static int add_word(struct word_list *list, char *word)
{
	if (!word || list->nr == MOST_WORDS) {
		free(word);
		return -ENOMEM;
	}
	list->words[list->nr++] = word;
	return 0;
}

/* The option is the recorder's, with the same name: it says what is wrong with it. */
static int pass_on(const struct option *option, const char *arg, bool negated, void *word_list, struct diag *reterr)
{
	struct word_list *list = word_list;
	char *word = NULL;
	int len;

	if (option->letter == 'g')
		len = asprintf(&word, "-g");
	else if (negated)
		len = asprintf(&word, "--no-%s", option->name);
	else
		len = asprintf(&word, arg ? "--%s=%s" : "--%s%s", option->name, arg ? arg : "");
	if (strchr("aCptuG", option->letter) && option->letter)
		list->has_target = true;
	return add_word(list, len < 0 ? NULL : word) ? diag_set(reterr, -EINVAL, "too many options") : 0;
}

static int set_delay(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	char *end;
	double seconds = strtod(arg, &end);

	(void)option, (void)negated;
	if (end == arg || *end || !(seconds >= 0.1 && seconds <= MOST_DELAY))
		return diag_set(reterr, -EINVAL, "\"%s\" is no time from 0.1 to %d seconds", arg, MOST_DELAY);
	*(double *)value = seconds;
	return 0;
}

static int set_history_bytes(const struct option *option, const char *arg, bool negated, void *value,
			     struct diag *reterr)
{
	uint64_t bytes;

	(void)option, (void)negated;
	if (option_parse_size(arg, &bytes) || bytes < LEAST_HISTORY_BYTES || bytes > UINT64_C(1) << 40)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size of at least 4M", arg);
	*(uint64_t *)value = bytes;
	return 0;
}

static int set_limit(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	char *end;
	double percent = strtod(arg, &end);

	(void)option, (void)negated;
	if (end == arg || (*end && strcmp(end, "%") != 0) || !(percent >= 0 && percent <= 100))
		return diag_set(reterr, -EINVAL, "\"%s\" is no percentage from 0 to 100", arg);
	*(double *)value = percent;
	return 0;
}

/* The last field: its flags or its family, as in millrace record. */
#define RECORDED(letter_of, name_of, arg_of, help_of, ...)                                                             \
	{                                                                                                              \
		.letter = letter_of, .name = name_of, .arg = arg_of, .help = help_of, .set = pass_on,                  \
		.offset = offsetof(struct top_options, record), __VA_ARGS__                                            \
	}

static const struct option top_table[] = {
	{.letter = 'a',
	 .name = "all-cpus",
	 .help = "Record all CPUs: the default without another target",
	 .set = pass_on,
	 .offset = offsetof(struct top_options, record),
	 .flags = OPTION_NO_DEFAULT,
	 .group = "What is recorded (as in millrace record)"},
	RECORDED('C', "cpu", "LIST", "Record these CPUs", .flags = OPTION_NO_DEFAULT),
	RECORDED('p', "pid", "PID,…", "Record these processes", .flags = OPTION_NO_DEFAULT),
	RECORDED('t', "tid", "TID,…", "Record these threads", .flags = OPTION_NO_DEFAULT),
	RECORDED('u', "uid", "USER", "Record the processes of this user", .flags = OPTION_NO_DEFAULT),
	RECORDED('G', "cgroup", "NAME,…", "Record these cgroups, one for each event before",
		 .flags = OPTION_NO_DEFAULT),
	RECORDED('e', "event", "EVENT", "Record this event"),
	RECORDED(0, "filter", "FILTER", "Filter the tracepoints before it", .flags = OPTION_NO_DEFAULT),
	RECORDED('F', "freq", "HZ", "So many samples a second", .family = "rate"),
	RECORDED('c', "count", "N", "A sample for each N events", .family = "rate"),
	RECORDED('g', NULL, NULL, "Call chains by frame pointers"),
	RECORDED(0, "call-graph", "MODE", "Call chains: fp, unwind[,SIZE], dwarf[,SIZE]", .values = "fp unwind dwarf"),
	RECORDED(0, "all-kernel", NULL, "Events in the kernel only"),
	RECORDED(0, "all-user", NULL, "Events in user space only"),
	RECORDED('m', "mmap-pages", "SIZE", "Size of the rings, in pages, or with B, K, M, G"),
	RECORDED('i', "no-inherit", NULL, "Do not follow into children"),
	{.letter = 's',
	 .name = "sort",
	 .arg = "KEY,...",
	 .print_values = column_print_words,
	 .help = "Count together what is equal in these, as in millrace report; default comm,dso,symbol",
	 .set = column_choice_set_sort,
	 .offset = offsetof(struct top_options, live.columns),
	 .flags = OPTION_NO_NEGATE,
	 .group = "Table"},
	{.letter = 'n',
	 .name = "show-nr-samples",
	 .help = "Add a column with the number of samples",
	 .set = option_set_flag,
	 .offset = offsetof(struct top_options, live.columns.sample_counts)},
	{.name = "children",
	 .help = "With call chains, count a sample for its callers too (this is the default)",
	 .set = option_set_flag,
	 .offset = offsetof(struct top_options, live.samples.hist.children)},
	{.letter = 'd',
	 .name = "delay",
	 .arg = "SECONDS",
	 .help = "Seconds between refreshes; default 2",
	 .set = set_delay,
	 .offset = offsetof(struct top_options, delay_seconds),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'z',
	 .name = "zero",
	 .help = "Forget everything at each refresh; else an eighth of what was there decays",
	 .set = option_set_flag,
	 .offset = offsetof(struct top_options, live.zero),
	 .family = "history"},
	{.name = "total",
	 .help = "Keep everything since the beginning: nothing decays",
	 .set = option_set_flag,
	 .offset = offsetof(struct top_options, live.total),
	 .family = "history"},
	{.name = "percent-limit",
	 .arg = "PERCENT",
	 .help = "Leave out rows below PERCENT",
	 .set = set_limit,
	 .offset = offsetof(struct top_options, live.percent_limit),
	 .flags = OPTION_NO_NEGATE},
	{.name = "comms",
	 .arg = "NAME,...",
	 .help = "Show only samples of commands with these names",
	 .set = option_set_string,
	 .offset = offsetof(struct top_options, live.samples.filter.comms)},
	{.name = "dsos",
	 .arg = "NAME,...",
	 .help = "Show only samples in these programs and libraries",
	 .set = option_set_string,
	 .offset = offsetof(struct top_options, live.samples.filter.dsos)},
	{.name = "symbols",
	 .arg = "NAME,...",
	 .help = "Show only samples in these functions",
	 .set = option_set_string,
	 .offset = offsetof(struct top_options, live.samples.filter.symbols)},
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "The key s saves to FILE; default perf.data",
	 .set = option_set_path,
	 .offset = offsetof(struct top_options, live.output),
	 .group = "Output"},
	{.name = "hold",
	 .arg = "SIZE",
	 .help = "Keep so many bytes of the newest samples for s; default 64M",
	 .set = set_history_bytes,
	 .offset = offsetof(struct top_options, live.history_bytes),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct top_options, verbose)},
	{0},
};

static void word_list_fini(struct word_list *list)
{
	for (int i = 0; i < list->nr; i++)
		free(list->words[i]);
}

/* What the recorder is told besides: into the pipe, and no copies of objects, which are here. */
static int complete(struct top_options *options, struct diag *reterr)
{
	static const char *const always[] = {"--output=-", "--no-buildid-cache"};
	struct live_options *live = &options->live;
	struct word_list *list = &options->record;
	int err = 0;

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]) && !err; i++)
		err = add_word(list, strdup(always[i]));
	if (!err && !list->has_target)
		err = add_word(list, strdup("--all-cpus"));
	if (err)
		return err;
	memmove(list->words + 1, list->words, (size_t)list->nr++ * sizeof(char *));
	list->words[0] = strdup("record");
	if (!list->words[0])
		return -ENOMEM;
	live->record = list->words;
	live->delay_ms = (uint64_t)(options->delay_seconds * 1000);
	live->samples.chains = live->samples.addresses = live->samples.times = true;
	live->samples.direction = live->samples.hist.children ? CALLTREE_CALLER : CALLTREE_CALLEE;
	column_choice_apply(&live->columns, &live->samples.hist);
	if (live->columns.field_words[0][0])
		return diag_set(reterr, -EINVAL, "\"%s\" is no key of top; fields of tracepoints are keys of report",
				live->columns.field_words[0]);
	return 0;
}

static int show(const struct top_options *options)
{
	const struct view_options view_options = {.colourless = !colour_wanted(COLOUR_AUTO, true)};
	struct view_result result;
	struct live *live = NULL;
	struct diag diag = {0};
	int err = live_start(&options->live, &live, &diag);

	if (!err)
		err = view_run(live_source(live), &view_options, &result, &diag);
	int status = live_stop(live);
	if (err)
		log_error("%s", diag.text);
	return err && !status ? INPUT_EXIT_ERROR : status;
}

static int run(int argc, char **argv)
{
	struct top_options options = {
		.live = {.samples.hist = {.children = true, .any_ties = true},
			 .history_bytes = HISTORY_BYTES,
			 .output = "perf.data"},
		.delay_seconds = DELAY_SECONDS,
	};
	AUTO_CONFIGURATION struct configuration config = {0};
	const char *why;
	struct diag diag = {0};
	enum option_result result = configuration_parse(&command_top, argc, argv, &options, &config);
	int status = COMMAND_USAGE;

	if (result == OPTION_EXIT) {
		status = 0;
	} else if (result == OPTION_OK && config.given.first < argc) {
		log_error("top takes no argument, but got \"%s\"", argv[config.given.first]);
	} else if (result == OPTION_OK &&
		   (complete(&options, &diag) || sample_filter_complete(&options.live.samples.filter, &diag))) {
		log_error("%s", diag.text[0] ? diag.text : "out of memory");
	} else if (result == OPTION_OK && !view_possible(&why)) {
		log_error("top needs a terminal: %s; use record and report", why);
		status = INPUT_EXIT_ERROR;
	} else if (result == OPTION_OK) {
		log_set_level(options.verbose);
		status = show(&options);
	}
	sample_filter_fini(&options.live.samples.filter);
	word_list_fini(&options.record);
	return status;
}

const struct command command_top = {
	.name = "top",
	.summary = "Show where the samples of a running recording fall, as they come",
	.usage = "[OPTIONS]",
	.description =
		"Records the whole machine, or the targets that are named, and shows the tables of millrace report in "
		"a view that is refreshed. What is recorded is kept in memory; the key s saves it as a perf.data.\n"
		"\n"
		"Examples:\n"
		"  millrace top\n"
		"  millrace top -p 1234 -g -F 999\n"
		"  millrace top -e sched:sched_switch --total",
	.options = top_table,
	.run = run,
};
