/* SPDX-License-Identifier: MIT */
#include "export/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/export/feed.h"
#include "cmd/export/send.h"
#include "sysinfo/heap.h"

struct export_options {
	struct input_options input;
	struct sample_filter filter;
	const struct export_format *format;
	const char *output, *event;
	struct store_options store;
	uint64_t max_stack;
	bool lines, count_samples;
	int verbose;
};

static int set_format(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	const struct export_format **format = value;

	(void)option, (void)negated;
	*format = export_format_find(arg, reterr);
	return *format ? 0 : -EINVAL;
}

/* Samples without any function are a profile of nothing. */
static int set_max_stack(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	int err = option_set_u64(option, arg, negated, value, reterr);

	if (err || negated || *(uint64_t *)value)
		return err;
	return diag_set(reterr, -EINVAL, "0 leaves no function: it must be at least 1");
}

static int set_count(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	*(bool *)value = strcmp(arg, "samples") == 0;
	return *(bool *)value || strcmp(arg, "period") == 0 ? 0
							    : diag_set(reterr, -EINVAL, "it must be period or samples");
}

static const struct option export_table[] = {
	INPUT_OPTIONS(struct export_options, input),
	{.name = "format",
	 .arg = "FORMAT",
	 .print_values = send_print_formats,
	 .help = "What to write: folded, speedscope, firefox, pprof, perfetto, otlp or sqlite",
	 .set = set_format,
	 .offset = offsetof(struct export_options, format),
	 .flags = OPTION_NO_NEGATE,
	 .group = "Output"},
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Write to FILE; default: profile with the suffix of the format; - is standard output",
	 .set = option_set_path,
	 .offset = offsetof(struct export_options, output)},
	{.name = "to",
	 .arg = "URL",
	 .help = "Send to a server in place of a file: rows to clickhouse://HOST[:PORT][/DATABASE], or clickhouses:// "
		 "with TLS; a profile of --format to http://… or https://…",
	 .set = option_set_path,
	 .offset = offsetof(struct export_options, store.url)},
	{.name = "service",
	 .arg = "NAME",
	 .help = "Store the samples under this name on the server; default: the name of the host",
	 .set = option_set_path,
	 .offset = offsetof(struct export_options, store.service)},
	{.name = "credentials",
	 .arg = "FILE",
	 .help = "Log in with the lines user=NAME and password=TEXT of FILE, which only you may read",
	 .set = option_set_path,
	 .offset = offsetof(struct export_options, store.credentials)},
	{.name = "ca-file",
	 .arg = "FILE",
	 .help = "Trust the certificates in FILE, not those of the system",
	 .set = option_set_path,
	 .offset = offsetof(struct export_options, store.ca)},
	{.letter = 'e',
	 .name = "event",
	 .arg = "EVENT",
	 .help = "Only samples of this event; default: all, and for folded the first one that was recorded",
	 .set = option_set_string,
	 .offset = offsetof(struct export_options, event)},
	{.name = "count",
	 .arg = "WHAT",
	 .values = "period samples",
	 .help = "The number that folded and speedscope give a stack: the sum of the periods, as report counts "
		 "(period, the default), or how many samples it has (samples)",
	 .set = set_count,
	 .offset = offsetof(struct export_options, count_samples),
	 .flags = OPTION_NO_NEGATE},
	{.name = "lines",
	 .help = "Find the source line of each frame: takes the debug information of every object",
	 .set = option_set_flag,
	 .offset = offsetof(struct export_options, lines)},
	{.name = "max-stack",
	 .arg = "N",
	 .help = "Take at most N functions of a call chain, from the innermost on",
	 .set = set_max_stack,
	 .offset = offsetof(struct export_options, max_stack)},
	SAMPLE_FILTER_OPTIONS(struct export_options, filter, "Filters", 'c', 'C'),
	SAMPLE_FILTER_DSOS('d', struct export_options, filter),
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct export_options, verbose),
	 .group = "Other"},
	{0},
};

static struct feed_options feed_of(const struct export_options *options)
{
	return (struct feed_options){
		.input = &options->input,
		.filter = &options->filter,
		.event = options->event,
		.max_stack = options->max_stack < UINT32_MAX ? (unsigned)options->max_stack : 0,
		.lines = options->lines,
		.count_samples = options->count_samples,
	};
}

static void say_left_out(const struct export_options *options, const struct feed_counts *counts)
{
	if (counts->nr_left_out && !options->event && options->format)
		log_note("%" PRIu64 " sample%s of other events %s left out: %s has one event; choose it with --event",
			 counts->nr_left_out, text_s(counts->nr_left_out), counts->nr_left_out == 1 ? "is" : "are",
			 options->format->name);
	if (counts->nr_without_time)
		log_note("%" PRIu64 " sample%s without a time %s left out: %s shows each at its time",
			 counts->nr_without_time, text_s(counts->nr_without_time),
			 counts->nr_without_time == 1 ? "is" : "are", options->format->name);
}

static int run_send(const struct export_options *options)
{
	const struct feed_options feed = feed_of(options);
	const struct send_options to = {.store = options->store, .format = options->format};
	struct feed_counts counts = {0};
	int err = send_recording(&feed, &to, &counts);

	if (!err)
		log_note("%s: %" PRIu64 " sample%s, %" PRIu32 " stack%s", options->store.url, counts.nr_samples,
			 text_s(counts.nr_samples), counts.nr_stacks, text_s(counts.nr_stacks));
	say_left_out(options, &counts);
	return err;
}

static int run(const struct export_options *options, const char *path)
{
	const struct feed_options feed = feed_of(options);
	struct feed_result file;
	int err = feed_into_file(&feed, options->format, path, &file);
	const struct feed_counts counts = file.counts;

	if (file.bytes && strcmp(path, "-") != 0)
		log_note("%s: %" PRIu64 " sample%s, %" PRIu32 " stack%s, %" PRIu64 " bytes", path, counts.nr_samples,
			 text_s(counts.nr_samples), counts.nr_stacks, text_s(counts.nr_stacks), file.bytes);
	say_left_out(options, &counts);
	return err;
}

static int check(const struct export_options *options, const char *path, struct diag *reterr)
{
	const struct send_options to = {.store = options->store, .format = options->format};

	if (options->store.url)
		return path ? diag_set(reterr, -EINVAL, "--to and --output exclude each other")
			    : send_check(&to, reterr);
	if (!options->format)
		return diag_set(reterr, -EINVAL, "export needs a format: --format=folded, for example");
	if (options->format->needs_file && strcmp(path, "-") == 0)
		return diag_set(reterr, -EINVAL, "%s needs a file: name one with -o", options->format->name);
	if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO) && strcmp(options->format->name, "folded") != 0)
		return diag_set(reterr, -EINVAL, "%s is not for a terminal: name a file with -o",
				options->format->name);
	return 0;
}

static int export_run(int argc, char **argv)
{
	struct export_options options = {0};
	struct diag diag = {0};
	char path[64];
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_export, argc, argv, &options, &config);

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	if (config.given.first < argc) {
		log_error("export takes no argument, but got \"%s\"; a file is given with -i",
			  argv[config.given.first]);
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	snprintf(path, sizeof(path), "profile%s", options.format ? options.format->suffix : "");
	if (!options.output && !options.store.url)
		options.output = path;
	if (check(&options, options.output, &diag) || sample_filter_complete(&options.filter, &diag)) {
		log_error("%s", diag.text);
		return COMMAND_USAGE;
	}
	heap_use_huge_pages();
	input_enter_sandbox(&options.input, options.output, options.store.url ? SANDBOX_NETWORK : 0);
	int err = options.store.url ? run_send(&options) : run(&options, options.output);
	sample_filter_fini(&options.filter);
	return err ? INPUT_EXIT_ERROR : 0;
}

const struct command command_export = {
	.name = "export",
	.summary = "Write a recording in a format of other programs",
	.usage = "[OPTIONS]",
	.description =
		"Reads a recording and writes its samples with their call chains, by name, in a format that other "
		"programs read. Numbers and names are those of millrace report.\n"
		"\n"
		"Examples:\n"
		"  millrace export --format=folded -o - | flamegraph.pl > flame.svg\n"
		"  millrace export --format=pprof && go tool pprof -http=: profile.pb.gz",
	.options = export_table,
	.run = export_run,
};
