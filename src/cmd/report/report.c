/* SPDX-License-Identifier: MIT */
/* millrace report: where the samples of a recording fell, as a table. */
#include "cmd/report/report.h"
#include "cmd/report/report_wall.h"
#include "cmd/text/thread_values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/log.h"
#include "cmd/cli/command.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/input.h"
#include "cmd/input/records.h"
#include "cmd/report/report_samples.h"
#include "cmd/text/dump.h"
#include "cmd/text/header_text.h"
#include "cmd/view/view.h"
#include "read/group_split.h"
#include "read/session.h"
#include "sysinfo/heap.h"

/* Of one event. */
struct event_stats {
	uint64_t samples, lost_samples;
};

struct stats {
	uint64_t by_type[RECORD_USER_LAST + 1], total;
	struct event_stats *events; /* heap; by index */
	size_t nr_events;
	struct group_split split;
};

/* NULL: out of memory. */
static struct event_stats *stats_event(struct stats *stats, const struct session *session,
				       const struct event_desc *event)
{
	size_t nr, at = (size_t)(event - session_events(session, &nr));

	if (at >= stats->nr_events) {
		struct event_stats *events = reallocarray(stats->events, at + 1, sizeof(*events));
		if (!events)
			return NULL;
		memset(events + stats->nr_events, 0, (at + 1 - stats->nr_events) * sizeof(*events));
		stats->events = events;
		stats->nr_events = at + 1;
	}
	return &stats->events[at];
}

static int count_sample(struct stats *stats, const struct session *session, const struct event_desc *of)
{
	struct event_stats *event = stats_event(stats, session, of);

	if (!event)
		return -ENOMEM;
	event->samples++;
	return 0;
}

/* A sample of a group counts for each member that counted, as report and script show it. */
static int count_samples(struct stats *stats, struct session *session, const struct session_record *record)
{
	const struct session_record *part;
	int split = group_split_begin(&stats->split, session, record);

	if (split <= 0)
		return split ? split : count_sample(stats, session, record->event);
	while ((part = group_split_next(&stats->split))) {
		int err = count_sample(stats, session, part->event);
		if (err)
			return err;
	}
	return 0;
}

static int stats_take(struct stats *stats, struct session *session, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	bool lost = header->type == PERF_RECORD_LOST_SAMPLES;

	if (record->outside_times)
		return count_samples(stats, session, record); /* none, but those behind it count from its values */
	stats->total++;
	if (header->type <= RECORD_USER_LAST)
		stats->by_type[header->type]++;
	if (!record->event || (header->type != PERF_RECORD_SAMPLE && !lost))
		return 0;
	if (!lost)
		return count_samples(stats, session, record);
	struct event_stats *event = stats_event(stats, session, record->event);
	if (!event)
		return -ENOMEM;
	if (header->size >= sizeof(*header) + sizeof(uint64_t))
		event->lost_samples += *(const uint64_t *)(header + 1);
	return 0;
}

static void count_compressed(struct stats *stats, const struct session *session, enum user_record_type type)
{
	stats->by_type[type] = session_nr_compressed(session, type);
	stats->total += stats->by_type[type];
}

static void print_line(FILE *to, const char *name, uint64_t nr)
{
	fprintf(to, "%16s events: %10" PRIu64, name, nr);
}

/* lost: with the samples that each event lost; perf leaves those out behind a dump. */
static void print_all(FILE *to, const struct stats *stats, const struct session *session, bool lost)
{
	size_t nr_events;
	const struct event_desc *events = session_events(session, &nr_events);

	fputs("\nAggregated stats:\n", to);
	print_line(to, "TOTAL", stats->total);
	fputc('\n', to);
	for (uint32_t type = 1; type <= RECORD_USER_LAST; type++) {
		if (!stats->by_type[type])
			continue;
		print_line(to, record_type_name(type), stats->by_type[type]);
		fprintf(to, "  (%4.1f%%)\n", 100.0 * (double)stats->by_type[type] / (double)stats->total);
	}
	for (size_t i = 0; i < nr_events && i < stats->nr_events; i++) {
		const struct event_stats *event = &stats->events[i];
		AUTO_ESCAPED name = escaped_text(events[i].name);
		if (event->samples || (lost && event->lost_samples))
			fprintf(to, "%s stats:\n", name.text);
		if (event->samples)
			print_line(to, "SAMPLE", event->samples), fputc('\n', to);
		if (lost && event->lost_samples)
			print_line(to, "LOST_SAMPLES", event->lost_samples), fputc('\n', to);
	}
}

/*
 * Reads the session, opened with SESSION_FILE_ORDER, to its end and prints. 0, or the error that ended the reading.
 */
static int stats_print(FILE *to, struct session *session, bool lost, struct diag *reterr)
{
	struct stats stats = {0};
	struct session_record record;
	struct progress progress;
	int got;

	input_progress_start(&progress, session, "reading");
	while ((got = session_next(session, &record, reterr)) > 0) {
		progress_step(&progress, 1, record.view.offset);
		if (stats_take(&stats, session, &record)) {
			got = diag_set(reterr, -ENOMEM, "out of memory");
			break;
		}
	}
	progress_end(&progress);
	count_compressed(&stats, session, RECORD_COMPRESSED);
	count_compressed(&stats, session, RECORD_COMPRESSED2);
	print_all(to, &stats, session, lost);
	free(stats.events);
	group_split_fini(&stats.split);
	return got;
}

/* millrace report: where the samples of a recording fell, as a table. */
struct report {
	struct report_options options;
	struct session *session;
	struct hint_list hints;
	struct reading reading;
	struct threads threads;
};

/* A filter that leaves one name makes its column needless: the name goes on top. */
static void hide_columns(struct report *report)
{
	const struct samples_options *samples = &report->options.samples;
	const char *const lists[HIST_KEYS] = {
		[HIST_COMM] = samples->filter.comms,
		[HIST_DSO] = samples->filter.dsos,
		[HIST_SYM] = samples->filter.symbols,
	};
	static const char *const names[HIST_KEYS] = {[HIST_COMM] = "comm", [HIST_DSO] = "dso", [HIST_SYM] = "symbol"};
	bool *hidden = report->options.table.hidden;
	unsigned shown = 0;

	for (unsigned i = 0; i < samples->hist.nr_keys; i++) {
		enum hist_column key = samples->hist.keys[i];
		hidden[key] = lists[key] && lists[key][0] && !strchr(lists[key], ',');
		AUTO_ESCAPED only = escaped_text(hidden[key] ? lists[key] : "");
		if (hidden[key] && !report->options.quiet)
			printf("# %s: %s\n", names[key], only.text);
		shown += !hidden[key];
	}
	if (!shown || report->options.hierarchy)
		memset(hidden, 0, HIST_KEYS * sizeof(*hidden));
}

static bool wants_tasks(const struct report *report)
{
	return report->options.tasks || report->options.mmaps;
}

static void print_front(struct report *report, struct session *session)
{
	const struct report_options *options = &report->options;

	if (options->json)
		return;
	if (options->header.wanted || options->header.alone)
		header_print(stdout, session, options->header.full);
	else if (!options->quiet && !wants_tasks(report))
		fputs("# To display the perf.data header info, please use --header/--header-only "
		      "options.\n#\n",
		      stdout);
	if (!options->header.alone && !options->raw_dump && !wants_tasks(report))
		hide_columns(report);
}

static bool begin(void *ctx)
{
	struct report *report = ctx;

	print_front(report, report->reading.session);
	return !report->options.header.alone;
}

static int observe(void *ctx, const struct session_record *record)
{
	struct report *report = ctx;

	return threads_take(&report->threads, report->reading.session, record);
}

/* Tables of what was read before an error are printed, too; the first error is the one that is reported. */
static int print_tables(struct report *report, struct diag *reterr)
{
	struct reading *reading = &report->reading;
	const struct report_tables tables = {&report->options, reading->session, &reading->samples,
					     reading->rows ? LOST_UNKNOWN : reading->losses.lost_samples,
					     &report->hints};

	if (wants_tasks(report))
		return report_tasks_print(stdout, reading->machine, report->options.mmaps)
			       ? diag_set(reterr, -ENOMEM, "out of memory")
			       : 0;
	if (reading->samples.wall && wall_unsampled_ns(reading->samples.wall))
		log_note("--wall: %.3f ms on the CPU are in no row: their threads had no later sample of it",
			 (double)wall_unsampled_ns(reading->samples.wall) / 1e6);
	int err = report_tables_print(&tables, stdout, reterr);
	if (!err && report->options.threads && !report->options.json)
		threads_print(&report->threads, report->options.raw_threads ? THREADS_RAW : THREADS_TABLE, stdout);
	return err;
}

static int run_table(struct report *report, struct diag *reterr)
{
	struct reading *reading = &report->reading;

	reading->session = take_ptr(report->session);
	reading->tasks_only = wants_tasks(report);
	reading->begin = begin;
	reading->ctx = report;
	reading->observe = report->options.threads ? observe : NULL;
	int err = reading_run(reading, &report->options.samples, &report->options.input.machine, reterr);
	if (!report->options.header.alone && reading->machine) {
		int table_err = print_tables(report, err ? NULL : reterr);
		err = err ? err : table_err;
	}
	input_report_losses(&reading->losses);
	input_report_downloads(reading->machine);
	input_report_late(reading->session);
	hints_print(&report->hints);
	return err;
}

/* What a service did, by a store. */
static int run_store(struct report *report, struct diag *reterr)
{
	const struct report_options *options = &report->options;
	const struct store_input *from = &options->from;
	struct reading *reading = &report->reading;
	int err = reading_run_store(reading, &options->samples, from, reterr);

	if (err)
		return err;
	if (!options->json && !options->quiet) {
		AUTO_ESCAPED service = escaped_text(from->store.service);
		AUTO_ESCAPED url = escaped_text(from->store.url);
		printf("# Service: %s, %" PRIu32 " host%s, the last %" PRIu32 " s, by %s\n#\n", service.text,
		       reading->nr_hosts, reading->nr_hosts == 1 ? "" : "s", store_input_since_s(from), url.text);
	}
	if (!options->json)
		hide_columns(report);
	return print_tables(report, reterr);
}

static int report_status(int err, const struct diag *diag)
{
	int status = 0;

	if (err) {
		log_error("%s", diag->text);
		status = INPUT_EXIT_ERROR;
	}
	return standard_output_flush() ? INPUT_EXIT_ERROR : status;
}

/* Tables want records sorted by time; the others want all there are. */
static enum session_flags session_order(const struct report_options *options)
{
	if (options->header.alone)
		return 0;
	if (options->raw_dump)
		return SESSION_ALL;
	/* What ends behind --time may have begun in it. */
	return options->stats || options->loss ? SESSION_FILE_ORDER : options->samples.wall ? SESSION_LATER : 0;
}

/* The records, and the counts of their types, for which a file is read again; what comes through a pipe can be once. */
static int run_dump(struct report *report, struct diag *reterr)
{
	const struct report_options *options = &report->options;
	bool again = session_info(report->session)->can_reopen;

	print_front(report, report->session);
	int err = dump_session(report->session, &options->input.machine, stdout, reterr);
	if (err || !again)
		return err;
	session_close(report->session);
	report->session = NULL;
	if (input_open(&options->input, SESSION_FILE_ORDER, &report->session))
		return diag_set(reterr, -EIO, "%s cannot be read again", input_path(&options->input));
	return stats_print(stdout, report->session, false, reterr);
}

static int run(struct report *report, struct diag *reterr)
{
	const struct report_options *options = &report->options;

	if (options->header.alone)
		return run_table(report, reterr);
	if (options->loss) {
		const struct report_loss_options loss = {.json = options->json, .headless = options->quiet};
		return report_loss_print(&loss, report->session, stdout, reterr);
	}
	if (options->raw_dump)
		return run_dump(report, reterr);
	if (!options->stats)
		return run_table(report, reterr);
	if (options->header.wanted)
		header_print(stdout, report->session, options->header.full);
	return stats_print(stdout, report->session, true, reterr);
}

/* The options to the recording. The exit status: what does not fit is said. */
static int fit(struct report *report)
{
	struct diag diag = {0};
	int err = report_options_fit(&report->options, report->session, &diag);

	if (err)
		log_error("%s", diag.text);
	return err == -EINVAL ? COMMAND_USAGE : err ? INPUT_EXIT_ERROR : 0;
}

static int print_store(struct report *report)
{
	struct diag diag = {0};
	int err = report_options_fit_store(&report->options, &diag);

	if (err) {
		log_error("%s", diag.text);
		return COMMAND_USAGE;
	}
	pager_open(&report->options.pager);
	input_enter_sandbox(&report->options.input, NULL, SANDBOX_NETWORK);
	return report_status(run_store(report, &diag), &diag);
}

static int print(struct report *report)
{
	struct diag diag = {0};
	int status = fit(report);

	return status ? status : report_status(run(report, &diag), &diag);
}

/* The exit status. */
static int write_html(struct report *report)
{
	struct diag diag = {0};

	if (report->options.branches == BRANCHES_AUTO)
		report->options.branches = BRANCHES_NO; /* the page is about code */
	int status = fit(report);
	return status ? status : report_status(report_html_run(&report->options, &report->session, &diag), &diag);
}

/* In the view, where one may go on to another recording. The exit status. */
static int show_view(struct report *report)
{
	const struct report_options given = report->options;
	AUTO_FREE char *path = NULL;
	struct diag diag = {0};
	char *next;
	int err, status;

	do {
		next = NULL;
		report->options = given;
		if (given.branches == BRANCHES_AUTO)
			report->options.branches = BRANCHES_NO; /* the view is about code */
		if (path)
			report->options.input.path = path;
		if (path && input_open(&report->options.input, 0, &report->session))
			return INPUT_EXIT_ERROR;
		status = fit(report);
		if (status)
			return status;
		err = report_view_run(&report->options, &report->session, &next, &diag);
		free(path);
		path = next;
	} while (!err && next);
	return report_status(err, &diag);
}

static int run_recording(struct report *report)
{
	const char *html = report->options.html;
	struct diag diag = {0};
	int view = html ? 0 : report_view_wanted(&report->options, &diag);

	if (view < 0)
		log_error("%s", diag.text);
	if (view <= 0 && !html)
		pager_open(&report->options.pager);
	report_view_prepare(&report->options, view > 0);
	heap_use_huge_pages();
	input_enter_sandbox(&report->options.input, view > 0 ? VIEW_OUTPUT : html, 0);
	if (view < 0 || input_open(&report->options.input, session_order(&report->options), &report->session))
		return INPUT_EXIT_ERROR;
	return view ? show_view(report) : html ? write_html(report) : print(report);
}

static int check_json(const struct report_options *options, struct diag *reterr)
{
	if (options->json &&
	    (options->stats || options->header.alone || options->tasks || options->mmaps || options->raw_dump))
		return diag_set(reterr, -EINVAL,
				"--json prints tables, or what was lost: leave out --stats, --header-only, --tasks, "
				"--mmaps and -D");
	return 0;
}

static int report_run(int argc, char **argv)
{
	AUTO_FREE struct report *report = calloc(1, sizeof(*report)); /* too large for a stack of `ulimit -s 64` */
	struct diag diag = {0};
	AUTO_CONFIGURATION struct configuration config = {0};

	if (!report) {
		log_error("out of memory");
		return INPUT_EXIT_ERROR;
	}
	report_options_init(&report->options);
	switch (configuration_parse(&command_report, argc, argv, &report->options, &config)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	if (config.given.first < argc) {
		log_error("report takes no argument, but got \"%s\"; a file is given with -i",
			  argv[config.given.first]);
		return COMMAND_USAGE;
	}
	report_options_complete(&report->options);
	escape_set_raw(report->options.raw_text && !report->options.json);
	log_set_level(report->options.quiet ? LOG_ERRORS : report->options.verbose);
	int status = COMMAND_USAGE;
	if (check_json(&report->options, &diag) || sample_filter_complete(&report->options.samples.filter, &diag) ||
	    store_input_complete(&report->options.from, &report->options.input, &diag))
		log_error("%s", diag.text);
	else
		status = report->options.from.store.url ? print_store(report) : run_recording(report);
	hints_fini(&report->hints);
	threads_fini(&report->threads);
	reading_fini(&report->reading);
	sample_filter_fini(&report->options.samples.filter);
	session_close(report->session);
	return status;
}

const struct command command_report = {
	.name = "report",
	.summary = "Print a table of where the samples of a recording fell",
	.usage = "[OPTIONS]\n--from=URL --service=NAME [OPTIONS]",
	.description = "Reads a recording and prints a table for each event: which share of the samples fell into "
		       "which command, object and function, the largest first, in the layout of `perf report --stdio`. "
		       "With call chains in the recording the first column, Children, also counts what a function "
		       "called; Self does not.\n"
		       "\n"
		       "Examples:\n"
		       "  millrace report\n"
		       "  millrace report --sort dso,sym --percent-limit 1\n"
		       "  millrace report --stats -i other.data\n"
		       "  millrace report --from=clickhouse://store --service=web --since=1h -s host,sym",
	.options = report_options_table,
	.run = report_run,
};
