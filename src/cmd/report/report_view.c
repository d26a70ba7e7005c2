/* SPDX-License-Identifier: MIT */
/* The tables of a recording as the source of the terminal view. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/machine/machine.h"
#include "analyze/report/time_bins.h"
#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/log.h"
#include "cmd/cli/output.h"
#include "cmd/input/records.h"
#include "cmd/report/report.h"
#include "cmd/text/header_text.h"
#include "cmd/text/sample_text.h"
#include "cmd/text/thread_values.h"
#include "cmd/view/view.h"
#include "perfdata/ledger.h"
#include "read/session.h"

enum { MOST_GAPS = 1 << 16, MOST_SAMPLE_BYTES = 16 << 20 };

static volatile sig_atomic_t interrupted;

/* A recording as it was read: whole, or a part of its time. */
struct part {
	struct reading reading;
	struct ledger ledger; /* what was lost in it: the file's, or LOST records */
	bool has_ledger, wants_threads;
	struct threads threads;    /* if they are wanted */
	struct view_event *events; /* heap */
	struct tally **tallies;    /* heap; of all events */
	struct buf *names;         /* heap; of each of the events */
	size_t nr_events;
};

struct report_view {
	struct report_options *options;
	struct part *whole, *part; /* part NULL: the whole is shown */
	struct part *before;       /* the last part: the view may still look at it until the next one */
	struct view_data data;
	char note[640];
};

int report_view_wanted(const struct report_options *options, struct diag *reterr)
{
	const char *why;
	bool text = options->stdio || options->json || options->stats || options->raw_dump || options->loss ||
		    options->tasks || options->mmaps || options->header.alone || options->header.wanted ||
		    options->quiet || options->table.separator || options->table.widths || options->raw_text ||
		    options->graph.mode == GRAPH_FLAT || options->graph.mode == GRAPH_FOLDED ||
		    samples_want_parallelism(&options->samples);

	if (options->tui && samples_want_parallelism(&options->samples))
		return diag_set(reterr, -ENOTSUP, "--tui: latency and parallelism are printed as text");
	if (!options->tui && text)
		return 0;
	if (view_possible(&why))
		return 1;
	return options->tui ? diag_set(reterr, -ENOTSUP, "--tui: %s", why) : 0;
}

void report_view_prepare(struct report_options *options, bool view)
{
	options->kernel_code_fd = view ? open("/proc/kcore", O_RDONLY | O_CLOEXEC) : -1;
}

static void on_interrupt(int signal_nr)
{
	(void)signal_nr;
	interrupted = 1;
}

/* Until the old handler is set again. */
static void catch_interrupt(struct sigaction *ret_old)
{
	struct sigaction action = {.sa_handler = on_interrupt};

	interrupted = 0;
	sigaction(SIGINT, &action, ret_old);
}

static void part_free(struct part *part)
{
	if (!part)
		return;
	for (size_t i = 0; part->names && i < part->nr_events; i++)
		buf_fini(&part->names[i]);
	free(part->names);
	free(part->events);
	free(part->tallies);
	ledger_fini(&part->ledger);
	threads_fini(&part->threads);
	reading_fini(&part->reading);
	free(part);
}

/* A file without a ledger has LOST records. */
static int observe(void *ctx, const struct session_record *record)
{
	struct part *part = ctx;

	if (part->wants_threads && threads_take(&part->threads, part->reading.session, record))
		return -ENOMEM;
	if (record->view.header->type != PERF_RECORD_LOST || part->has_ledger || part->ledger.nr_entries >= MOST_GAPS ||
	    !(record->sample.present & PERF_SAMPLE_TIME))
		return 0;
	return ledger_add(&part->ledger,
			  &(struct ledger_entry){.from_ns = record->sample.time, .to_ns = record->sample.time});
}

/* Times without records that the file tells of; what only slowed the recording down is none. */
static void take_ledger(struct part *part)
{
	struct span payload;
	struct ledger all = {0};

	part->has_ledger =
		session_feature(part->reading.session, FEATURE_LEDGER, &payload) && ledger_decode(payload, &all) == 0;
	for (size_t i = 0; i < all.nr_entries && i < MOST_GAPS; i++)
		if (ledger_cause_loses(all.entries[i].cause))
			ledger_add(&part->ledger, &all.entries[i]);
	ledger_fini(&all);
}

static int describe_events(struct part *part, const struct report_options *options)
{
	struct samples *samples = &part->reading.samples;
	size_t nr;
	const struct event_desc *events = session_events(part->reading.session, &nr);

	part->events = calloc(nr + 1, sizeof(*part->events));
	part->tallies = calloc(nr + 1, sizeof(struct tally *));
	part->names = calloc(nr + 1, sizeof(*part->names));
	AUTO_FREE struct report_group *groups = NULL;
	size_t nr_groups;
	if (!part->events || !part->tallies || !part->names ||
	    report_groups_find(options, part->reading.session, &groups, &nr_groups))
		return -ENOMEM;
	for (size_t number = 0; number < nr_groups; number++) {
		const struct report_group group = groups[number];
		const size_t i = group.first;
		struct view_event *event = &part->events[part->nr_events];
		bool any = false;
		for (size_t at = i; at < i + group.nr && at < samples->nr; at++) {
			part->tallies[at] = samples->events[at].tally.nr ? &samples->events[at].tally : NULL;
			any |= part->tallies[at] != NULL;
		}
		if (any) {
			struct buf *name = &part->names[part->nr_events++];
			if (options->table.title)
				buf_put_text(name, options->table.title);
			else
				report_group_put_name(&group, events, name);
			*event = (struct view_event){.name = buf_text(name),
						     .tallies = part->tallies + i,
						     .nr = (unsigned)group.nr,
						     .chains = events[i].attr.sample_type & PERF_SAMPLE_CALLCHAIN};
		}
	}
	return 0;
}

/* Takes the session. What was read before an error is shown; *ret is only NULL without memory. */
static int part_read(struct report_view *view, struct session *session, struct part **ret, struct diag *reterr)
{
	struct part *part = calloc(1, sizeof(*part));
	struct samples_options samples = view->options->samples;

	if (!part) {
		session_close(session);
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	samples.addresses = samples.times = true;
	part->reading = (struct reading){.session = session, .observe = observe, .ctx = part, .stop = &interrupted};
	part->wants_threads = view->options->threads;
	take_ledger(part);
	int err = reading_run(&part->reading, &samples, &view->options->input.machine, reterr);
	if (describe_events(part, view->options)) {
		part_free(part);
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	*ret = part;
	return err;
}

static void show_part(struct report_view *view, struct part *part)
{
	const struct report_options *options = view->options;
	struct samples *samples = &part->reading.samples;
	struct column_list columns;

	column_choice_shown(&options->columns, samples->children, &columns);
	view->data = (struct view_data){
		.title = input_path(&options->input),
		.events = part->events,
		.nr_events = part->nr_events,
		.stacks = samples->stacks,
		.count = samples_count_options(samples),
		.nr_columns = columns.nr,
		.levels = options->table.levels,
		.nr_levels = options->table.nr_levels,
		.self_named = samples->children && !options->columns.fields.nr,
		.nanoseconds = options->table.nanoseconds,
		.addresses = true,
		.relative = options->table.relative,
		.percent_limit = options->table.percent_limit,
		.graph_percent = options->graph.min_percent,
		.debug_info = machine_debug_info(part->reading.machine),
		.symfs = options->input.machine.symfs,
		.code_syntax = options->code_syntax,
		.kernel_code_fd = options->kernel_code_fd,
		.times = view->data.times,
		.gaps = view->data.gaps,
		.nr_gaps = view->data.nr_gaps,
		.lost_samples = part->reading.losses.lost_samples,
	};
	view->data.count.uses = options->graph.mode != GRAPH_NONE;
	memcpy(view->data.columns, columns.columns, sizeof(view->data.columns));
	for (unsigned i = 0; i < HIST_FIELDS; i++)
		view->data.field_titles[i] = options->columns.trace_fields[i].name;
}

/* Of all times, or of these. */
static int open_again(struct report_view *view, const struct view_times *times, struct session **ret,
		      struct diag *reterr)
{
	enum session_flags flags =
		(view->options->input.force ? SESSION_FORCE : 0) | (view->options->samples.wall ? SESSION_LATER : 0);
	int err = session_open(input_path(&view->options->input), flags, ret, reterr);

	if (!err && times)
		err = session_limit_time(*ret, &(struct session_times){times->first_ns, times->last_ns}, 1);
	return err ? diag_set(reterr, err, "the recording cannot be read again: %s", reterr->text) : 0;
}

static int cut(void *ctx, const struct view_times *times, struct diag *reterr)
{
	struct report_view *view = ctx;
	struct session *session;
	struct part *part = NULL;
	struct sigaction old;

	if (times) {
		int err = open_again(view, times, &session, reterr);
		catch_interrupt(&old);
		if (!err)
			err = part_read(view, session, &part, reterr);
		sigaction(SIGINT, &old, NULL);
		if (interrupted) {
			part_free(part);
			return diag_set(reterr, -EINTR, "Interrupted: what was shown before is still there");
		}
		if (!part)
			return err; /* else what was read before the error is shown */
	}
	part_free(view->before);
	view->before = view->part;
	view->part = part;
	show_part(view, part ? part : view->whole);
	return 0;
}

static bool is_wanted(const struct view_samples *wanted, struct machine *machine, const struct sample *sample)
{
	struct task *task = machine_task(machine, sample->pid, sample->tid);
	struct location at;

	if (!task)
		return false;
	if ((wanted->tid != VIEW_ANY_TID && wanted->tid != sample->tid) ||
	    (wanted->comm && strcmp(wanted->comm, task->comm->text) != 0))
		return false;
	if (!wanted->dso && !wanted->symbol)
		return true;
	lookup_set_time(machine_lookup(machine), sample);
	machine_resolve(machine, task, sample->cpumode, sample->ip, &at);
	if (wanted->symbol && !(at.symbol && strcmp(wanted->symbol, at.symbol->name) == 0))
		return false;
	return !wanted->dso || (at.dso && strcmp(wanted->dso, dso_long_name(at.dso)) == 0);
}

/* What is read for a part of the samples. */
struct sample_reader {
	struct session *session;
	struct machine *machine;
	struct sample_text *text;
};

static void reader_fini(struct sample_reader *reader)
{
	sample_text_free(reader->text);
	machine_free(reader->machine);
	session_close(reader->session);
}

static int reader_take(struct sample_reader *reader, const struct view_samples *wanted,
		       const struct session_record *record, struct output *out, struct diag *reterr)
{
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return machine_process(reader->machine, record);
	return is_wanted(wanted, reader->machine, &record->sample)
		       ? sample_text_print(reader->text, record, out, reterr)
		       : 0;
}

/* Until the end, Ctrl-C, or as much as one can look at. 0, or -errno and why. */
static int reader_run(struct sample_reader *reader, const struct view_samples *wanted, struct output *out,
		      struct diag *reterr)
{
	struct input_records records __attribute__((cleanup(input_records_close))) = {0};
	const struct session_record *record;
	int err = sample_text_check(reader->text, reterr), got = 1;

	if (!err && input_records_open(&records, reader->session, 1))
		err = diag_set(reterr, -ENOMEM, "out of memory");
	session_stop_at(reader->session, &interrupted);
	while (!err && !interrupted && out->len < MOST_SAMPLE_BYTES && !output_is_over(out)) {
		got = input_records_next(&records, &record, reterr);
		if (got <= 0)
			break;
		err = reader_take(reader, wanted, record, out, reterr);
	}
	return err ? err : got < 0 ? got : out->err;
}

static void put_title(const struct report_view *view, const struct view_samples *wanted, bool cut, struct buf *out)
{
	buf_put_text(out, "Samples of ");
	escape_put_text(out, input_path(&view->options->input));
	if (wanted->comm)
		buf_put_text(out, ", command "), escape_put_text(out, wanted->comm);
	if (wanted->tid != VIEW_ANY_TID)
		buf_printf(out, ", thread %u", wanted->tid);
	if (wanted->dso)
		buf_put_text(out, ", in "), escape_put_text(out, wanted->dso);
	if (wanted->symbol)
		buf_put_text(out, ", function "), escape_put_text(out, wanted->symbol);
	if (cut)
		buf_put_text(out, ", of the time that is cut out");
}

static int show_samples(void *ctx, const struct view_samples *wanted, const struct view_times *times, struct buf *title,
			struct buf *out, struct diag *reterr)
{
	struct report_view *view = ctx;
	struct sample_reader reader = {0};
	struct sample_text_options options = {.filter = &view->options->samples.filter};
	struct output lines = {.fd = OUTPUT_MEMORY};
	struct sigaction old;
	int err = open_again(view, times, &reader.session, reterr);

	catch_interrupt(&old);
	sample_fields_init(&options.fields);
	if (!err && machine_new(&view->options->input.machine, reader.session, &reader.machine))
		err = -ENOMEM;
	if (!err)
		reader.text = sample_text_new(&options, reader.session, reader.machine);
	err = err ? err : reader.text ? reader_run(&reader, wanted, &lines, reterr) : -ENOMEM;
	sigaction(SIGINT, &old, NULL);
	put_title(view, wanted, times != NULL, title);
	if (interrupted || lines.len >= MOST_SAMPLE_BYTES)
		buf_put_text(title, ": the first ones");
	buf_put(out, lines.data, lines.len);
	reader_fini(&reader);
	output_close(&lines);
	return err == -ENOMEM ? diag_set(reterr, err, "out of memory") : err;
}

/* And, with --threads, what each thread had counted. */
static void put_header(void *ctx, struct buf *out)
{
	const struct report_view *view = ctx;
	const struct report_options *options = view->options;
	char *text = NULL;
	size_t len;
	FILE *to = text_stream_open(&text, &len);

	if (!to)
		return;
	header_print(to, view->whole->reading.session, options->header.full);
	if (options->threads)
		threads_print(&view->whole->threads, options->raw_threads ? THREADS_RAW : THREADS_TABLE, to);
	if (!fclose(to))
		buf_put(out, text, len);
	free(text);
}

static const struct view_source_ops file_ops = {.cut = cut, .samples = show_samples, .header = put_header};
static const struct view_source_ops pipe_ops = {.header = put_header};

/* Ctrl-C ends the reading, and what was read is shown. */
static int read_whole(struct report_view *view, struct session *session, struct diag *reterr)
{
	struct sigaction old;

	catch_interrupt(&old);
	int err = part_read(view, session, &view->whole, reterr);
	sigaction(SIGINT, &old, NULL);
	if (!interrupted || !view->whole)
		return err;
	snprintf(view->note, sizeof(view->note), "Interrupted: only the first %" PRIu64 " records are shown",
		 view->whole->reading.nr_records);
	return 0;
}

int report_view_run(struct report_options *options, struct session **session, char **ret_path, struct diag *reterr)
{
	struct report_view view = {.options = options};
	const struct view_options view_options = {.colourless = !colour_wanted(options->colour, true)};
	bool pipe = session_info(*session)->pipe;
	struct view_result result = {.end = VIEW_QUIT};
	struct diag diag = {0}, read_diag = {0};
	struct hint_list hints = {.nr = 0};
	int err = read_whole(&view, take_ptr(*session), &read_diag);

	if (!view.whole)
		return diag_set(reterr, err, "%s", read_diag.text);
	if ((options->samples.filter.cpus || options->samples.socket.set) &&
	    sample_filter_need_cpus(view.whole->reading.session, reterr)) {
		part_free(view.whole);
		return -EINVAL;
	}
	if (err)
		snprintf(view.note, sizeof(view.note), "Not complete: %s", read_diag.text);
	view.data.times = view.whole->reading.samples.times;
	view.data.gaps = view.whole->ledger.entries;
	view.data.nr_gaps = view.whole->ledger.nr_entries;
	show_part(&view, view.whole);
	view.data.note = view.note[0] ? view.note : NULL;
	struct view_source source = {.ops = pipe ? &pipe_ops : &file_ops, .ctx = &view, .data = &view.data};
	int shown = view_run(&source, &view_options, &result, &diag);
	if (!shown && result.end == VIEW_OTHER_FILE)
		*ret_path = strdup(result.path);
	input_report_losses(&view.whole->reading.losses);
	input_report_downloads(view.whole->reading.machine);
	input_report_late(view.whole->reading.session);
	if (!hints_make(&view.whole->reading.samples, &hints))
		hints_print(&hints);
	hints_fini(&hints);
	part_free(view.before);
	part_free(view.part);
	part_free(view.whole);
	if (shown)
		return diag_set(reterr, shown, "%s", diag.text);
	return err ? diag_set(reterr, err, "%s", read_diag.text) : 0;
}
