/* SPDX-License-Identifier: MIT */
/* millrace selftest: proves on this machine that captured + lost = generated, whichever way it records. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/cli/json_writer.h"
#include "cmd/cli/terminal.h"
#include "cmd/selftest_run.h"
#include "compress/zstd.h"
#include "event/names/names.h"
#include "event/parse/configure.h"
#include "event/parse/event.h"
#include "event/parse/open.h"
#include "stream/writer.h"

enum { EXIT_FAILED = 1, EXIT_NOT_RUN = 255, QUICK_EVENTS = 10000, EVENTS = 100000 };

struct selftest_options {
	bool quick, json;
	uint64_t nr;           /* --events */
	const char *directory; /* where the recordings are made */
	const char *load;
	int verbose;
};

static const struct option selftest_table[] = {
	{.name = "quick",
	 .help = "A few seconds: each writer once, and threads, compression and small rings with one of them",
	 .set = option_set_flag,
	 .offset = offsetof(struct selftest_options, quick),
	 .group = "What is tried"},
	{.name = "events",
	 .arg = "N",
	 .help = "N events on each CPU for each recording; default 100000, or 10000 with --quick",
	 .set = option_set_u64,
	 .offset = offsetof(struct selftest_options, nr),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'o',
	 .name = "output",
	 .arg = "DIR",
	 .help = "Make the recordings in a new directory below DIR, on the storage that is to be tried; default /tmp",
	 .set = option_set_path,
	 .offset = offsetof(struct selftest_options, directory),
	 .flags = OPTION_NO_NEGATE},
	{.name = "load",
	 .arg = "KIND:N",
	 .help = "Generate the events that are recorded",
	 .set = option_set_string,
	 .offset = offsetof(struct selftest_options, load),
	 .flags = OPTION_HIDDEN | OPTION_NO_NEGATE | OPTION_NO_DEFAULT},
	{.name = "json",
	 .help = "Print JSON instead of a table",
	 .set = option_set_flag,
	 .offset = offsetof(struct selftest_options, json),
	 .group = "Output"},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct selftest_options, verbose)},
	{0},
};

struct selftest {
	const struct selftest_options *options;
	struct selftest_params params;
	bool losses_counted; /* by the kernel */
	bool some_left_out;
	size_t nr_run, nr_failed;
	struct json_writer json;
};

static const char *yes(bool value)
{
	return value ? "yes" : "no";
}

static const char *verdict(const struct selftest_result *result, bool passed)
{
	return !passed ? "FAILED" : result->captured == result->generated ? "all" : "accounted";
}

static void print_head(struct selftest *test)
{
	if (test->options->json) {
		test->json.to = stdout;
		json_object(&test->json, NULL);
		json_text(&test->json, "event",
			  test->params.kind == SELFTEST_SYSCALLS ? "raw_syscalls:sys_enter" : "page-faults:u");
		json_array(&test->json, "runs");
	} else {
		printf("# %-8s %-7s %-4s %-8s %10s %10s %10s %7s  Result\n", "Writer", "Threads", "-z", "Ring",
		       "Generated", "Captured", "Lost", "Twice");
	}
}

static void print_result(struct selftest *test, const struct selftest_case *how, const struct selftest_result *result,
			 bool passed)
{
	const char *ring = how->ring ? how->ring : "default";

	if (test->options->json) {
		struct json_writer *json = &test->json;
		json_break(json);
		json_object(json, NULL);
		json_text(json, "writer", how->writer);
		json_bool(json, "threads", how->threads);
		json_bool(json, "compressed", how->compressed);
		json_text(json, "ring", ring);
		json_number(json, "generated", result->generated);
		json_number(json, "captured", result->captured);
		json_number(json, "lost", result->lost);
		json_number(json, "ledger_lost", result->ledger_lost);
		json_number(json, "twice", result->twice);
		json_number(json, "strange", result->strange);
		json_bool(json, "passed", passed);
		json_end(json);
	} else {
		printf("  %-8s %-7s %-4s %-8s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %7" PRIu64 "  %s\n",
		       how->writer, yes(how->threads), yes(how->compressed), ring, result->generated, result->captured,
		       result->lost, result->twice, verdict(result, passed));
	}
	fflush(stdout);
}

static void try_case(struct selftest *test, const struct selftest_case *how)
{
	struct selftest_result result = {0};
	struct diag diag = {0};

	/* Rings that are too small lose records: how many is not known here. */
	if (how->ring && !test->losses_counted) {
		test->some_left_out = true;
		return;
	}
	int err = selftest_run(&test->params, how, &result, &diag);
	bool passed = !err && selftest_passed(&test->params, &result);

	if (err)
		log_error("%s%s%s: %s", how->writer, how->threads ? ", threads" : "", how->compressed ? ", -z" : "",
			  diag.text);
	print_result(test, how, &result, passed);
	test->nr_run++;
	test->nr_failed += !passed;
}

static void try_quickly(struct selftest *test)
{
	for (const struct writer_ops *const *ops = writers; *ops; ops++)
		if (*ops != &writer_null)
			try_case(test, &(struct selftest_case){.writer = (*ops)->name});
	try_case(test, &(struct selftest_case){.writer = "serial", .threads = true});
	try_case(test, &(struct selftest_case){.writer = "serial", .ring = "4K"});
	if (!zstd_available())
		return;
	try_case(test, &(struct selftest_case){.writer = "serial", .compressed = true});
	try_case(test, &(struct selftest_case){.writer = "serial", .threads = true, .compressed = true});
}

static void try_everything(struct selftest *test)
{
	static const char *const rings[] = {NULL, "4K"};

	for (const struct writer_ops *const *ops = writers; *ops; ops++) {
		for (unsigned i = 0; *ops != &writer_null && i < 8; i++) {
			const struct selftest_case how = {
				.writer = (*ops)->name, .threads = i & 1, .compressed = i & 2, .ring = rings[i >> 2]};
			if (!how.compressed || zstd_available())
				try_case(test, &how);
		}
	}
}

static int run_all(struct selftest *test)
{
	print_head(test);
	if (test->options->quick)
		try_quickly(test);
	else
		try_everything(test);
	if (test->options->json) {
		json_end(&test->json);
		json_bool(&test->json, "passed", !test->nr_failed);
		json_end(&test->json);
		printf("\n");
	} else if (test->nr_failed) {
		printf("# %zu of %zu recording%s FAILED\n", test->nr_failed, test->nr_run, text_s(test->nr_run));
	} else {
		printf("# %zu recording%s: captured + lost = generated%s, nothing twice\n", test->nr_run,
		       text_s(test->nr_run), test->nr_run == 1 ? "" : " in each");
	}
	if (test->some_left_out)
		log_note("recordings with small rings are left out: this kernel does not count what it drops (Linux "
			 "6.0)");
	return test->nr_failed ? EXIT_FAILED : standard_output_flush() ? EXIT_NOT_RUN : 0;
}

/* false: PERF_RECORD_LOST tells only what was lost before a later record of the same ring. */
static bool kernel_counts_losses(void)
{
	struct event_list list __attribute__((cleanup(event_list_fini))) = {0};
	const struct event_options options = {.target = EVENT_TARGET_WORKLOAD};
	const struct event_open_args self = {.pid = 0, .cpu = -1, .group_fd = -1};
	struct event_fallbacks fallbacks = {0};

	if (event_list_parse(&list, "page-faults:u", NULL) || event_list_configure(&list, &options, NULL))
		return true;
	AUTO_FD int fd = event_open(&list.events[0], &fallbacks, &self, true, NULL);
	return fd < 0 || list.events[0].attr.read_format & PERF_FORMAT_LOST;
}

/* Tracepoints where they may be read: their count is exact. Else what any user may record. */
static enum selftest_kind best_kind(void)
{
	const char *tracefs = geteuid() ? NULL : tracefs_path(NULL);
	AUTO_FREE char *id = NULL;

	if (tracefs && asprintf(&id, "%s/events/raw_syscalls/sys_enter/id", tracefs) < 0)
		id = NULL;
	return id && access(id, R_OK) == 0 ? SELFTEST_SYSCALLS : SELFTEST_FAULTS;
}

static int selftest(const struct selftest_options *options)
{
	AUTO_FREE char *directory = NULL;
	struct selftest test = {
		.options = options,
		.losses_counted = kernel_counts_losses(),
		.params = {.kind = best_kind(),
			   .nr = options->nr      ? options->nr
				 : options->quick ? QUICK_EVENTS
						  : EVENTS},
	};

	if (asprintf(&directory, "%s/millrace-selftest-XXXXXX", options->directory ? options->directory : "/tmp") < 0)
		directory = NULL;
	if (!directory || !mkdtemp(directory)) {
		log_error("cannot make a directory below %s: %s", options->directory ? options->directory : "/tmp",
			  strerror(errno));
		return EXIT_NOT_RUN;
	}
	test.params.directory = directory;
	int status = run_all(&test);
	rmdir(directory);
	return status;
}

static int run(int argc, char **argv)
{
	struct selftest_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	enum option_result result = configuration_parse(&command_selftest, argc, argv, &options, &config);
	enum selftest_kind kind;
	uint64_t nr;

	if (result != OPTION_OK)
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	if (config.given.first < argc) {
		log_error("selftest takes no argument, but got \"%s\"", argv[config.given.first]);
		return COMMAND_USAGE;
	}
	if (options.load)
		return selftest_load_parse(options.load, &kind, &nr) ? COMMAND_USAGE : selftest_load_run(kind, nr);
	log_set_level(options.verbose);
	return selftest(&options);
}

const struct command command_selftest = {
	.name = "selftest",
	.summary = "Prove on this machine that captured + lost = generated",
	.usage = "[OPTIONS]",
	.description =
		"Records numbered events on every CPU with each writer, with and without threads and compression, with "
		"rings of the usual size and with rings that are too small, reads each recording back, and checks "
		"that every number was captured once, or counted as lost. As root the events are system calls; "
		"otherwise page faults, which every user may record. The exit status is 0 when all of that holds, "
		"1 when it does not.\n\n"
		"Examples:\n"
		"  millrace selftest --quick\n"
		"  millrace selftest -o /mnt/recordings\n",
	.options = selftest_table,
	.run = run,
};
