/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyze/machine/parallelism.h"
#include "analyze/report/tracepoint.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cpuset.h"
#include "base/diag.h"
#include "perfdata/feature.h"
#include "read/session.h"

/* What a word sets, by the field. */
enum field { MODE, DIRECTION, KEY, VALUE, NOTHING };

static const struct word {
	const char *text;
	enum field field;
	int value;
} graph_words[] = {
	{"none", MODE, GRAPH_NONE},
	{"graph", MODE, GRAPH_ABSOLUTE},
	{"flat", MODE, GRAPH_FLAT},
	{"fractal", MODE, GRAPH_FRACTAL},
	{"folded", MODE, GRAPH_FOLDED},
	{"caller", DIRECTION, CALLTREE_CALLER},
	{"callee", DIRECTION, CALLTREE_CALLEE},
	{"function", KEY, CALLTREE_FUNCTION},
	{"address", KEY, CALLTREE_ADDRESS},
	{"srcline", KEY, CALLTREE_SRCLINE},
	{"percent", VALUE, GRAPH_PERCENT},
	{"period", VALUE, GRAPH_PERIOD},
	{"count", VALUE, GRAPH_COUNT},
};

static void print_graph_words(FILE *to)
{
	for (size_t i = 0; i < sizeof(graph_words) / sizeof(graph_words[0]); i++)
		fprintf(to, "%s\n", graph_words[i].text);
}

static void set_field(struct graph_options *options, const struct word *word)
{
	switch (word->field) {
	case MODE: options->mode = (enum graph_mode)word->value; break;
	case DIRECTION:
		options->direction = (enum calltree_direction)word->value;
		options->direction_set = true;
		break;
	case KEY: options->key = (enum calltree_key)word->value; break;
	case VALUE: options->value = (enum graph_value)word->value; break;
	default: break;
	}
}

/* As perf takes them: any beginning of a word is the word. */
static const struct word *find_word(const char *text, size_t len)
{
	for (size_t i = 0; len && i < sizeof(graph_words) / sizeof(graph_words[0]); i++)
		if (strncmp(graph_words[i].text, text, len) == 0)
			return &graph_words[i];
	return NULL;
}

static int set_number(struct graph_options *options, unsigned which, const char *text, size_t len, struct diag *reterr)
{
	char *end;

	if (which == 0) {
		double percent = strtod(text, &end);
		if (end == text + len && percent >= 0 && percent <= 100) {
			options->min_percent = percent;
			return 0;
		}
	} else if (which == 1) {
		unsigned long lines = strtoul(text, &end, 0);
		if (end == text + len && lines <= 1u << 30) {
			options->max_lines = (unsigned)lines;
			return 0;
		}
	}
	return diag_set(
		reterr, -EINVAL,
		"\"%.*s\" is neither a mode (graph, flat, fractal, folded, none), an order (caller, callee), a key "
		"(function, address, srcline), a value (percent, period, count) nor a percentage",
		(int)len, text);
}

/*
 * Words separated by commas as in -g: mode, order, key, value, then numbers for least percentage and most lines. What
 * is not named stays. -EINVAL and why.
 */
static int graph_parse(const char *text, struct graph_options *options, struct diag *reterr)
{
	unsigned nr_numbers = 0;

	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		const struct word *word = find_word(at, len);
		if (len == strlen("branch") && strncmp(at, "branch", len) == 0)
			return diag_set(reterr, -EINVAL,
					"call graphs of branch stacks are not supported: leave out \"branch\"");
		if (word) {
			set_field(options, word);
		} else if (len) {
			int err = set_number(options, nr_numbers++, at, len, reterr);
			if (err)
				return err;
		}
		at += len;
		if (!*at)
			return 0;
	}
}

static int set_branches(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	*(enum branch_choice *)value = negated ? BRANCHES_NO : BRANCHES_YES;
	return 0;
}

/* "100ms". */
static int set_quantum(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	char *end;

	(void)option, (void)negated;
	errno = 0;
	unsigned long number = strtoul(arg, &end, 10);
	for (size_t i = 0; !errno && i < sizeof(units) / sizeof(units[0]); i++)
		if (*arg >= '0' && *arg <= '9' && strcmp(end, units[i].unit) == 0 && number &&
		    number <= UINT64_MAX / units[i].ns) {
			*(uint64_t *)value = number * units[i].ns;
			return 0;
		}
	return diag_set(reterr, -EINVAL, "\"%s\" is no time such as 100ms: a number, and ns, us, ms or s", arg);
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

static int set_groups(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)arg, (void)reterr;
	*(enum group_tables *)value = negated ? GROUPS_NONE : GROUPS_ALL;
	return 0;
}

static int set_call_graph(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
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

static int set_parallelisms(const struct option *option, const char *arg, bool negated, void *value,
			    struct diag *reterr)
{
	(void)option, (void)negated;
	if (cpuset_parse(value, arg))
		return diag_set(reterr, -EINVAL, "\"%s\" is no list of numbers, such as 1,4-8", arg);
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

static int set_regex(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct callers tried;
	int err = callers_init(&tried, arg, NULL, reterr);

	(void)option, (void)negated;
	callers_fini(&tried);
	if (!err)
		*(const char **)value = arg;
	return err;
}

static int set_socket(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	struct socket_choice *socket = value;
	int err = option_set_u64(option, arg, negated, &socket->number, reterr);

	socket->set = !err;
	return err;
}

static int set_code_syntax(const struct option *option, const char *arg, bool negated, void *value, struct diag *reterr)
{
	(void)option, (void)negated;
	if (strcmp(arg, "att") && strcmp(arg, "intel"))
		return diag_set(reterr, -EINVAL, "\"%s\" is neither att nor intel", arg);
	*(enum code_syntax *)value = strcmp(arg, "att") ? CODE_INTEL : CODE_ATT;
	return 0;
}

#define NO_BRANCHES "instructions and call chains of branches are not decoded here: use perf report"
static int set_pretty(const struct option *option, const char *arg, bool negated, void *bool_value, struct diag *reterr)
{
	(void)option, (void)negated;
	*(bool *)bool_value = strcmp(arg, "raw") == 0;
	return *(bool *)bool_value || strcmp(arg, "normal") == 0
		       ? 0
		       : diag_set(reterr, -EINVAL, "\"%s\" is neither normal nor raw", arg);
}

#define NO_SOURCE "source files are looked for under the names that the debug information has: use perf annotate"

const struct option report_options_table[] = {
	INPUT_OPTIONS(struct report_options, input),
	STORE_INPUT_OPTIONS(struct report_options, from),
	{.letter = 's',
	 .name = "sort",
	 .arg = "KEY,...",
	 .print_values = column_print_words,
	 .help = "Count together what is equal in these: comm, dso, symbol, pid (or tid), cpu, socket, srcline, "
		 "srcfile, parent, trace, state, waker, host, time, cgroup, cgroup_id, weight, local_weight, ins_lat, "
		 "local_ins_lat, "
		 "code_page_size, addr, symbol_size, dso_size, transaction, and fields of tracepoints, such as "
		 "next_comm or "
		 "sched_switch.*; default comm,dso,symbol; of branches and accesses to memory more, "
		 "see --branch-stack and --mem-mode; numbers as in --fields are columns that are sorted by",
	 .set = column_choice_set_sort,
	 .offset = offsetof(struct report_options, columns),
	 .flags = OPTION_NO_NEGATE,
	 .group = "Table"},
	{.letter = 'F',
	 .name = "fields",
	 .arg = "FIELD,...",
	 .print_values = column_print_words,
	 .help = "Print these columns, and sort by them: the keys of --sort, and overhead, overhead_sys, overhead_us, "
		 "overhead_guest_sys, overhead_guest_us, overhead_children, sample, period; with + in front, beside "
		 "those that are there",
	 .set = column_choice_set_fields,
	 .offset = offsetof(struct report_options, columns),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'b',
	 .name = "branch-stack",
	 .help = "Count each branch of a sample once; this is the default of recordings that have branches. Further "
		 "keys: "
		 "dso_from, dso_to, symbol_from, symbol_to, addr_from, addr_to, srcline_from, srcline_to, mispredict, "
		 "in_tx, abort, cycles; default comm,dso_from,symbol_from,symbol_to,cycles",
	 .set = set_branches,
	 .offset = offsetof(struct report_options, branches)},
	{.name = "mem-mode",
	 .help = "Count accesses to memory by their weight (record -d -W). Further keys: symbol_daddr, symbol_iaddr, "
		 "dso_daddr, locked, tlb, mem, snoop, dcacheline, phys_daddr, data_page_size, blocked; default "
		 "local_weight, mem, symbol, dso, symbol_daddr, dso_daddr, snoop, tlb, locked, blocked, local_ins_lat",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, memory)},
	{.name = "wall",
	 .help = "Where the time of threads went, on and off the CPU, in one table in nanoseconds (record --off-cpu "
		 "with "
		 "an event that samples the CPU): what part of it each row was on the CPU, blocked and runnable",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.wall)},
	{.name = "latency",
	 .help = "Shares of the time that the program took instead of the time on CPUs: while n of its tasks run, a "
		 "sample is 1/n (record --latency)",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.latency)},
	{.name = "parallelism",
	 .arg = "N,N-N,...",
	 .help = "Count only what happened while so many tasks ran on CPUs (record --latency)",
	 .set = set_parallelisms,
	 .offset = offsetof(struct report_options, parallelisms),
	 .flags = OPTION_NO_NEGATE},
	{.name = "time-quantum",
	 .arg = "TIME",
	 .help = "Times of the key time are those of intervals of this length, such as 10ms; default 100ms",
	 .set = set_quantum,
	 .offset = offsetof(struct report_options, samples.quantum_ns),
	 .flags = OPTION_NO_NEGATE},
	{.name = "ns",
	 .help = "Print times with nine decimal places",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, table.nanoseconds)},
	{.name = "raw-trace",
	 .help = "Print fields of tracepoints by their types, not as in the text of the tracepoint",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, columns.raw_trace)},
	{.name = "full-source-path",
	 .help = "Print the whole paths of source files",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.full_paths)},
	{.name = "max-stack",
	 .arg = "N",
	 .help = "Take N functions of each call chain: the outermost, or with -g callee the innermost",
	 .set = option_set_limit,
	 .offset = offsetof(struct report_options, samples.max_stack)},
	{.name = "group",
	 .help = "Print one table for all events of a group (this is the default), or of all events when no groups "
		 "were recorded",
	 .set = set_groups,
	 .offset = offsetof(struct report_options, groups)},
	{.name = "group-sort-idx",
	 .arg = "N",
	 .help = "Sort the table of a group by its event N; 0: the first one",
	 .set = option_set_u64,
	 .offset = offsetof(struct report_options, group_sort),
	 .flags = OPTION_NO_NEGATE},
	{.name = "children",
	 .help = "Of recordings with call chains, count a sample for its callers too (this is the default)",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.hist.children)},
	{.letter = 'g',
	 .name = "call-graph",
	 .arg = "MODE,...",
	 .print_values = print_graph_words,
	 .help = "Below the entries print call graphs: graph (default), fractal (shares of the parent), flat, folded "
		 "or none; caller (with --children the default) or callee; percent, period or count; the least "
		 "percentage of a branch (default 0.5), the most lines",
	 .set = set_call_graph,
	 .offset = offsetof(struct report_options, graph),
	 .flags = OPTION_ARG_OPTIONAL | OPTION_ARG_NEXT},
	{.letter = 'G',
	 .name = "inverted",
	 .help = "Draw call graphs from the outermost callers on, as -g caller",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, inverted)},
	{.letter = 'n',
	 .name = "show-nr-samples",
	 .help = "Add a column with the number of samples",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, columns.sample_counts)},
	{.name = "show-total-period",
	 .help = "Add a column with the sum of periods",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, columns.periods)},
	{.name = "show-cpu-utilization",
	 .help = "Add columns with the shares of the kernel and of programs",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, columns.levels)},
	{.name = "showcpuutilization", /* as perf-report(1) spells it */
	 .help = "Add columns with the shares of the kernel and of programs",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, columns.levels),
	 .flags = OPTION_HIDDEN},
	{.letter = 't',
	 .name = "field-separator",
	 .arg = "CHARACTER",
	 .help = "Separate the columns with CHARACTER; a dot replaces it inside a text",
	 .set = option_set_separator,
	 .offset = offsetof(struct report_options, table.separator),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'w',
	 .name = "column-widths",
	 .arg = "WIDTH,...",
	 .help = "Make the columns so wide; 0: as wide as needed",
	 .set = set_widths,
	 .offset = offsetof(struct report_options, table.widths),
	 .flags = OPTION_NO_NEGATE},
	{.name = "hierarchy",
	 .help = "Print the keys as a tree, with the share of each: commands, below each its objects, and so on; keys "
		 "in braces of --sort, as in {comm,dso},sym, are a level together",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, hierarchy)},
	{.name = "percentage",
	 .arg = "WHAT",
	 .values = "absolute relative",
	 .help = "Of filtered tables, print shares of all samples (absolute, the default) or of those that are shown "
		 "(relative)",
	 .set = sample_filter_set_percentage,
	 .offset = offsetof(struct report_options, table.relative),
	 .flags = OPTION_NO_NEGATE},
	{.name = "percent-limit",
	 .arg = "PERCENT",
	 .help = "Leave out entries below PERCENT, and branches of call graphs",
	 .set = set_percent_limit,
	 .flags = OPTION_NO_NEGATE},
	SAMPLE_FILTER_OPTIONS(struct report_options, samples.filter, "Filters (percentages stay those of all samples)",
			      'c', 'C'),
	SAMPLE_FILTER_DSOS('d', struct report_options, samples.filter),
	EVENT_SWITCH_OPTIONS(struct report_options, samples.filter),
	{.name = "symbol-filter",
	 .arg = "TEXT",
	 .help = "Show only samples in functions whose names have TEXT in them",
	 .set = option_set_string,
	 .offset = offsetof(struct report_options, samples.filter.symbol_part)},
	{.letter = 'p',
	 .name = "parent",
	 .arg = "REGEX",
	 .help = "Add the column parent: of each call chain the first function that REGEX, an extended regular "
		 "expression, matches, seen in the order of the call graph",
	 .set = set_regex,
	 .offset = offsetof(struct report_options, samples.parent),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'x',
	 .name = "exclude-other",
	 .help = "With the key parent, show only samples whose call chains have such a function",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.parent_only)},
	{.name = "ignore-callees",
	 .arg = "REGEX",
	 .help = "Count samples in what the functions that REGEX matches have called as their own",
	 .set = set_regex,
	 .offset = offsetof(struct report_options, samples.ignored),
	 .flags = OPTION_NO_NEGATE},
	{.name = "socket-filter",
	 .arg = "N",
	 .help = "Show only samples of the CPUs of this socket",
	 .set = set_socket,
	 .offset = offsetof(struct report_options, samples.socket),
	 .flags = OPTION_NO_NEGATE},
	{.letter = 'U',
	 .name = "hide-unresolved",
	 .help = "Leave out samples in code without a symbol: they are not counted either",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, samples.hide_unresolved)},
	{.name = "ignore-vmlinux",
	 .help = "Take the kernel's symbols from kallsyms, even when there is an image of that kernel",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, input.machine.ignore_vmlinux)},
	{.letter = 'M',
	 .name = "disassembler-style",
	 .arg = "STYLE",
	 .values = "att intel",
	 .help = "Show annotated code in the view as att (the default) or intel",
	 .set = set_code_syntax,
	 .offset = offsetof(struct report_options, code_syntax),
	 .flags = OPTION_NO_NEGATE},
	HEADER_OPTIONS(struct report_options, header, "Output"),
	{.letter = 'T',
	 .name = "threads",
	 .help = "Print at the end what the events of each thread had counted when it ended (record --stat)",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, threads)},
	{.name = "pretty",
	 .arg = "KEY",
	 .values = "normal raw",
	 .help = "How --threads is printed: normal, a row for each thread, or raw, a line for each value",
	 .set = set_pretty,
	 .offset = offsetof(struct report_options, raw_threads)},
	{.name = "stats",
	 .help = "Print how many records of each type there are, and nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, stats)},
	{.name = "tasks",
	 .help = "Print the tasks of the recording as a tree, and nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, tasks)},
	{.name = "mmaps",
	 .help = "Print the tasks with what each has mapped, and nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, mmaps)},
	{.name = "loss",
	 .help = "Print what the recording lost, where, when and why, and nothing else",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, loss)},
	{.name = "json",
	 .help = "Print the tables as JSON, or with --loss what was lost",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, json)},
	{.name = "html",
	 .arg = "FILE",
	 .help = "Write table, tree, flame graph, times, losses and header into one page of HTML; - is standard output",
	 .set = option_set_path,
	 .offset = offsetof(struct report_options, html)},
	{.name = "raw-text",
	 .help = "Print names and texts of the recording byte by byte, as perf does, also what controls a terminal",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, raw_text)},
	{.letter = 'D',
	 .name = "dump-raw-trace",
	 .help = "Print every record of the file: its place, its bytes, their meaning; then how many there "
		 "are",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, raw_dump)},
	{.name = "tui",
	 .help = "Show the tables in a view on the terminal: the default where standard input and output are terminals",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, tui),
	 .family = "interface"},
	{.name = "stdio",
	 .family = "interface",
	 .help = "Print text: the default elsewhere, and with options that only text has",
	 .set = option_set_flag,
	 .offset = offsetof(struct report_options, stdio)},
	{.name = "stdio-color",
	 .arg = "MODE",
	 .values = "always never auto",
	 .help = "Colour shares: always, never, or auto (on a terminal, unless NO_COLOR is set), which is the default",
	 .set = colour_set,
	 .offset = offsetof(struct report_options, colour),
	 .flags = OPTION_NO_NEGATE},
	PAGER_OPTIONS(struct report_options, pager),
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
	/* Of perf report, and so anyway: accepted. */
	OPTION_ACCEPTED(0, "percent-type", "TYPE", "it is about annotated code, in perf --stdio, too"),
	OPTION_ACCEPTED('m', "modules", NULL, "symbols of modules are always looked for"),
	OPTION_ACCEPTED(0, "asm-raw", NULL, "a table has no instructions, in perf --stdio neither"),
	OPTION_ACCEPTED(0, "source", NULL, "a table has no source code, in perf --stdio neither"),
	OPTION_ACCEPTED(0, "samples", "N", "tables are the same with it; millrace script prints single samples"),
	OPTION_ACCEPTED(0, "skip-empty", NULL, "events without samples are always left out"),
	/* Of perf report, and not here: refused by name. */
	OPTION_REFUSED(0, "branch-history", NULL, NO_BRANCHES),
	OPTION_REFUSED(0, "total-cycles", NULL, NO_BRANCHES),
	OPTION_REFUSED(0, "stitch-lbr", NULL, NO_BRANCHES),
	OPTION_ACCEPTED(0, "objdump", "PATH", "code is decoded by capstone, without objdump"),
	OPTION_REFUSED(0, "prefix", "PREFIX", NO_SOURCE),
	OPTION_REFUSED(0, "prefix-strip", "N", NO_SOURCE),
	OPTION_REFUSED(0, "disable-order", NULL,
		       "records are always sorted by time: use -D for their order in the file"),
	OPTION_REFUSED_OPTIONAL(0, "itrace", "traces of the hardware are not decoded here: use perf report --itrace"),
	OPTION_REFUSED(0, "show-ref-call-graph", NULL,
		       "each event shows its own call graphs: use -g on that event when recording"),
	OPTION_REFUSED(0, "gtk", NULL, "there are the view on a terminal, text, and the page of millrace flame"),
	{0},
};

void report_options_init(struct report_options *options)
{
	*options = (struct report_options){
		.samples = {.hist.children = true, .quantum_ns = 100000000},
		.graph.min_percent = 0.5,
	};
}

/* Entries of other sockets are hidden: no entry may have samples of two. */
static void add_socket_key(struct report_options *options)
{
	struct hist_options *hist = &options->samples.hist;

	if (options->samples.socket.set && !hist_has_key(hist, HIST_SOCKET))
		hist->keys[hist->nr_keys++] = HIST_SOCKET;
}

void report_options_complete(struct report_options *options)
{
	struct graph_options *graph = &options->graph;

	if (options->inverted || (options->samples.hist.children && !graph->direction_set))
		graph->direction = CALLTREE_CALLER;
	options->samples.hist.children &= !options->hierarchy; /* as perf: each sample counts once in a tree */
	graph->separator = options->table.separator;
	graph->skip_first = column_choice_begins_with(&options->columns, HIST_SYM);
	options->columns.parent = options->samples.parent;
	column_choice_apply(&options->columns, &options->samples.hist);
	add_socket_key(options);
	options->samples.hist.sort_member =
		options->group_sort < UINT32_MAX ? (unsigned)options->group_sort : UINT32_MAX;
	options->samples.chains = graph->mode != GRAPH_NONE;
	options->samples.by_address = options->samples.chains && graph->key != CALLTREE_FUNCTION;
	options->samples.by_line = options->samples.chains && graph->key == CALLTREE_SRCLINE;
	graph->full_paths = options->samples.full_paths;
	options->samples.direction = graph->direction;
}

static bool has_branches(const struct session *session)
{
	struct span payload;
	size_t nr;
	const struct event_desc *events = session_events(session, &nr);

	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_BRANCH_STACK)
			return true;
	return session_feature(session, FEATURE_BRANCH_STACK, &payload);
}

static bool has_accesses(const struct event_desc *events, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (events[i].attr.sample_type & PERF_SAMPLE_DATA_SRC)
			return true;
	return false;
}

/* Are samples left out between those that are read? */
static bool has_gaps(const struct report_options *options)
{
	const struct sample_filter *filter = &options->samples.filter;

	return filter->on_event || filter->off_event || input_has_time_ranges(&options->input);
}

/* Tree, flame graph and heat map are made of samples that count in one row each, with their period. */
static bool fits_page(const struct samples_options *samples)
{
	return !samples->wall && samples->mode == SAMPLES_PLAIN && !hist_has_key(&samples->hist, HIST_STATE) &&
	       !hist_has_key(&samples->hist, HIST_WAKER);
}

int report_options_fit(struct report_options *options, const struct session *session, struct diag *reterr)
{
	bool branches = has_branches(session), pipe = session_info(session)->pipe;
	size_t nr, nr_tracepoints = 0;
	const struct event_desc *events = session_events(session, &nr);
	bool counts = options->branches == BRANCHES_YES || (options->branches == BRANCHES_AUTO && branches);

	if (options->samples.wall && counts + options->memory)
		return diag_set(reterr, -EINVAL, "--wall counts time: leave out -b and --mem-mode");
	if (options->samples.wall && has_gaps(options))
		return diag_set(
			reterr, -EINVAL,
			"--wall needs all samples of a time: give --time one range, and leave out --switch-on and "
			"--switch-off");
	if (options->branches == BRANCHES_YES && !branches && !pipe)
		return diag_set(reterr, -EINVAL, "this recording has no branches to count: record them with -b or -j");
	if (options->memory && !pipe && !has_accesses(events, nr))
		return diag_set(reterr, -EINVAL,
				"this recording has no accesses to memory to count: record them with -d");
	if (counts && options->memory)
		return diag_set(reterr, -EINVAL, "--mem-mode counts accesses, not branches: add --no-branch-stack");
	options->samples.mode = counts ? SAMPLES_BRANCHES : options->memory ? SAMPLES_MEMORY : SAMPLES_PLAIN;
	options->columns.mode = options->samples.mode;
	for (size_t i = 0; i < nr; i++)
		nr_tracepoints += events[i].attr.type == PERF_TYPE_TRACEPOINT;
	const char *sort = options->samples.wall                                                  ? "comm,symbol"
			   : nr_tracepoints < nr || !nr || options->samples.mode != SAMPLES_PLAIN ? NULL
			   : options->columns.raw_trace                                           ? "trace_fields"
												  : "trace";
	if (options->hierarchy && options->columns.fields.nr + options->columns.more_fields.nr)
		return diag_set(reterr, -EINVAL, "--hierarchy and --fields exclude each other: use --sort");
	options->samples.parallelisms = cpuset_count(&options->parallelisms) ? &options->parallelisms : NULL;
	if (options->samples.wall && samples_want_parallelism(&options->samples))
		return diag_set(reterr, -EINVAL,
				"--wall counts the time of each thread by itself: leave out --latency, --parallelism "
				"and the keys "
				"latency and parallelism");
	options->table.title = options->samples.wall ? "wall-clock time" : NULL;
	options->table.latency = options->columns.latency = options->samples.latency;
	options->columns.wall = options->samples.wall;
	int err = column_choice_fit(&options->columns, sort, session, reterr);
	if (err)
		return err;
	memcpy(options->samples.fields, options->columns.trace_fields, sizeof(options->samples.fields));
	options->samples.raw_trace = options->columns.raw_trace;
	options->table.fields = options->columns.trace_fields;
	options->table.nr_levels =
		options->hierarchy ? column_choice_levels(&options->columns, options->table.levels) : 0;
	report_options_complete(options);
	if (samples_want_parallelism(&options->samples) && !pipe && !parallelism_is_recorded(session))
		return diag_set(reterr, -EINVAL,
				"latency and parallelism need context switches in the recording: record --latency, or "
				"--switch-events");
	if (options->html && !fits_page(&options->samples))
		return diag_set(reterr, -EINVAL,
				"the page of --html shows samples: leave out --wall, -b, --mem-mode and the keys state "
				"and waker");
	options->table.times = options->input.time;
	options->table.sorted_by = options->memory ? &options->columns : NULL;
	return 0;
}

/* What a store does not have. */
static const char *not_stored(const struct report_options *options)
{
	const struct sample_filter *filter = &options->samples.filter;
	const struct hist_options *hist = &options->samples.hist;

	if (options->branches == BRANCHES_YES || options->memory || options->samples.wall)
		return "branches, accesses to memory, and times of threads";
	if (samples_want_parallelism(&options->samples))
		return "the number of tasks that ran";
	if (options->input.time || filter->cpus || filter->pids || filter->tids || filter->on_event ||
	    filter->off_event)
		return "CPUs, pids and times of samples to choose by (--since has the time)";
	if (options->stats || options->raw_dump || options->tasks || options->mmaps || options->loss ||
	    options->header.wanted || options->header.alone)
		return "records, tasks, losses and headers";
	if (options->graph.key != CALLTREE_FUNCTION)
		return "addresses and source lines of frames";
	if (options->columns.field_words[0][0])
		return options->columns.field_words[0];
	for (unsigned i = 0; i < hist->nr_keys; i++)
		if (hist->keys[i] != HIST_COMM && hist->keys[i] != HIST_DSO && hist->keys[i] != HIST_SYM &&
		    hist->keys[i] != HIST_HOST)
			return "other keys than comm, dso, symbol and host";
	return NULL;
}

int report_options_fit_store(struct report_options *options, struct diag *reterr)
{
	const char *missing = not_stored(options);

	if (missing)
		return diag_set(reterr, -EINVAL, "a store does not have %s: use a recording", missing);
	if (options->html || options->tui)
		return diag_set(reterr, -EINVAL,
				"--from prints text or JSON: leave out --html and --tui, or use millrace flame --from");
	return 0;
}
