/* SPDX-License-Identifier: MIT */
/* millrace recover: recordings whose recorder died, or that lost their end, made whole. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/configuration.h"
#include "cmd/input.h"
#include "cmd/recover_copy.h"
#include "record/recover.h"

struct recover_options {
	const char *output;
	bool no_build_ids, force, index;
	int verbose;
};

static const struct option recover_table[] = {
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .help = "Leave the recording as it is and write FILE, or a directory of that name, instead",
	 .set = option_set_string,
	 .offset = offsetof(struct recover_options, output),
	 .group = "Output"},
	{.letter = 'B',
	 .name = "no-buildid",
	 .help = "Do not look up the build-ids of what was hit",
	 .set = option_set_flag,
	 .offset = offsetof(struct recover_options, no_build_ids)},
	{.name = "index",
	 .help = "Write the index of extents anew, by which --time of report and script leaves out what it does not need, also "
		 "of a recording that is whole",
	 .set = option_set_flag,
	 .offset = offsetof(struct recover_options, index)},
	{.letter = 'f',
	 .name = "force",
	 .help = "Recover a recording that belongs to neither root nor you",
	 .set = option_set_flag,
	 .offset = offsetof(struct recover_options, force),
	 .group = "Input"},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct recover_options, verbose)},
	{0},
};

static void tell(const char *path, const struct recover_result *result)
{
	if (result->nr_extents)
		log_note("%s is whole; its index has %zu extents", path, result->nr_extents);
	else if (result->was_whole)
		log_note("%s is whole: nothing to recover", path);
	else if (result->samples_counted)
		log_note("%s: recovered %" PRIu64 " samples, %.3f MB; %" PRIu64 " bytes behind the last whole record were cut off",
			 path, result->nr_samples, (double)result->data_bytes / 1e6, result->dropped_bytes);
	else
		log_note("%s: recovered %.3f MB; %" PRIu64 " bytes behind the last whole record were cut off", path,
			 (double)result->data_bytes / 1e6, result->dropped_bytes);
}

static int recover(const struct recover_options *options, const char *path, int argc, char **argv)
{
	struct recover_params params = {
		.path = options->output ? options->output : path,
		.build_ids = !options->no_build_ids,
		.force = options->force,
		.index = options->index,
		.argc = argc,
		.argv = argv,
	};
	struct recover_result result = {0};
	struct diag diag = {0};
	int err = options->output ? recover_copy(path, options->output, &diag) : 0;

	if (!err)
		err = recover_recording(&params, &result, &diag);
	if (err) {
		log_error("%s", diag.text);
		return INPUT_EXIT_ERROR;
	}
	tell(params.path, &result);
	return 0;
}

static int run(int argc, char **argv)
{
	struct recover_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_recover, argc, argv, &options, &config);
	int first = config.given.first;

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	if (argc - first != 1) {
		log_error("recover: %s", argc == first ? "which recording? Give its name" : "one recording at a time");
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	return recover(&options, argv[first], argc, argv);
}

const struct command command_recover = {
	.name = "recover",
	.summary = "Make recordings whole whose recorder died, or that lost their end",
	.usage = "[OPTIONS] FILE",
	.description = "Finds the last whole record of FILE, or of every file of the data directory FILE, cuts off what is "
		       "behind it, and writes what the recorder would have written at its end, so that every reader takes "
		       "it. Works with what a killed perf record left, too. What the file does not hold, such as the "
		       "formats of tracepoints, is taken from this machine: recover where it was recorded.\n\n"
		       "Examples:\n"
		       "  millrace recover perf.data\n"
		       "  millrace recover -o whole.data broken.data\n",
	.options = recover_table,
	.run = run,
};
