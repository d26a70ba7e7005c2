/* SPDX-License-Identifier: MIT */
/* millrace record: options into a recording, and its result into words and an exit status. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/configuration.h"
#include "cmd/writer_option.h"
#include "record/recording.h"

enum {
	EXIT_USAGE = 129, /* as perf */
	EXIT_ERROR = 255,
};

struct threads_option {
	bool given;
	const char *spec;
};

struct record_options {
	struct event_list events;
	struct target_request target;
	struct event_options sampling;
	bool no_inherit;
	const char *output;
	size_t ring_pages;
	struct recording_writer writer;
	struct threads_option threads;
	uint64_t flush_bytes;
	int64_t delay_ms;
	int realtime;
	bool no_build_ids;
	bool quiet;
	int verbose;
};

static int set_event(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	return event_list_parse(value, arg, reterr);
}

/* "128" is pages, "4M" bytes; either is rounded up to a power of two. */
static int set_ring_pages(const struct option *option, const char *arg, bool negated, void *value,
			  struct diag *reterr)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = 1;
	uint64_t number;
	char *end;

	(void)option, (void)negated;
	errno = 0;
	number = strtoull(arg, &end, 10);
	if (errno || end == arg || *arg == '-' || (*end && option_parse_size(arg, &number)))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither a number of pages nor a size such as 512K or 4M", arg);
	if (*end)
		number = (number + page_bytes - 1) / page_bytes;
	if (!number || number > (SIZE_MAX / 4) / page_bytes)
		return diag_set(reterr, -EINVAL, "\"%s\" is no possible size of a ring", arg);
	while (pages < number)
		pages *= 2;
	*(size_t *)value = pages;
	return 0;
}

static int set_flush(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (option_parse_size(arg, value) || !*(uint64_t *)value)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 64K", arg);
	return 0;
}

static int set_freq(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)negated;
	if (!strcmp(arg, "max")) {
		*(uint64_t *)value = EVENT_FREQ_MAX;
		return 0;
	}
	int err = option_set_u64(option, arg, false, value, reterr);
	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "a frequency of 0 samples nothing") : err;
}

static int set_period(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)negated;
	int err = option_set_u64(option, arg, false, value, reterr);
	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "a period of 0 events is none") : err;
}

static int set_callgraph_fp(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->callgraph = negated ? CALLGRAPH_NONE : CALLGRAPH_FP;
	return 0;
}

static int set_dump_bytes(const char *text, struct event_options *sampling, struct diag *reterr)
{
	uint64_t bytes;
	int err = option_parse_size(text, &bytes);

	bytes = (bytes + 7) / 8 * 8;
	if (err || !bytes || bytes > EVENT_DUMP_BYTES_MAX)
		return diag_set(reterr, -EINVAL, "dwarf,%s: the stack dump is 8 to %d bytes", text, EVENT_DUMP_BYTES_MAX);
	sampling->dump_bytes = (uint32_t)bytes;
	return 0;
}

static int set_callgraph(const struct option *option, const char *arg, bool negated, void *value,
			 struct diag *reterr)
{
	(void)option;
	struct event_options *sampling = value;

	if (negated || !strcmp(arg, "no")) {
		sampling->callgraph = CALLGRAPH_NONE;
		return 0;
	}
	if (!strcmp(arg, "fp")) {
		sampling->callgraph = CALLGRAPH_FP;
		return 0;
	}
	if (!strcmp(arg, "lbr")) {
		sampling->callgraph = CALLGRAPH_LBR;
		return 0;
	}
	if (!strncmp(arg, "dwarf", 5) && (!arg[5] || arg[5] == ',')) {
		sampling->callgraph = CALLGRAPH_DWARF;
		sampling->dump_bytes = EVENT_DUMP_BYTES;
		return arg[5] ? set_dump_bytes(arg + 6, sampling, reterr) : 0;
	}
	return diag_set(reterr, -EINVAL, "\"%s\" is none of fp, dwarf, dwarf,SIZE, lbr, no", arg);
}

static int set_delay(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	char *end;
	errno = 0;
	long ms = strtol(arg, &end, 10);
	if (errno || end == arg || *end || ms < -1 || ms > INT_MAX)
		return diag_set(reterr, -EINVAL, "\"%s\" is not a number of milliseconds, or -1", arg);
	*(int64_t *)value = ms;
	return 0;
}

static int set_realtime(const struct option *option, const char *arg, bool negated, void *value,
			struct diag *reterr)
{
	uint64_t level = 0;
	int err = option_set_u64(option, arg, negated, &level, reterr);

	if (!err && (level < 1 || level > 99))
		err = diag_set(reterr, -EINVAL, "\"%s\" is no real-time priority: 1 to 99", arg);
	if (!err)
		*(int *)value = (int)level;
	return err;
}

static int set_threads(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)reterr;
	*(struct threads_option *)value = (struct threads_option){.given = !negated, .spec = arg};
	return 0;
}

static int set_timestamps(const struct option *option, const char *arg, bool negated, void *value,
			  struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->timestamps = !negated;
	sampling->no_timestamps = negated;
	return 0;
}

static int set_periods(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	struct event_options *sampling = value;
	sampling->periods = !negated;
	sampling->no_periods = negated;
	return 0;
}

#define AT(field) offsetof(struct record_options, field)

static const struct option record_table[] = {
	{.letter = 'e', .name = "event", .arg = "EVENT", .set = set_event, .offset = AT(events),
	 .flags = OPTION_NO_NEGATE, .group = "What to record",
	 .help = "Events, separated by commas: cpu-clock, cycles:u, sched:*, cpu-clock/period=1000,name=x/. Default: "
		 "cycles, or cpu-clock where there is no hardware counter"},
	{.letter = 'F', .name = "freq", .arg = "HZ", .set = set_freq, .offset = AT(sampling.freq_hz), .family = "rate",
	 .flags = OPTION_NO_NEGATE, .help = "Samples per second of each event, or \"max\". Default: 4000"},
	{.letter = 'c', .name = "count", .arg = "N", .set = set_period, .offset = AT(sampling.period), .family = "rate",
	 .flags = OPTION_NO_NEGATE, .help = "One sample for every N events, instead of a frequency"},
	{.letter = 'g', .set = set_callgraph_fp, .offset = AT(sampling), .help = "Call chains by frame pointers"},
	{.name = "call-graph", .arg = "MODE", .set = set_callgraph, .offset = AT(sampling),
	 .help = "Call chains: fp (frame pointers), dwarf[,SIZE] (dumps SIZE bytes of the stack to unwind later; "
		 "default 8192), lbr (branch records of the CPU)"},

	{.letter = 'a', .name = "all-cpus", .set = option_set_flag, .offset = AT(target.all_cpus),
	 .flags = OPTION_NO_DEFAULT, .group = "Of whom", .help = "Everything that runs, on all CPUs"},
	{.letter = 'C', .name = "cpu", .arg = "LIST", .set = option_set_string, .offset = AT(target.cpu_list),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT, .help = "Only these CPUs: 0-3,7"},
	{.letter = 'p', .name = "pid", .arg = "PID,…", .set = option_set_string, .offset = AT(target.pids),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT,
	 .help = "Running processes, with all their threads and the children to come"},
	{.letter = 't', .name = "tid", .arg = "TID,…", .set = option_set_string, .offset = AT(target.tids),
	 .flags = OPTION_NO_NEGATE | OPTION_NO_DEFAULT, .help = "Running threads, and only these"},
	{.letter = 'i', .name = "no-inherit", .set = option_set_flag, .offset = AT(no_inherit),
	 .flags = OPTION_NO_NEGATE, .help = "Do not follow into children"},
	{.name = "per-thread", .set = option_set_flag, .offset = AT(target.per_thread),
	 .flags = OPTION_NO_NEGATE, .help = "A ring for each thread instead of one for each CPU"},
	{.letter = 'D', .name = "delay", .arg = "MS", .set = set_delay, .offset = AT(delay_ms),
	 .flags = OPTION_NO_NEGATE, .help = "Start recording MS milliseconds after the program; -1: start disabled"},

	{.letter = 'd', .name = "data", .set = option_set_flag, .offset = AT(sampling.addresses),
	 .group = "What each sample holds", .help = "The data address"},
	{.letter = 'T', .name = "timestamp", .set = set_timestamps, .offset = AT(sampling), .help = "The time"},
	{.letter = 'P', .name = "period", .set = set_periods, .offset = AT(sampling), .help = "The period"},
	{.letter = 'R', .name = "raw-samples", .set = option_set_flag, .offset = AT(sampling.raw),
	 .help = "The raw record of every counter (the default for tracepoints)"},
	{.letter = 's', .name = "stat", .set = option_set_flag, .offset = AT(sampling.stat),
	 .help = "Counts per thread, too"},
	{.letter = 'n', .name = "no-samples", .set = option_set_flag, .offset = AT(sampling.no_samples),
	 .flags = OPTION_NO_NEGATE, .help = "No samples, only side-band records"},

	{.letter = 'o', .name = "output", .arg = "FILE", .set = option_set_string, .offset = AT(output),
	 .flags = OPTION_NO_NEGATE, .group = "Where to, and how",
	 .help = "Default: perf.data. One that exists is kept as FILE.old. \"-\": to standard output, as a pipe"},
	{.letter = 'm', .name = "mmap-pages", .arg = "SIZE", .set = set_ring_pages, .offset = AT(ring_pages),
	 .flags = OPTION_NO_NEGATE, .help = "Size of each ring in pages, or with K, M, G; rounded up to a power of two"},
	{.name = "mmap-flush", .arg = "SIZE", .set = set_flush, .offset = AT(flush_bytes),
	 .flags = OPTION_NO_NEGATE, .help = "Leave less than this in a ring for a later pass. Default: a sixteenth of "
					     "the ring"},
	{.name = "writer", .arg = "NAME[,KEY=VALUE]", .set = set_writer, .offset = AT(writer), .family = "writer",
	 .flags = OPTION_NO_NEGATE, .help = "How the file is written: serial, mmap[,window=SIZE], aio[,blocks=N], "
					     "uring[,blocks=N], null (to nowhere), auto"},
	{.name = "aio", .arg = "N", .set = set_aio, .offset = AT(writer), .family = "writer", .flags = OPTION_ARG_OPTIONAL,
	 .help = "Asynchronous: --writer=aio with N staging blocks for each ring. Default: 1"},
	{.name = "mmap-output", .arg = "SIZE", .set = set_mmap_output, .offset = AT(writer), .family = "writer",
	 .flags = OPTION_ARG_OPTIONAL, .help = "Mapped: --writer=mmap with windows of SIZE. Default: 64M"},
	{.name = "threads", .arg = "SPEC", .set = set_threads, .offset = AT(threads), .flags = OPTION_ARG_OPTIONAL,
	 .help = "Drain with several threads into a data directory: one for each cpu (default), core, package, socket or "
		 "numa node, or by masks CPUS/AFFINITY:CPUS/AFFINITY…"},
	{.letter = 'r', .name = "realtime", .arg = "PRIO", .set = set_realtime, .offset = AT(realtime),
	 .flags = OPTION_NO_NEGATE, .help = "Drain the rings with this real-time priority (SCHED_FIFO)"},
	{.letter = 'B', .name = "no-buildid", .set = option_set_flag, .offset = AT(no_build_ids),
	 .flags = OPTION_NO_NEGATE, .help = "Do not look up the build-ids of what was hit: a faster end, but symbols "
					     "may not be found later"},
	{.letter = 'q', .name = "quiet", .set = option_set_flag, .offset = AT(quiet), .family = "talk",
	 .flags = OPTION_NO_NEGATE, .help = "Print nothing but errors"},
	{.letter = 'v', .name = "verbose", .set = option_set_count, .offset = AT(verbose), .family = "talk",
	 .flags = OPTION_NO_NEGATE, .help = "Tell what is done; twice: in detail"},
	{.set = NULL},
};

static void print_losses(const struct recording_result *result)
{
	enum { SHOWN = 8 };

	for (size_t i = 0; i < result->nr_losses && i < SHOWN; i++) {
		const struct recording_loss *loss = &result->losses[i];
		AUTO_BUF struct buf where = {0};
		if (loss->cpu >= 0)
			buf_printf(&where, "CPU %d", loss->cpu);
		if (loss->tid > 0)
			buf_printf(&where, "%sthread %d", where.len ? ", " : "", loss->tid);
		log_note("  lost %llu of %s on %s: ring full (%zu KiB)", (unsigned long long)loss->records, loss->event,
			 buf_text(&where), result->ring_bytes / 1024);
	}
	if (result->nr_losses > SHOWN)
		log_note("  and %zu more", result->nr_losses - SHOWN);
	if (result->nr_losses)
		log_note("  larger rings lose less: -m %zuK", result->ring_bytes / 1024 * 4);
}

static void print_summary(const struct recording_result *result)
{
	AUTO_BUF struct buf line = {0};

	if (result->samples_counted)
		buf_printf(&line, "captured %llu samples, ", (unsigned long long)result->nr_samples);
	else
		buf_printf(&line, "captured ");
	buf_printf(&line, "%.3f MB in %s; ", (double)result->bytes / 1e6, result->output);
	if (!result->losses_counted)
		buf_printf(&line, "this kernel does not count what it drops: millrace report tells what LOST records do");
	else if (!result->lost_records)
		buf_printf(&line, "lost 0");
	else if (result->samples_counted)
		buf_printf(&line, "lost %llu (%.2f %%)", (unsigned long long)result->lost_records,
			   100.0 * (double)result->lost_records /
				   (double)(result->lost_records + result->nr_samples));
	else
		buf_printf(&line, "lost %llu", (unsigned long long)result->lost_records);
	log_note("%s", buf_text(&line));
	print_losses(result);
	if (result->unwritten_bytes)
		log_note("  %llu bytes of records could not be written", (unsigned long long)result->unwritten_bytes);
	if (result->cut_samples)
		log_note("  %llu samples gave way to the header, which did not fit behind them",
			 (unsigned long long)result->cut_samples);
	log_verbose("%llu bytes in %zu rings drained, %llu wake-ups, %llu rounds, %.3f s of CPU",
		    (unsigned long long)result->ring_total_bytes, result->nr_rings,
		    (unsigned long long)result->wakeups, (unsigned long long)result->rounds,
		    (double)result->cpu_ns / 1e9);
}

/* What ended the workload, or us, is passed on: a shell sees the same as without the recorder. */
static int exit_status(const struct recording_result *result)
{
	int signal_number = result->signal;

	if (result->has_wait_status) {
		if (WIFEXITED(result->wait_status))
			return WEXITSTATUS(result->wait_status);
		signal_number = WTERMSIG(result->wait_status);
	}
	if (signal_number) {
		sigset_t set;
		sigemptyset(&set);
		sigaddset(&set, signal_number);
		prctl(PR_SET_DUMPABLE, 0); /* the core is the command's, not ours */
		signal(signal_number, SIG_DFL);
		raise(signal_number);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	}
	return 0;
}

static int record(struct record_options *options, int argc, char **argv, int first)
{
	struct target target __attribute__((cleanup(target_fini))) = {0};
	bool to_nowhere = options->writer.ops == &writer_null && !options->threads.given;
	struct recording_options recording = {
		.target = &target,
		.threads_only = options->target.tids != NULL,
		.events = &options->events,
		.sampling = options->sampling,
		.inherit = !options->no_inherit,
		.ring = {.pages = options->ring_pages, .exact = options->ring_pages != 0},
		.writer = options->writer,
		.flush_bytes = (size_t)options->flush_bytes,
		.output = to_nowhere ? "/dev/null" : options->output,
		.delay_ms = options->delay_ms,
		.realtime = options->realtime,
		.threads = options->threads.given,
		.thread_spec = options->threads.spec,
		.build_ids = !options->no_build_ids,
		.workload = first < argc ? argv + first : NULL,
		.argc = argc,
		.argv = argv,
	};
	struct recording_result result;
	struct diag diag = {0};

	options->target.has_workload = recording.workload != NULL;
	int err = target_resolve(&options->target, &target, &diag);
	if (err) {
		log_error("%s", diag.text);
		return err == -EINVAL ? EXIT_USAGE : EXIT_ERROR;
	}
	if (!options->events.nr && event_list_add_default(&options->events)) {
		log_error("out of memory");
		return EXIT_ERROR;
	}
	err = recording_run(&recording, &result, &diag);
	if (err)
		log_error("%s", diag.text);
	if (result.output)
		print_summary(&result);
	int status = err ? EXIT_ERROR : exit_status(&result);
	recording_result_fini(&result);
	return status;
}

static int run(int argc, char **argv)
{
	struct record_options options = {0};
	AUTO_CONFIGURATION struct configuration config = {0};

	switch (configuration_parse(&command_record, argc, argv, &options, &config)) {
	case OPTION_EXIT:
		event_list_fini(&options.events);
		return 0;
	case OPTION_BAD:
		event_list_fini(&options.events);
		return EXIT_USAGE;
	case OPTION_OK:
		break;
	}
	if (options.sampling.freq_hz && options.sampling.period) {
		log_error("-F and -c exclude each other: a frequency, or a period");
		event_list_fini(&options.events);
		return EXIT_USAGE;
	}
	log_set_level(options.quiet ? LOG_ERRORS : options.verbose);
	int status = record(&options, argc, argv, config.given.first);
	event_list_fini(&options.events);
	return status;
}

const struct command command_record = {
	.name = "record",
	.summary = "Record events of a command, of running tasks or of the whole machine into perf.data",
	.usage = "[OPTIONS] [--] COMMAND [ARGS]\n[OPTIONS] -a | -C LIST | -p PID | -t TID [[--] COMMAND [ARGS]]",
	.description = "Runs COMMAND and records what it does until it ends; with -a, -C, -p or -t records those, until "
		       "COMMAND ends or Ctrl-C. The file is read by millrace report, millrace script and every reader "
		       "of perf.data. The exit status is that of COMMAND.\n\n"
		       "Examples:\n"
		       "  millrace record -g -- make -j8\n"
		       "  millrace record -a -e 'sched:*' -- sleep 1\n"
		       "  millrace record -F 999 --call-graph dwarf -p 1234 -o app.data\n",
	.options = record_table,
	.run = run,
};
