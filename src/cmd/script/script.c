/* SPDX-License-Identifier: MIT */
/* millrace script: every sample of a recording as text, in the order of time. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyze/machine/machine.h"
#include "analyze/machine/stacks.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/span.h"
#include "cmd/cli/command.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/input/input.h"
#include "cmd/input/records.h"
#include "cmd/input/sample_filter.h"
#include "cmd/report/report_samples.h"
#include "cmd/script/script_workers.h"
#include "cmd/script/stat_lines.h"
#include "cmd/text/header_text.h"
#include "cmd/text/sample_text.h"
#include "read/session.h"

/* A semicolon would part the name. */
static void put_name(struct output *out, const char *name)
{
	AUTO_ESCAPED shown = escaped_text(name);

	for (const char *at = shown.text; *at; at++)
		output_char(out, *at == ';' ? ':' : *at);
}

/* What has no name is its object's. */
static void put_frame(struct output *out, const struct symbol *symbol, const struct dso *dso)
{
	output_char(out, ';');
	if (symbol) {
		put_name(out, symbol->name);
		return;
	}
	const char *name = dso ? dso_short_name(dso) : "unknown";
	bool bare = *name != '[';
	if (bare)
		output_char(out, '[');
	put_name(out, name);
	if (bare)
		output_char(out, ']');
}

static void put_cell(const struct samples *samples, const struct tally_cell *cell, struct output *out)
{
	uint32_t links[CHAIN_MOST_FRAMES];
	unsigned nr = 0;

	for (uint32_t chain = cell->chain; chain && nr < CHAIN_MOST_FRAMES;
	     chain = stacks_outer(samples->stacks, chain))
		links[nr++] = chain;
	put_name(out, cell->place.comm->text);
	if (!nr)
		put_frame(out, cell->place.symbol, cell->place.dso);
	while (nr--) {
		const struct location *at = stacks_location(samples->stacks, stacks_frame(samples->stacks, links[nr]));
		put_frame(out, at->symbol, at->dso);
	}
	output_char(out, ' ');
	output_decimal(out, cell->amount.nr_samples, (struct output_pad){0});
	output_char(out, '\n');
}

/* Of the first event: all samples that are not filtered, in the order in which their chains first came. */
static void folded_print(const struct samples *samples, const struct session *session, struct output *out)
{
	size_t nr_events, first = 0;
	const struct event_desc *events = session_events(session, &nr_events);

	/* A dummy has no samples. */
	while (first < nr_events && events[first].attr.type == PERF_TYPE_SOFTWARE &&
	       events[first].attr.config == PERF_COUNT_SW_DUMMY)
		first++;
	const struct tally *tally = first < samples->nr ? &samples->events[first].tally : NULL;

	for (uint32_t i = 0; tally && i < tally->nr && !output_is_over(out); i++) {
		struct tally_cell cell = tally_cell(tally, i);
		if (!cell.place.filtered)
			put_cell(samples, &cell, out);
	}
}

struct script_show {
	bool tasks, mmaps, switches, namespaces, lost, bpf, cgroups, text_pokes, rounds;
};

/* Their rows in the table of a command whose struct `type` has a struct script_show `field`. */
#define SCRIPT_SHOW_OPTION(option, what, type, member)                                                                 \
	{                                                                                                              \
		.name = option, .help = what, .set = option_set_flag, .offset = offsetof(type, member)                 \
	}
#define SCRIPT_SHOW_OPTIONS(type, field, heading)                                                                      \
	{.name = "show-task-events",                                                                                   \
	 .help = "Print also the records of names, forks and exits",                                                   \
	 .set = option_set_flag,                                                                                       \
	 .offset = offsetof(type, field.tasks),                                                                        \
	 .group = heading},                                                                                            \
		SCRIPT_SHOW_OPTION("show-mmap-events", "Print also the records of maps", type, field.mmaps),           \
		SCRIPT_SHOW_OPTION("show-switch-events", "Print also the records of context switches", type,           \
				   field.switches),                                                                    \
		SCRIPT_SHOW_OPTION("show-namespace-events", "Print also the records of namespaces", type,              \
				   field.namespaces),                                                                  \
		SCRIPT_SHOW_OPTION("show-lost-events", "Print also the records of lost records", type, field.lost),    \
		SCRIPT_SHOW_OPTION("show-bpf-events", "Print also the records of BPF programs and their symbols",      \
				   type, field.bpf),                                                                   \
		SCRIPT_SHOW_OPTION("show-cgroup-events", "Print also the records of control groups", type,             \
				   field.cgroups),                                                                     \
		SCRIPT_SHOW_OPTION("show-text-poke-events", "Print also the records of kernel code that was changed",  \
				   type, field.text_pokes),                                                            \
		SCRIPT_SHOW_OPTION("show-round-events",                                                                \
				   "Print also the marks that end a round, all in the order of the file", type,        \
				   field.rounds)

enum whose {
	OF_SAMPLE,   /* of its sample_id trailer */
	OF_BODY,     /* it begins with pid and tid */
	OF_RELATION, /* it begins with pid, ppid, tid */
};

/* perf_event_open(2); FINISHED_ROUND has no task. */
static const struct row {
	uint32_t type;
	enum whose whose;
	size_t shown; /* offset of its flag in struct script_show */
} rows[] = {
	{PERF_RECORD_COMM, OF_BODY, offsetof(struct script_show, tasks)},
	{PERF_RECORD_FORK, OF_RELATION, offsetof(struct script_show, tasks)},
	{PERF_RECORD_EXIT, OF_RELATION, offsetof(struct script_show, tasks)},
	{PERF_RECORD_MMAP, OF_BODY, offsetof(struct script_show, mmaps)},
	{PERF_RECORD_MMAP2, OF_BODY, offsetof(struct script_show, mmaps)},
	{PERF_RECORD_SWITCH, OF_SAMPLE, offsetof(struct script_show, switches)},
	{PERF_RECORD_SWITCH_CPU_WIDE, OF_SAMPLE, offsetof(struct script_show, switches)},
	{PERF_RECORD_NAMESPACES, OF_BODY, offsetof(struct script_show, namespaces)},
	{PERF_RECORD_LOST, OF_SAMPLE, offsetof(struct script_show, lost)},
	{PERF_RECORD_KSYMBOL, OF_SAMPLE, offsetof(struct script_show, bpf)},
	{PERF_RECORD_BPF_EVENT, OF_SAMPLE, offsetof(struct script_show, bpf)},
	{PERF_RECORD_CGROUP, OF_SAMPLE, offsetof(struct script_show, cgroups)},
	{PERF_RECORD_TEXT_POKE, OF_SAMPLE, offsetof(struct script_show, text_pokes)},
	{RECORD_FINISHED_ROUND, OF_SAMPLE, offsetof(struct script_show, rounds)},
};

static const struct row *row_of(uint32_t type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == type)
			return &rows[i];
	return NULL;
}

/* Is a record of that type printed? */
static bool script_show_has(const struct script_show *show, uint32_t type)
{
	const struct row *row = row_of(type);

	return row && *(const bool *)((const char *)show + row->shown);
}

static bool script_show_any(const struct script_show *show)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (script_show_has(show, rows[i].type))
			return true;
	return false;
}

/* Whose record it is, once the machine has processed it. NULL: out of memory. */
static struct task *script_show_task(struct machine *machine, const struct session_record *record)
{
	const struct perf_event_header *header = record->view.header;
	const struct row *row = row_of(header->type);
	struct cursor at = cursor_over((struct span){header + 1, header->size - sizeof(*header)});
	uint32_t pid = record->sample.pid, tid = record->sample.tid;

	if (row && row->whose != OF_SAMPLE) {
		pid = cursor_u32(&at);
		if (row->whose == OF_RELATION)
			cursor_u32(&at);
		tid = cursor_u32(&at);
	}
	return machine_task(machine, pid, tid);
}

/* millrace script: every sample of a recording as text, in the order of time. */
struct script_options {
	struct input_options input;
	struct sample_filter filter;
	struct sample_text_options text;
	struct script_show show;
	struct option_limit max_stack;
	struct header_options header;
	struct pager_options pager;
	bool folded, json, raw_text;
	bool nanoseconds, since_first, since_last;
	int verbose;
};

static int set_fields(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	return sample_fields_parse(arg, value, reterr);
}

static const struct option script_table[] = {
	INPUT_OPTIONS(struct script_options, input),
	SAMPLE_FILTER_OPTIONS(struct script_options, filter, "Filters", 'c', 'C'),
	SAMPLE_FILTER_DSOS(0, struct script_options, filter),
	EVENT_SWITCH_OPTIONS(struct script_options, filter),
	{.letter = 'F',
	 .name = "fields",
	 .arg = "FIELD,...",
	 .values = "comm tid pid time cpu event trace ip sym symoff dso addr period iregs uregs misc srcline weight "
		   "ins_lat phys_addr data_page_size code_page_size cgroup",
	 .help = "Print these fields: comm, tid, pid, time, cpu, event, trace, ip, sym, symoff, dso, addr, period, "
		 "iregs, uregs, misc, srcline, weight, ins_lat, phys_addr, data_page_size, code_page_size, cgroup; "
		 "with + or - before each, these more or less than there are; with hw:, sw:, trace:, raw: or break: in "
		 "front, of these events alone",
	 .set = set_fields,
	 .offset = offsetof(struct script_options, text.fields),
	 .flags = OPTION_NO_NEGATE,
	 .group = "Fields"},
	{.name = "full-source-path",
	 .help = "Print the whole paths of source files",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, text.full_paths)},
	{.letter = 'G',
	 .name = "hide-call-graph",
	 .help = "Print the address of a sample in place of its call chain",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, text.hide_chains)},
	{.name = "max-stack",
	 .arg = "N",
	 .help = "Print at most the N innermost functions of a call chain",
	 .set = option_set_limit,
	 .offset = offsetof(struct script_options, max_stack)},
	{.name = "stop-bt",
	 .arg = "NAME,...",
	 .help = "Print call chains up to the first of these functions",
	 .set = option_set_string,
	 .offset = offsetof(struct script_options, text.stop_at)},
	{.name = "ns",
	 .help = "Print times with nine decimal places",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, nanoseconds)},
	{.name = "reltime",
	 .help = "Print times since the first line",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, since_first),
	 .family = "times"},
	{.name = "deltatime",
	 .help = "Print times since the line before",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, since_last),
	 .family = "times"},
	SCRIPT_SHOW_OPTIONS(struct script_options, show, "Records that are no samples"),
	{.name = "folded",
	 .help = "Print how often each call chain of the first event occurs, a line each, as flamegraph.pl and "
		 "speedscope read it",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, folded),
	 .group = "Output"},
	{.name = "json",
	 .help = "Print each sample as an object of JSON on one line",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, json)},
	{.name = "raw-text",
	 .help = "Print names and texts of the recording byte by byte, as perf does, also what controls a terminal",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, raw_text)},
	HEADER_OPTIONS(struct script_options, header, NULL),
	{.letter = 'L',
	 .name = "Latency",
	 .help = "Print eight characters of commands, and CPUs without brackets",
	 .set = option_set_flag,
	 .offset = offsetof(struct script_options, text.narrow)},
	PAGER_OPTIONS(struct script_options, pager),
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct script_options, verbose)},
	/* Of perf script, and so anyway: accepted. */
	OPTION_ACCEPTED('d', "debug-mode", NULL, "the order of records is always checked, and losses are reported"),
	/* Of perf script, and not here: refused by name. */
	OPTION_REFUSED('D', "dump-raw-trace", NULL, "the records as they are: use millrace report -D"),
	OPTION_REFUSED(0, "dump-unsorted-raw-trace", NULL, "the records as they are: use millrace report -D"),
	OPTION_REFUSED('a', "all-cpus", NULL, "a recording is read, none is made: use millrace record -a"),
	OPTION_REFUSED('g', "gen-script", "LANG",
		       "scripts are not run here, but perf runs them on recordings of millrace: use perf script -g"),
	OPTION_REFUSED('s', "script", "NAME",
		       "scripts are not run here, but perf runs them on recordings of millrace: use perf script -s"),
	OPTION_REFUSED('l', "list", NULL,
		       "scripts are not run here, but perf runs them on recordings of millrace: use perf script -l"),
	OPTION_REFUSED(0, "addr-range", "N", "use -S with the name of the function, or perf script --addr-range"),
	OPTION_REFUSED(0, "dlfilter", "FILE", "no code is loaded here: use -c, -S, --pid, --tid, --dsos, -C or --time"),
	OPTION_REFUSED(0, "dlarg", "ARG", "no code is loaded here: use -c, -S, --pid, --tid, --dsos, -C or --time"),
	OPTION_REFUSED(0, "list-dlfilters", NULL,
		       "no code is loaded here: use -c, -S, --pid, --tid, --dsos, -C or --time"),
	OPTION_REFUSED_OPTIONAL(0, "call-trace",
				"traces of the hardware are not decoded here: use perf script --call-trace"),
	OPTION_REFUSED_OPTIONAL(0, "call-ret-trace",
				"traces of the hardware are not decoded here: use perf script --call-ret-trace"),
	OPTION_REFUSED_OPTIONAL(0, "insn-trace",
				"traces of the hardware are not decoded here: use perf script --insn-trace"),
	OPTION_REFUSED_OPTIONAL(0, "itrace", "traces of the hardware are not decoded here: use perf script --itrace"),
	OPTION_REFUSED_OPTIONAL(0, "xed", "traces of the hardware are not decoded here: use perf script --xed"),
	OPTION_REFUSED(0, "graph-function", "NAME",
		       "traces of the hardware are not decoded here: use perf script --graph-function"),
	OPTION_REFUSED(0, "max-blocks", "N", "instructions are not decoded here: use perf script --max-blocks"),
	OPTION_REFUSED(0, "stitch-lbr", NULL, "branch stacks are not joined here: use perf script --stitch-lbr"),
	OPTION_REFUSED(0, "per-event-dump", NULL,
		       "readers run in a sandbox that creates no files: use perf script --per-event-dump"),
	OPTION_REFUSED(0, "show-kernel-path", NULL,
		       "the kernel is always [kernel.kallsyms] here: use perf script --show-kernel-path"),
	OPTION_REFUSED(0, "guest-code", NULL, "guests of this machine are not looked into: use perf script"),
	OPTION_REFUSED(0, "guestkallsyms", "FILE", "guests of this machine are not looked into: use perf script"),
	OPTION_REFUSED(0, "guestmodules", "FILE", "guests of this machine are not looked into: use perf script"),
	OPTION_REFUSED(0, "guestmount", "DIR", "guests of this machine are not looked into: use perf script"),
	OPTION_REFUSED(0, "guestvmlinux", "FILE", "guests of this machine are not looked into: use perf script"),
	{0},
};

/* Everything that one run holds. */
struct script {
	struct script_options options;
	struct session *session;
	struct machine *machine;
	struct sample_text *text; /* NULL: folded, from `samples` */
	struct samples samples;
	struct script_workers *workers; /* NULL: one thread makes all lines */
	struct stat_lines counts;
	struct output out;
	struct input_losses losses;
	bool header_done;
	bool watched; /* output of a pipe on a terminal: each line is written at once */
};

static bool is_front(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE;
}

/* A pipe's features come as its first records: the header is printed behind them. */
static void print_header(struct script *script)
{
	script->header_done = true;
	if ((script->options.header.wanted && !script->options.json) || script->options.header.alone)
		header_print(stdout, script->session, script->options.header.full);
	fflush(stdout); /* what follows does not go through stdio */
}

/* Folded chains are counted, and printed at the end. */
static int take_folded(struct script *script, const struct session_record *record)
{
	if (record->view.header->type == PERF_RECORD_SAMPLE)
		return samples_take(&script->samples, record);
	return machine_process(script->machine, record);
}

/* What is no sample changes the machine, and is shown when asked for. */
static int take_other(struct script *script, const struct session_record *record, struct diag *reterr)
{
	const struct script_options *options = &script->options;

	if (machine_process(script->machine, record))
		return diag_set(reterr, -ENOMEM, "out of memory");
	int err = options->json ? 0 : stat_lines_take(&script->counts, script->session, record, &script->out, reterr);
	if (err)
		return err;
	if (!script_show_has(&options->show, record->view.header->type) ||
	    !sample_filter_has_cpu(&options->filter, record->sample.cpu))
		return 0;
	if (script->workers)
		script_workers_flush(script->workers);
	struct task *task = script_show_task(script->machine, record);
	return task ? sample_text_print_record(script->text, record, task, &script->out, reterr)
		    : diag_set(reterr, -ENOMEM, "out of memory");
}

static int take(struct script *script, const struct session_record *record, struct diag *reterr)
{
	input_count_losses(&script->losses, record);
	if (!script->text)
		return take_folded(script, record) ? diag_set(reterr, -ENOMEM, "out of memory") : 0;
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		return take_other(script, record, reterr);
	if (script->workers)
		script_workers_flush(script->workers);
	int err = sample_text_print(script->text, record, &script->out, reterr);
	if (script->watched) {
		output_flush(&script->out);
		fflush(stdout);
	}
	return err;
}

/* Several threads make the lines of a file, which is there to be read ahead. */
static int open_thread_pool(struct script *script)
{
	const struct script_workers_options options = {
		.text = &script->options.text,
		.session = script->session,
		.machine = script->machine,
		.out = &script->out,
	};

	if (!script->text || session_info(script->session)->pipe)
		return 0;
	return script_workers_new(&options, script->text, &script->workers);
}

/* When all events are known. */
static int check_cpus(const struct script *script, struct diag *reterr)
{
	if (!script->options.filter.cpus || script->options.header.alone)
		return 0;
	return sample_filter_check_cpus(script->session, reterr);
}

/* All records, until one fails or the reader of the output has gone. */
static int run_records(struct script *script, struct diag *reterr)
{
	struct input_records records __attribute__((cleanup(input_records_close))) = {0};
	const struct session_record *record;
	int got = 1;

	if (!session_info(script->session)->pipe)
		print_header(script);
	if (script->header_done && script->options.header.alone)
		return 0;
	int err = script->text ? sample_text_check(script->text, reterr) : 0;
	if (!err && !session_info(script->session)->pipe)
		err = check_cpus(script, reterr);
	if (err)
		return err;
	err = open_thread_pool(script);
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = input_records_open(&records, script->session, script_workers_nr(script->workers));
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = input_records_switch(&records, &script->options.filter, reterr);
	if (err)
		return err;
	if (pager_terminal()) /* where its lines go there is no place for the progress */
		records.progress.what = NULL;
	while (!(script->header_done && script->options.header.alone) && !output_is_over(&script->out) &&
	       !(script->options.json && ferror(stdout))) {
		got = script->workers ? script_workers_print(script->workers, &records, reterr) : 0;
		if (got > 0)
			continue;
		if (got < 0)
			return got;
		got = input_records_next(&records, &record, reterr);
		if (got <= 0)
			break;
		if (!script->header_done && !is_front(record->view.header->type)) {
			print_header(script);
			err = check_cpus(script, reterr);
		}
		if (!err)
			err = take(script, record, reterr);
		if (err)
			return err;
	}
	if (!script->header_done)
		print_header(script);
	return got < 0 ? got : 0;
}

static void complete_text_options(struct script_options *options)
{
	options->text.filter = &options->filter;
	options->text.max_frames = options->max_stack;
	options->text.clock = (options->nanoseconds ? CLOCK_NANOSECONDS : 0) |
			      (options->since_first ? CLOCK_SINCE_FIRST : 0) |
			      (options->since_last ? CLOCK_SINCE_LAST : 0);
}

/* JSON has the process, too. */
static void choose_json(struct script_options *options)
{
	options->text.json = stdout;
	for (unsigned kind = 0; kind < NR_KINDS; kind++)
		if (!options->text.fields.kinds[kind].chosen)
			options->text.fields.kinds[kind].shown |= FIELD_BIT(FIELD_PID);
}

static int script_open(struct script *script)
{
	/* Marks are where they are in the file: sorted by time there are none. As perf does it. */
	script->options.input.time_since_first = script->options.since_first;
	int err = input_open(&script->options.input, script->options.show.rounds ? SESSION_FILE_ORDER : 0,
			     &script->session);

	if (err)
		return err;
	err = machine_new(&script->options.input.machine, script->session, &script->machine);
	if (!err)
		err = output_open(&script->out, STDOUT_FILENO);
	if (!err && script->options.folded) {
		const struct samples_options options = {
			.hist = {.keys = {HIST_COMM, HIST_DSO, HIST_SYM}, .nr_keys = 3},
			.filter = script->options.filter,
			.chains = true,
			.max_stack = script->options.max_stack,
		};
		err = samples_init(&script->samples, &options, script->session, script->machine);
	} else if (!err) {
		complete_text_options(&script->options);
		if (script->options.json)
			choose_json(&script->options);
		script->text = sample_text_new(&script->options.text, script->session, script->machine);
		err = script->text ? 0 : -ENOMEM;
	}
	if (err)
		log_error("%s", strerror(-err));
	return err;
}

static void script_close(struct script *script)
{
	stat_lines_fini(&script->counts);
	script_workers_free(script->workers);
	sample_text_free(script->text);
	samples_fini(&script->samples);
	sample_filter_fini(&script->options.filter);
	machine_free(script->machine);
	session_close(script->session);
}

static int script_run(int argc, char **argv)
{
	struct script script = {0};
	struct diag diag = {0};
	AUTO_CONFIGURATION struct configuration config = {0};
	int err, status = 0;

	sample_fields_init(&script.options.text.fields);
	switch (configuration_parse(&command_script, argc, argv, &script.options, &config)) {
	case OPTION_EXIT: return 0;
	case OPTION_BAD: return COMMAND_USAGE;
	case OPTION_OK: break;
	}
	int first = config.given.first;
	if (first < argc) {
		log_error("script takes no argument, but got \"%s\"; a file is given with -i", argv[first]);
		return COMMAND_USAGE;
	}
	if (script.options.json && (script.options.folded || script_show_any(&script.options.show))) {
		log_error("--json prints samples, one by one: leave out --folded and --show-...-events");
		return COMMAND_USAGE;
	}
	if (script.options.folded && script.options.text.stop_at) {
		log_error("--folded prints whole call chains, or the innermost functions with --max-stack: leave out "
			  "--stop-bt");
		return COMMAND_USAGE;
	}
	log_set_level(script.options.verbose);
	escape_set_raw(script.options.raw_text && !script.options.json && !script.options.folded);
	if (sample_filter_complete(&script.options.filter, &diag)) {
		log_error("%s", diag.text);
		sample_filter_fini(&script.options.filter);
		return COMMAND_USAGE;
	}
	pager_open(&script.options.pager);
	input_enter_sandbox(&script.options.input, NULL, 0);
	if (script_open(&script)) {
		script_close(&script);
		return INPUT_EXIT_ERROR;
	}
	script.watched = pager_terminal() && session_info(script.session)->pipe;
	err = run_records(&script, &diag);
	if (script.options.folded)
		folded_print(&script.samples, script.session, &script.out);
	if (script.workers)
		script_workers_flush(script.workers);
	int out_err = output_close(&script.out);
	if (script.options.json && !out_err && standard_output_flush())
		status = INPUT_EXIT_ERROR;
	if (err) {
		log_error("%s", diag.text);
		status = INPUT_EXIT_ERROR;
	}
	if (out_err && out_err != -EPIPE) {
		log_error("standard output: %s", strerror(-out_err));
		status = INPUT_EXIT_ERROR;
	}
	input_report_losses(&script.losses);
	input_report_doubts(script.machine);
	input_report_late(script.session);
	script_close(&script);
	return status;
}

const struct command command_script = {
	.name = "script",
	.summary = "Print every sample of a recording as text",
	.usage = "[OPTIONS]",
	.description = "Reads a recording and prints its samples in the order of time, as `perf script` does: command, "
		       "thread, CPU where it was sampled, time in seconds, period, event, and the address with its "
		       "symbol, or the call chain on lines of their own, or the fields of a tracepoint.\n"
		       "\n"
		       "Examples:\n"
		       "  millrace script | head -50\n"
		       "  millrace script --folded | flamegraph.pl > flame.svg\n"
		       "  millrace script --json | jq .callchain[0].sym\n"
		       "  millrace record -e 'sched:*' -a -o - -- sleep 1 | millrace script",
	.options = script_table,
	.run = script_run,
};
