/* SPDX-License-Identifier: MIT */
/* stream: rings in memory, filled as the kernel fills those of events, drained through a writer of millrace record. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "bench_report.h"
#include "bench_stream.h"
#include "cmd/cli/command.h"
#include "cmd/record/record.h"
#include "storage.h"

enum {
	EXIT_ERROR = 1,
	MAX_WRITERS = 16,
	MAX_RUNS = 1000,
	MAX_RINGS = 65536,
	MAX_THREADS = 64,
	DEFAULT_RINGS = 272, /* of the machine on which serial writing lost nearly everything */
	DEFAULT_RING_BYTES = 128 << 10,
	DEFAULT_SAMPLE_BYTES = 1024,
	DEFAULT_LOAD = 100, /* MB/s */
};

static const uint64_t max_rings_bytes = (uint64_t)4 << 30;

struct chosen_writer {
	const char *text; /* as the user wrote it */
	struct recording_writer writer;
};

struct writer_list {
	struct chosen_writer items[MAX_WRITERS];
	size_t nr;
};

struct bench_options {
	uint64_t nr_rings, nr_busy, ring_bytes, sample_bytes, nr_threads, flush_bytes, nr_runs;
	double rate, load, duration_s, storage_rate;
	uint64_t on_ns, off_ns;
	struct writer_list writers;
	const char *output;
	bool verify, json;
	int verbose;
};

static int set_size(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (option_parse_size(arg, value) || !*(uint64_t *)value)
		return diag_set(reterr, -EINVAL, "\"%s\" is no size such as 64K", arg);
	return 0;
}

static int parse_positive(const char *text, const char **ret_end, double *ret)
{
	char *end;

	errno = 0;
	double number = strtod(text, &end);
	if (errno || end == text || !isfinite(number) || number <= 0 || number > 1e12)
		return -EINVAL;
	*ret = number;
	*ret_end = end;
	return 0;
}

static int set_positive(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	const char *end;
	double number;

	(void)option, (void)negated;
	if (parse_positive(arg, &end, &number) || *end)
		return diag_set(reterr, -EINVAL, "\"%s\" is no number above 0", arg);
	*(double *)value = number;
	return 0;
}

static int set_count(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	int err = option_set_u64(option, arg, negated, value, reterr);

	return !err && !*(uint64_t *)value ? diag_set(reterr, -EINVAL, "0 is none") : err;
}

static int set_burst(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct bench_options *options = value;
	const char *end;
	double on, off;

	(void)option, (void)negated;
	if (parse_positive(arg, &end, &on) || *end != '/' || parse_positive(end + 1, &end, &off) || *end || on > 1e6 ||
	    off > 1e6)
		return diag_set(reterr, -EINVAL, "\"%s\" is not ON/OFF in milliseconds, such as 100/300", arg);
	options->on_ns = (uint64_t)(on * 1e6);
	options->off_ns = (uint64_t)(off * 1e6);
	return 0;
}

static int add_writer(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct writer_list *list = value;
	struct chosen_writer chosen = {.text = arg};

	if (list->nr == MAX_WRITERS)
		return diag_set(reterr, -EINVAL, "more than %d writers", MAX_WRITERS);
	int err = set_writer(option, arg, negated, &chosen.writer, reterr);
	if (err)
		return err;
	if (!chosen.writer.ops)
		return diag_set(reterr, -EINVAL, "a benchmark measures one writer at a time: name it");
	list->items[list->nr++] = chosen;
	return 0;
}

#define AT(field) offsetof(struct bench_options, field)

static const struct option bench_table[] = {
	{.name = "writer",
	 .arg = "NAME[,KEY=VALUE...]",
	 .set = add_writer,
	 .offset = AT(writers),
	 .flags = OPTION_NO_NEGATE,
	 .group = "What is measured",
	 .help = "The writer, as for millrace record: serial, mmap, aio, direct, null, with blocks=N of staging "
		 "per ring or window=SIZE. May be given several times. Default: "
		 "each writer of this build"},
	{.name = "flush",
	 .arg = "SIZE",
	 .set = set_size,
	 .offset = AT(flush_bytes),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Leave less than this in a ring for a later pass. Default: 1/16 of a ring"},
	{.name = "runs",
	 .arg = "N",
	 .set = set_count,
	 .offset = AT(nr_runs),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Runs of each writer, in turn. Default: 1"},
	{.name = "rings",
	 .arg = "N",
	 .set = set_count,
	 .offset = AT(nr_rings),
	 .flags = OPTION_NO_NEGATE,
	 .group = "The load",
	 .help = "Number of rings. Default: 272"},
	{.name = "busy",
	 .arg = "N",
	 .set = set_count,
	 .offset = AT(nr_busy),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Only so many of the rings get samples. Default: all"},
	{.name = "ring-size",
	 .arg = "SIZE",
	 .set = set_size,
	 .offset = AT(ring_bytes),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Size of each ring, a power of two. Default: 128K"},
	{.name = "record-size",
	 .arg = "SIZE",
	 .set = set_size,
	 .offset = AT(sample_bytes),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Size of each sample, a multiple of 8. Default: 1K"},
	{.name = "rate",
	 .arg = "N",
	 .set = set_positive,
	 .offset = AT(rate),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Samples per second of each busy ring"},
	{.name = "load",
	 .arg = "MB",
	 .set = set_positive,
	 .offset = AT(load),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Instead: megabytes per second of all rings together. Default: 100"},
	{.name = "burst",
	 .arg = "ON/OFF",
	 .set = set_burst,
	 .flags = OPTION_NO_NEGATE,
	 .help = "Samples come for ON milliseconds at that rate, then for OFF milliseconds not. Default: always"},
	{.name = "duration",
	 .arg = "SECONDS",
	 .set = set_positive,
	 .offset = AT(duration_s),
	 .flags = OPTION_NO_NEGATE,
	 .help = "How long samples come. Default: 5"},
	{.name = "producers",
	 .arg = "N",
	 .set = set_count,
	 .offset = AT(nr_threads),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Threads that make samples. Default: one for each CPU"},
	{.letter = 'o',
	 .name = "output",
	 .arg = "FILE",
	 .set = option_set_path,
	 .offset = AT(output),
	 .flags = OPTION_NO_NEGATE,
	 .group = "The storage",
	 .help = "Where the records go; each run overwrites it. Default: a file in $TMPDIR or /tmp without a name; "
		 "with --storage-rate, memory"},
	{.name = "storage-rate",
	 .arg = "MB",
	 .set = set_positive,
	 .offset = AT(storage_rate),
	 .flags = OPTION_NO_NEGATE,
	 .help = "Storage that takes in so many megabytes per second, past the page cache"},
	{.name = "verify",
	 .set = option_set_flag,
	 .offset = AT(verify),
	 .group = "Results",
	 .help = "Read back what was stored: each sample that a ring took must be there, once, whole, in order"},
	{.name = "json", .set = option_set_flag, .offset = AT(json), .help = "Print every run as JSON"},
	{.letter = 'v',
	 .name = "verbose",
	 .set = option_set_count,
	 .offset = AT(verbose),
	 .help = "Tell on standard error what is being run"},
	{0},
};

/* All writers; to verify, all that store something. */
static void default_writers(struct writer_list *list, bool verify)
{
	for (const struct writer_ops *const *ops = writers; *ops && list->nr < MAX_WRITERS; ops++)
		if (!verify || *ops != &writer_null)
			list->items[list->nr++] = (struct chosen_writer){.text = (*ops)->name, .writer = {.ops = *ops}};
}

static int check_sizes(const struct bench_options *options, struct diag *reterr)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (options->nr_rings > MAX_RINGS)
		return diag_set(reterr, -EINVAL, "--rings %llu: at most %d", (unsigned long long)options->nr_rings,
				MAX_RINGS);
	if (options->nr_busy > options->nr_rings)
		return diag_set(reterr, -EINVAL, "--busy %llu: there are %llu rings",
				(unsigned long long)options->nr_busy, (unsigned long long)options->nr_rings);
	if (options->ring_bytes & (options->ring_bytes - 1) || options->ring_bytes < page)
		return diag_set(reterr, -EINVAL, "--ring-size: a power of two, at least a page of %llu bytes",
				(unsigned long long)page);
	if (options->ring_bytes > max_rings_bytes / options->nr_rings)
		return diag_set(reterr, -EINVAL, "the rings would take more than %llu GiB together",
				(unsigned long long)(max_rings_bytes >> 30));
	if (options->sample_bytes % 8 || options->sample_bytes < SYNTHETIC_SAMPLE_MIN ||
	    options->sample_bytes > SYNTHETIC_SAMPLE_MAX || options->sample_bytes > options->ring_bytes / 4)
		return diag_set(reterr, -EINVAL,
				"--record-size: a multiple of 8 from %d to %d, and at most a quarter of a ring",
				(int)SYNTHETIC_SAMPLE_MIN, (int)SYNTHETIC_SAMPLE_MAX);
	return 0;
}

static int check_rest(const struct bench_options *options, struct diag *reterr)
{
	if (options->rate && options->load)
		return diag_set(reterr, -EINVAL, "--rate and --load exclude each other");
	if (options->nr_threads > MAX_THREADS)
		return diag_set(reterr, -EINVAL, "--producers: at most %d", MAX_THREADS);
	if (options->nr_runs > MAX_RUNS)
		return diag_set(reterr, -EINVAL, "--runs: at most %d", MAX_RUNS);
	if (options->duration_s > 1e6)
		return diag_set(reterr, -EINVAL, "--duration: at most a million seconds");
	for (size_t i = 0; options->verify && i < options->writers.nr; i++)
		if (options->writers.items[i].writer.ops == &writer_null)
			return diag_set(reterr, -EINVAL, "--verify: writer null stores nothing that could be read");
	return 0;
}

static void fill_defaults(struct bench_options *options)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	options->nr_rings = options->nr_rings ? options->nr_rings : DEFAULT_RINGS;
	options->nr_busy = options->nr_busy ? options->nr_busy : options->nr_rings;
	options->ring_bytes = options->ring_bytes ? options->ring_bytes : DEFAULT_RING_BYTES;
	options->sample_bytes = options->sample_bytes ? options->sample_bytes : DEFAULT_SAMPLE_BYTES;
	options->nr_runs = options->nr_runs ? options->nr_runs : 1;
	options->duration_s = options->duration_s ? options->duration_s : 5;
	if (!options->nr_threads)
		options->nr_threads = cpus < 1 ? 1 : cpus < MAX_THREADS ? (uint64_t)cpus : MAX_THREADS;
	if (!options->writers.nr)
		default_writers(&options->writers, options->verify);
}

static struct bench_stream_options make_stream_options(const struct bench_options *options)
{
	double load = options->load ? options->load : DEFAULT_LOAD;
	double rate =
		options->rate ? options->rate : load * 1e6 / (double)options->nr_busy / (double)options->sample_bytes;

	return (struct bench_stream_options){
		.nr_rings = options->nr_rings,
		.ring_bytes = options->ring_bytes,
		.load =
			{
				.nr_busy = options->nr_busy,
				.nr_threads = (unsigned)(options->nr_threads < options->nr_busy ? options->nr_threads
												: options->nr_busy),
				.rate = rate,
				.sample_bytes = options->sample_bytes,
				.on_ns = options->on_ns,
				.off_ns = options->off_ns,
				.duration_ns = (uint64_t)(options->duration_s * 1e9),
			},
		.flush_bytes = options->flush_bytes,
		.output = options->output,
		.storage_bytes_per_s = options->storage_rate ? (uint64_t)ceil(options->storage_rate * 1e6) : 0,
		.verify = options->verify,
	};
}

/* Every writer in turn, as often as asked, so that what disturbs the machine for a while disturbs them all. */
static int run_all(const struct bench_options *options, const struct bench_stream_options *stream,
		   struct bench_report_row *rows, struct bench_stream_result *results)
{
	struct diag diag = {0};

	for (uint64_t run = 0; run < options->nr_runs; run++) {
		for (size_t i = 0; i < options->writers.nr; i++) {
			const struct chosen_writer *chosen = &options->writers.items[i];
			if (rows[i].nr_results != run)
				continue; /* was refused */
			log_verbose("run %llu of %llu: %s", (unsigned long long)run + 1,
				    (unsigned long long)options->nr_runs, chosen->text);
			struct bench_stream_result *result = &results[i * options->nr_runs + run];
			int err = bench_stream_run(stream, &chosen->writer, result, &diag);
			if (err == -EOPNOTSUPP) {
				log_note("%s", diag.text);
				continue;
			}
			if (err) {
				log_error("%s", diag.text);
				return err;
			}
			rows[i].nr_results++;
		}
	}
	return 0;
}

static int bench_stream(const struct bench_options *options)
{
	struct bench_stream_options stream = make_stream_options(options);
	AUTO_FREE struct bench_stream_result *results =
		calloc(options->writers.nr * options->nr_runs, sizeof(*results));
	struct bench_report_row rows[MAX_WRITERS];
	struct diag diag = {0};
	size_t nr = 0;

	if (!results) {
		log_error("out of memory");
		return EXIT_ERROR;
	}
	if (stream.storage_bytes_per_s && storage_prepare(&diag)) {
		log_error("%s", diag.text);
		return EXIT_ERROR;
	}
	for (size_t i = 0; i < options->writers.nr; i++)
		rows[i] = (struct bench_report_row){options->writers.items[i].text, &results[i * options->nr_runs], 0};
	if (run_all(options, &stream, rows, results))
		return EXIT_ERROR;
	for (size_t i = 0; i < options->writers.nr; i++)
		if (rows[i].nr_results)
			rows[nr++] = rows[i];
	AUTO_BUF struct buf text = {0};
	if (options->json)
		bench_report_json(&stream, rows, nr, &text);
	else
		bench_report_table(&stream, rows, nr, &text);
	fputs(buf_text(&text), stdout);
	return nr && !text.failed ? 0 : EXIT_ERROR;
}

static const struct command command;

int main(int argc, char **argv)
{
	struct bench_options options = {0};
	struct diag diag = {0};
	int first;

	switch (option_parse(&command, argc, argv, &options, &first)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	if (first < argc) {
		log_error("bench/stream takes options alone, but got \"%s\"", argv[first]);
		return COMMAND_USAGE;
	}
	log_set_level(options.verbose);
	fill_defaults(&options);
	if (check_sizes(&options, &diag) || check_rest(&options, &diag)) {
		log_error("%s", diag.text);
		return COMMAND_USAGE;
	}
	return bench_stream(&options);
}

static const struct command command = {
	.name = "stream",
	.program = "bench/stream",
	.summary = "Measure how the writers keep up with a load",
	.usage = "[OPTIONS]",
	.description = "Threads fill rings in memory as the kernel fills those of events, and one reader drains them "
		       "through a writer of millrace record into a file. Prints what was made, what was dropped, the "
		       "part of the time that lies in gaps between samples with a loss (of any ring, and of one ring "
		       "on average), how long rings waited for their visit after they were half full, and the cost in "
		       "CPU time. No kernel event and no privilege is needed, except for --storage-rate.\n"
		       "\n"
		       "Examples:\n"
		       "  build/bench/stream --load 300 --burst 100/300\n"
		       "  build/bench/stream --writer serial --writer aio,blocks=8 --storage-rate 100",
	.options = bench_table,
};
