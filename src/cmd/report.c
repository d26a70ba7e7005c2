/* SPDX-License-Identifier: MIT */
/* millrace report: where the samples of a recording fell, as a table. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/configuration.h"
#include "cmd/dump.h"
#include "cmd/header_text.h"
#include "cmd/input.h"
#include "cmd/report_loss.h"
#include "cmd/report_graph.h"
#include "cmd/report_json.h"
#include "cmd/report_samples.h"
#include "cmd/report_stats.h"
#include "cmd/report_table.h"

struct report_options {
	struct input_options input;
	struct samples_options samples;
	struct table_options table;
	bool loss, json;
	struct graph_options graph;
	bool inverted, sort_given;
	bool header, header_only, full_header, stats, raw_dump, stdio;
	bool quiet;
	int verbose;
};

static const char key_list[] = "comm, dso, sym (or symbol), pid (or tid), cpu";

static int set_sort(const struct option *option, const char *arg, bool negated, void *value,
		    struct diag *reterr)
{
	struct report_options *options = value;
	struct hist_options *hist = &options->samples.hist;
	bool seen[HIST_KEYS] = {false};

	(void)option, (void)negated;
	options->sort_given = true;
	hist->nr_keys = 0;
	for (const char *at = arg;; at++) {
		size_t len = strcspn(at, ",");
		enum hist_key key;
		if (hist_key_parse(at, len, &key))
			return diag_set(reterr, -EINVAL, "\"%.*s\" is none of the keys %s", (int)len, at,
					key_list);
		if (!seen[key])
			hist->keys[hist->nr_keys++] = key;
		seen[key] = true;
		at += len;
		if (!*at)
			return 0;
	}
}

static int set_percent_limit(const struct option *option, const char *arg, bool negated, void *value,
			     struct diag *reterr)
{
	char *end;
	double limit = strtod(arg, &end);

	(void)option, (void)negated;
	if (end == arg || (*end && strcmp(end, "%") != 0) || !(limit >= 0 && limit <= 100))
		return diag_set(reterr, -EINVAL, "\"%s\" is no percentage from 0 to 100", arg);
	struct report_options *options = value;
	options->table.percent_limit = options->graph.min_percent = limit; /* as perf, of graphs, too */
	return 0;
}

static int set_call_graph(const struct option *option, const char *arg, bool negated, void *value,
			  struct diag *reterr)
{
	struct graph_options *graph = value;

	(void)option;
	if (negated) {
		graph->mode = GRAPH_NONE;
		return 0;
	}
	graph->wanted = true;
	return arg ? graph_parse(arg, graph, reterr) : 0;
}

static int set_separator(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	char separator = strcmp(arg, "\\t") == 0 ? '\t' : arg[0];
	if (!separator || (arg[1] && separator != '\t') || separator == '.')
		return diag_set(reterr, -EINVAL, "the separator is one character, or \\t, and no dot, which stands for it in texts");
	*(char *)value = separator;
	return 0;
}

static int set_widths(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (!*arg || strspn(arg, "0123456789,") != strlen(arg))
		return diag_set(reterr, -EINVAL, "\"%s\" is no list of widths such as 8,0,20", arg);
	*(const char **)value = arg;
	return 0;
}

static int set_percentage(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (strcmp(arg, "relative") && strcmp(arg, "absolute"))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither relative nor absolute", arg);
	*(bool *)value = !strcmp(arg, "relative");
	return 0;
}

static int refuse(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)arg, (void)negated, (void)value;
	return diag_set(reterr, -EINVAL, "%s", option->help);
}

#define REFUSED(letter_of, name_of, arg_of, why) \
	{.letter = letter_of, .name = name_of, .arg = arg_of, .set = refuse, .help = why, \
	 .flags = OPTION_HIDDEN | OPTION_NO_NEGATE | OPTION_NO_DEFAULT}
#define REFUSED_OPTIONAL(name_of, why) \
	{.name = name_of, .arg = "ARG", .set = refuse, .help = why, \
	 .flags = OPTION_HIDDEN | OPTION_NO_NEGATE | OPTION_NO_DEFAULT | OPTION_ARG_OPTIONAL}
#define NO_BRANCHES "branch stacks are not counted here: use perf report, or millrace report -D"
#define NO_SOURCE "code and its source are not shown here: use perf annotate"
#define NO_MEMORY "accesses to memory are not counted here: use perf mem report, or millrace script --json"
#define NO_SWITCHING "no event switches here: use --time"
#define NO_TASKS "use --stats, or millrace script --show-task-events --show-mmap-events"

static const struct option report_table[] = {
	INPUT_OPTIONS(struct report_options, input),
	{.letter = 's',
	 .name = "sort",
	 .arg = "KEY,...",
	 .help = "Count together what is equal in these: comm, dso, sym (or symbol), pid (or tid), cpu; "
		 "default "
		 "comm,dso,sym",
	 .set = set_sort,
	 .flags = OPTION_NO_NEGATE,
	 .group = "Table"},
	{.name = "children",
	 .help = "Of recordings with call chains, count a sample for its callers too (this is the default)",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.hist.children)},
	{.letter = 'g',
	 .name = "call-graph",
	 .arg = "MODE,...",
	 .help = "Below the entries print call graphs: graph (default), fractal (shares of the parent), flat, folded or none; "
		 "caller (with --children the default) or callee; percent, period or count; the least "
		 "percentage of a branch (default 0.5), the most lines",
	 .set = set_call_graph,
	 .offset = offsetof(struct report_options, graph),
	 .flags = OPTION_ARG_OPTIONAL},
	{.letter = 'G',
	 .name = "inverted",
	 .help = "Draw call graphs from the outermost callers on, as -g caller",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, inverted)},
	{.letter = 'n',
	 .name = "show-nr-samples",
	 .help = "Add a column with the number of samples",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, table.sample_counts)},
	{.name = "show-total-period",
	 .help = "Add a column with the sum of periods",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, table.periods)},
	{.letter = 't',
	 .name = "field-separator",
	 .arg = "CHARACTER",
	 .help = "Part the columns by CHARACTER, which becomes a dot where it is in a text",
	 .set = set_separator,
	 .offset = offsetof(struct report_options, table.separator),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'w',
	 .name = "column-widths",
	 .arg = "WIDTH,...",
	 .help = "Make the columns so wide; 0: as wide as needed",
	 .set = set_widths,
	 .offset = offsetof(struct report_options, table.widths),
	 .flags = OPTION_NO_NEGATE},
	{.name = "percentage",
	 .arg = "WHAT",
	 .help = "Of filtered tables, print shares of all samples (absolute, the default) or of those that are shown (relative)",
	 .set = set_percentage,
	 .offset = offsetof(struct report_options, table.relative),
	 .flags = OPTION_NO_NEGATE},
	{.name = "percent-limit",
	 .arg = "PERCENT",
	 .help = "Leave out entries below PERCENT, and branches of call graphs",
	 .set = set_percent_limit,
	 .flags = OPTION_NO_NEGATE},
	SAMPLE_FILTER_OPTIONS(struct report_options, samples.filter, "Filters (percentages stay those of all samples)"),
	{.letter = 'd',
	 .name = "dsos",
	 .arg = "NAME,...",
	 .help = "Show only samples in these programs and libraries",
	 .set = option_set_string,
	 .offset = offsetof(struct report_options, samples.filter.dsos)},
	{.name = "symbol-filter",
	 .arg = "TEXT",
	 .help = "Show only samples in functions whose names have TEXT in them",
	 .set = option_set_string,
	 .offset = offsetof(struct report_options, samples.filter.symbol_part)},
	{.name = "header",
	 .help = "Print first what the file says of itself and of the machine",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, header),
	 .group = "Output"},
	{.name = "header-only",
	 .help = "Print that alone",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, header_only)},
	{.letter = 'I',
	 .name = "show-info",
	 .help = "Print the long parts of it too: topology and caches",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, full_header)},
	{.name = "stats",
	 .help = "Print how many records of each type there are, and nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, stats)},
	{.name = "loss",
	 .help = "Print what the recording lost, where, when and why, and nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, loss)},
	{.name = "json",
	 .help = "Print the tables as JSON, or with --loss what was lost",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, json)},
	{.letter = 'D',
	 .name = "dump-raw-trace",
	 .help = "Print every record of the file: its place, its bytes, their meaning; then how many there "
		 "are",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, raw_dump)},
	{.name = "stdio",
	 .help = "Print text; accepted because perf needs it, there is no other way",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, stdio)},
	{.letter = 'q',
	 .name = "quiet",
	 .help = "Print the entries of the tables and errors, nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, quiet),
	 .family = "talk"},
	{.letter = 'v',
	 .name = "verbose",
	 .help = "Say more on standard error; twice: everything",
	 .set = option_set_count,
	 .offset = offsetof(struct report_options, verbose),
	 .family = "talk"},
	/* Of perf report, and not here: refused by name. */
	REFUSED('F', "fields", "FIELD", "use -s for the keys, -n and --show-total-period for more columns"),
	REFUSED('b', "branch-stack", NULL, NO_BRANCHES),
	REFUSED(0, "branch-history", NULL, NO_BRANCHES),
	REFUSED(0, "total-cycles", NULL, NO_BRANCHES),
	REFUSED(0, "stitch-lbr", NULL, NO_BRANCHES),
	REFUSED('M', "disassembler-style", "STYLE", NO_SOURCE),
	REFUSED(0, "asm-raw", NULL, NO_SOURCE),
	REFUSED(0, "source", NULL, NO_SOURCE),
	REFUSED(0, "objdump", "PATH", NO_SOURCE),
	REFUSED(0, "prefix", "PREFIX", NO_SOURCE),
	REFUSED(0, "prefix-strip", "N", NO_SOURCE),
	REFUSED(0, "full-source-path", NULL, NO_SOURCE),
	REFUSED(0, "mem-mode", NULL, NO_MEMORY),
	REFUSED('m', "modules", NULL, "symbols of modules are always looked for: use -k or --kallsyms for another kernel's"),
	REFUSED('p', "parent", "REGEX", "callers are not matched here: use millrace script --folded and grep"),
	REFUSED('x', "exclude-other", NULL, "callers are not matched here: use millrace script --folded and grep"),
	REFUSED(0, "ignore-callees", "REGEX", "callers are not matched here: use millrace script --folded and grep"),
	REFUSED('T', "threads", NULL, "use -s pid -n"),
	REFUSED('U', "hide-unresolved", NULL, "use millrace report --json: what has no symbol has \"sym\":null"),
	REFUSED(0, "demangle", NULL, "names are always demangled: use perf report --no-demangle"),
	REFUSED(0, "demangle-kernel", NULL, "names of the kernel stay as they are: use c++filt behind millrace report"),
	REFUSED(0, "disable-order", NULL, "records are always sorted by time: use -D for their order in the file"),
	REFUSED(0, "group", NULL, "each event has a table of its own: use perf report --group"),
	REFUSED(0, "group-sort-idx", "N", "each event has a table of its own: use perf report --group"),
	REFUSED(0, "hierarchy", NULL, "tables are flat: use -s with fewer keys, or -g, or millrace flame"),
	REFUSED(0, "ignore-vmlinux", NULL, "vmlinux is only read when it is named: use -k, or leave it out"),
	REFUSED(0, "inline", NULL, "inlined functions are always told: use perf report --no-inline"),
	REFUSED_OPTIONAL("itrace", "traces of the hardware are not decoded here: use perf report --itrace"),
	REFUSED(0, "max-stack", "N", "use millrace script --max-stack, or millrace record --max-stack"),
	REFUSED(0, "mmaps", NULL, NO_TASKS),
	REFUSED(0, "tasks", NULL, NO_TASKS),
	REFUSED(0, "ns", NULL, "no times are printed here: use millrace script --ns"),
	REFUSED(0, "percent-type", "TYPE", "shares are of periods: use -n for the samples"),
	REFUSED(0, "pretty", "KEY", "values are printed as they are: use --json"),
	REFUSED(0, "raw-trace", NULL, "fields of tracepoints are not counted here: use millrace script --json"),
	REFUSED_OPTIONAL("samples", "single samples are printed by millrace script: use that"),
	REFUSED(0, "show-cpu-utilization", NULL, "use -s cpu"),
	REFUSED(0, "show-ref-call-graph", NULL, "each event shows its own call graphs: use -g on that event when recording"),
	REFUSED(0, "skip-empty", NULL, "events without samples are always left out: use --stats to see them"),
	REFUSED(0, "socket-filter", "N", "use -C with the CPUs of the socket, which --header tells"),
	REFUSED(0, "stdio-color", "MODE", "tables are printed without colours: use perf report --stdio-color"),
	REFUSED(0, "show-on-off-events", NULL, NO_SWITCHING),
	REFUSED(0, "switch-on", "EVENT", NO_SWITCHING),
	REFUSED(0, "switch-off", "EVENT", NO_SWITCHING),
	REFUSED(0, "time-quantum", "TIME", "times are not counted here: use --time, or millrace flame"),
	REFUSED(0, "tui", NULL, "there is text only: use a pager, or millrace flame"),
	{0},
};

struct report {
	struct report_options options;
	struct session *session;
	struct machine *machine;
	struct samples samples;
	struct input_losses losses;
	bool header_done;
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
	static const char *const names[HIST_KEYS] = {
		[HIST_COMM] = "comm", [HIST_DSO] = "dso", [HIST_SYM] = "symbol"};
	bool *hidden = report->options.table.hidden;
	unsigned shown = 0;

	for (unsigned i = 0; i < samples->hist.nr_keys; i++) {
		enum hist_key key = samples->hist.keys[i];
		hidden[key] = lists[key] && lists[key][0] && !strchr(lists[key], ',');
		if (hidden[key] && !report->options.quiet)
			printf("# %s: %s\n", names[key], lists[key]);
		shown += !hidden[key];
	}
	if (!shown)
		memset(hidden, 0, HIST_KEYS * sizeof(*hidden));
}

static void print_front(struct report *report)
{
	const struct report_options *options = &report->options;

	report->header_done = true;
	if (options->json && !options->header_only)
		return;
	if (options->header || options->header_only)
		header_print(stdout, report->session, options->full_header);
	else if (!options->quiet)
		fputs("# To display the perf.data header info, please use --header/--header-only "
		      "options.\n#\n",
		      stdout);
	if (!options->header_only && !options->raw_dump)
		hide_columns(report);
}

static bool is_front(uint32_t type)
{
	return type == RECORD_HEADER_ATTR || type == RECORD_HEADER_FEATURE;
}

static int take(struct report *report, const struct session_record *record, struct diag *reterr)
{
	input_count_losses(&report->losses, record);
	int err = record->view.header->type == PERF_RECORD_SAMPLE ? samples_take(&report->samples, record)
								  : machine_process(report->machine, record);
	if (record->view.header->type != PERF_RECORD_SAMPLE)
		samples_note(&report->samples, record);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

/* All records, until one fails or the end. The front of a pipe is known when its first record of another kind
 * comes. */
static int read_records(struct report *report, struct diag *reterr)
{
	struct input_records records __attribute__((cleanup(input_records_close))) = {0};
	const struct session_record *record;
	int got = 0;

	if (!session_info(report->session)->pipe)
		print_front(report);
	if (report->header_done && report->options.header_only)
		return 0;
	int err = input_records_open(&records, report->session);
	if (err)
		return diag_set(reterr, err, "cannot start a thread: %s", strerror(-err));
	while (!(report->header_done && report->options.header_only) &&
	       (got = input_records_next(&records, &record, reterr)) > 0) {
		if (!report->header_done && !is_front(record->view.header->type))
			print_front(report);
		err = take(report, record, reterr);
		if (err)
			return err;
	}
	if (!report->header_done)
		print_front(report);
	return got < 0 ? got : 0;
}

static bool has_chains(const struct event_desc *event)
{
	return event->attr.sample_type & PERF_SAMPLE_CALLCHAIN;
}

static int print_event(struct report *report, struct event_samples *samples, const struct event_desc *event)
{
	const struct report_options *options = &report->options;
	struct graph graph;

	if (options->graph.mode == GRAPH_NONE || !has_chains(event))
		return table_print(stdout, samples->hist, event->name, &options->table, NULL);
	int err = graph_init(&graph, &options->graph, &samples->tally, report->samples.stacks);
	if (!err)
		err = table_print(stdout, samples->hist, event->name, &options->table, &graph);
	graph_fini(&graph);
	return err;
}

static bool lacks_chains(const struct report *report)
{
	size_t nr_events;
	const struct event_desc *events = session_events(report->session, &nr_events);

	for (size_t i = 0; i < nr_events; i++)
		if (has_chains(&events[i]))
			return false;
	return report->options.graph.wanted && report->options.graph.mode != GRAPH_NONE;
}

static bool tells_cpus(const struct event_desc *events, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_CPU)
			return true;
	return !nr;
}

static int print_tables(struct report *report, struct diag *reterr)
{
	struct table_options *table = &report->options.table;
	size_t nr_events;
	const struct event_desc *events = session_events(report->session, &nr_events);

	if (report->options.samples.filter.cpus && !tells_cpus(events, nr_events))
		return diag_set(reterr, -EINVAL, "this recording does not tell the CPUs of its samples: record it with -a, -C or "
				"--sample-cpu");
	if (lacks_chains(report))
		return diag_set(reterr, -EINVAL, "this recording has no call chains to make a graph of: record it with -g");
	int err = samples_settle(&report->samples);
	if (!err && report->options.json) {
		struct report_json_options json = {table->percent_limit, report->losses.lost_samples};
		err = report_json_print(&report->samples, events, nr_events, &json, stdout);
		return err ? diag_set(reterr, err, "out of memory") : 0;
	}
	table->hist = report->options.samples.hist;
	table->hist.children = report->samples.children;
	table->headless = report->options.quiet;
	table->dso_list = report->options.samples.filter.dsos;
	if (!table->headless)
		printf("#\n# Total Lost Samples: %" PRIu64 "\n#\n", report->losses.lost_samples);
	for (size_t i = 0; i < report->samples.nr && i < nr_events && !err; i++)
		if (report->samples.events[i].hist)
			err = print_event(report, &report->samples.events[i], &events[i]);
	return err ? diag_set(reterr, err, "out of memory") : 0;
}

static int run_table(struct report *report, struct diag *reterr)
{
	int err = machine_new(&report->options.input.machine, report->session, &report->machine);

	if (!err)
		err = samples_init(&report->samples, &report->options.samples, report->session,
				   report->machine);
	if (err)
		return diag_set(reterr, err, "out of memory");
	err = read_records(report, reterr);
	if (!report->options.header_only) {
		struct diag *why = err ? NULL : reterr; /* the first failure is told */
		int table_err = print_tables(report, why);
		err = err ? err : table_err;
	}
	input_tell_losses(&report->losses);
	return err;
}

static int report_status(int err, const struct diag *diag)
{
	int status = 0;

	if (err) {
		log_error("%s", diag->text);
		status = INPUT_EXIT_ERROR;
	}
	if (fflush(stdout) && errno != EPIPE) {
		log_error("standard output: %s", strerror(errno));
		status = INPUT_EXIT_ERROR;
	}
	return status;
}

/* As in perf the argument of -g may follow as a word of its own, and may be missing: then an option or the end follows. */
static int join_call_graph(int argc, char **argv, char **ret, char **ret_joined)
{
	int nr = 0;

	for (int i = 0; i < argc; i++) {
		bool bare = strcmp(argv[i], "-g") == 0 || strcmp(argv[i], "--call-graph") == 0;
		ret[nr++] = argv[i];
		if (!bare || *ret_joined || i + 1 == argc || argv[i + 1][0] == '-')
			continue;
		if (asprintf(ret_joined, "--call-graph=%s", argv[++i]) < 0)
			*ret_joined = NULL;
		else
			ret[nr - 1] = *ret_joined;
	}
	ret[nr] = NULL;
	return nr;
}

/* Tables want records sorted by time; the others want all there are. */
static enum session_flags session_order(const struct report_options *options)
{
	if (options->header_only)
		return 0;
	return options->raw_dump ? SESSION_ALL : options->stats || options->loss ? SESSION_FILE_ORDER : 0;
}

/* The records, and the counts of their types, for which a file is read again; a pipe can be read once. */
static int run_dump(struct report *report, struct diag *reterr)
{
	const struct report_options *options = &report->options;
	bool again = !session_info(report->session)->pipe;

	print_front(report);
	int err = dump_session(report->session, &options->input.machine, stdout, reterr);
	if (err || !again)
		return err;
	session_close(report->session);
	report->session = NULL;
	if (input_open(&options->input, SESSION_FILE_ORDER, &report->session))
		return diag_set(reterr, -EIO, "%s cannot be read again", input_path(&options->input));
	return stats_print(stdout, report->session, reterr);
}

static int run(struct report *report, struct diag *reterr)
{
	const struct report_options *options = &report->options;

	if (options->header_only)
		return run_table(report, reterr);
	if (options->loss) {
		const struct report_loss_options loss = {.json = options->json, .headless = options->quiet};
		return report_loss_print(&loss, report->session, stdout, reterr);
	}
	if (options->raw_dump)
		return run_dump(report, reterr);
	if (!options->stats)
		return run_table(report, reterr);
	if (options->header)
		header_print(stdout, report->session, options->full_header);
	return stats_print(stdout, report->session, reterr);
}

/* What options mean for each other. */
static void settle_options(struct report_options *options)
{
	struct graph_options *graph = &options->graph;

	if (options->inverted || (options->samples.hist.children && !graph->direction_set))
		graph->direction = CALLTREE_CALLER;
	graph->separator = options->table.separator;
	graph->skip_first = options->sort_given && options->samples.hist.keys[0] == HIST_SYM;
	options->samples.chains = graph->mode != GRAPH_NONE;
	options->samples.direction = graph->direction;
}

static int report_run(int argc, char **argv)
{
	struct report report = {.options.samples.hist = {.keys = {HIST_COMM, HIST_DSO, HIST_SYM},
							 .nr_keys = 3,
							 .children = true},
				.options.graph.min_percent = 0.5};
	char *joined = NULL;
	struct diag diag = {0};
	char **args = calloc((size_t)argc + 1, sizeof(*args));
	AUTO_CONFIGURATION struct configuration config = {0};

	if (!args)
		return INPUT_EXIT_ERROR;
	argc = join_call_graph(argc, argv, args, &joined);
	enum option_result result = configuration_parse(&command_report, argc, args, &report.options, &config);
	const char *left = result == OPTION_OK && config.given.first < argc ? args[config.given.first] : NULL;
	free(args);
	if (left)
		log_error("report takes no argument, but got \"%s\"; a file is given with -i", left);
	if (result != OPTION_OK || left) {
		free(joined);
		return result == OPTION_EXIT ? 0 : COMMAND_USAGE;
	}
	settle_options(&report.options);
	log_set_level(report.options.quiet ? LOG_ERRORS : report.options.verbose);
	int settled = sample_filter_settle(&report.options.samples.filter, &diag);
	if (settled)
		log_error("%s", diag.text);
	if (settled || input_open(&report.options.input, session_order(&report.options), &report.session)) {
		sample_filter_fini(&report.options.samples.filter);
		free(joined);
		return settled ? COMMAND_USAGE : INPUT_EXIT_ERROR;
	}
	int err = run(&report, &diag);
	int status = report_status(err, &diag);
	samples_fini(&report.samples);
	sample_filter_fini(&report.options.samples.filter);
	machine_free(report.machine);
	session_close(report.session);
	free(joined);
	return status;
}

const struct command command_report = {
	.name = "report",
	.summary = "Print a table of where the samples of a recording fell",
	.usage = "[OPTIONS]",
	.description =
		"Reads a recording and prints a table for each event: which share of the samples fell into "
		"which command, "
		"object and function, the largest first, in the layout of `perf report --stdio`. With call "
		"chains in the "
		"recording the first column, Children, also counts what a function called; Self does not.\n\n"
		"Examples:\n"
		"  millrace report\n"
		"  millrace report --sort dso,sym --percent-limit 1\n"
		"  millrace report --stats -i other.data",
	.options = report_table,
	.run = report_run,
};
