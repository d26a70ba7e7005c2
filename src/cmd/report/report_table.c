/* SPDX-License-Identifier: MIT */
#include "cmd/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report/hierarchy.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "base/hash_table.h"
#include "cmd/cli/terminal.h"
#include "cmd/text/details_text.h"
#include "cmd/text/ordered_text.h"
#include "cmd/text/place_text.h"
#include "cmd/text/put_text.h"
#include "perfdata/feature.h"
#include "read/session.h"

enum {
	PERCENT_WIDTH = 8,
	COUNT_WIDTH = 12,
	SECONDS_WIDTH = 12,
	NANOSECONDS_WIDTH = 16,
	MAX_WIDTH = 10000,
};

/* What a table is about: an event, or a group of them, whose hists are linked, the leader first. */
struct table_subject {
	struct hist *const *hists; /* the leader's is not NULL */
	unsigned nr;
	bool plural; /* "events" */
	const char *name;
};

struct table {
	FILE *to;
	const struct table_options *options;
	const struct table_subject *subject;
	struct hist_entry *const *entries; /* sorted */
	size_t nr;
	uint64_t *periods;   /* what is 100 %, of each hist of the subject */
	uint64_t *latencies; /* likewise, of HIST_LATENCY */
	uint64_t nr_samples;
	size_t width[HIST_COLUMNS]; /* of numbers: of each member's */
	bool has_field[HIST_FIELDS];
	struct hierarchy_level levels[HIST_KEYS]; /* of a hierarchy, its columns */
	unsigned nr_levels;
};

static void widen(struct table *table, enum hist_column key, size_t width)
{
	if (table->width[key] < width)
		table->width[key] = width;
}

/* By the text as it is printed, and what stands in front of it. */
static void widen_for(struct table *table, enum hist_column key, const char *text, size_t front)
{
	AUTO_ESCAPED shown = escaped_text(text);

	widen(table, key, front + (size_t)shown.len);
}

/* The column is there for events that have the field. */
static void measure_field(struct table *table, enum hist_column key, const struct hist_field *field)
{
	if (!field)
		return;
	table->has_field[key - HIST_FIELD] = true;
	widen(table, key, field->width);
	widen_for(table, key, field->text, 0);
}

static void measure_details(struct table *table, const struct hist_details *details)
{
	if (details->srcline)
		widen_for(table, HIST_SRCLINE, details->srcline, 0);
	if (details->srcfile)
		widen_for(table, HIST_SRCFILE, details->srcfile, 0);
	if (details->trace)
		widen_for(table, HIST_TRACE, details->trace, 0);
	if (details->state)
		widen_for(table, HIST_STATE, details->state, 0);
	if (details->waker)
		widen_for(table, HIST_WAKER, details->waker, 0);
	if (details->host)
		widen_for(table, HIST_HOST, details->host, 0);
	if (details->parent)
		widen_for(table, HIST_PARENT, details->parent, 0);
	if (details->cgroup)
		widen_for(table, HIST_CGROUP, details->cgroup, 0);
	for (unsigned i = 0; i < table->options->columns.nr; i++) {
		enum hist_column key = table->options->columns.columns[i];
		if (place_is_field(key))
			measure_field(table, key, details->fields[key - HIST_FIELD]);
		if (details_text_has(key))
			widen(table, key,
			      details_text_width(key, details, table->options->dso_list ? 0 : PLACE_ADDRESS_DIGITS));
	}
}

static void measure_entry(struct table *table, const struct hist_place *place)
{
	const char *comm = place->task->comm->text; /* its last one; an earlier one may be cut, as in perf */

	widen_for(table, HIST_COMM, comm, 0);
	widen_for(table, HIST_TID, comm, PLACE_TID_WIDTH);
	if (place->dso)
		widen_for(table, HIST_DSO, place_dso_text(place), 0);
	if (place->details)
		measure_details(table, place->details);
	if (place->symbol) {
		widen_for(table, HIST_SYM, place->symbol->name, PLACE_LEVEL_WIDTH);
		return;
	}
	widen(table, HIST_SYM, PLACE_LEVEL_WIDTH + PLACE_ADDRESS_DIGITS + 2);
	if (!table->options->dso_list)
		widen(table, HIST_DSO, PLACE_ADDRESS_DIGITS);
}

static bool is_share(enum hist_column column)
{
	return column >= HIST_KEYS && column != HIST_SAMPLES && column != HIST_PERIOD;
}

static const char *table_title(const struct table *table, enum hist_column column)
{
	if (place_is_field(column)) {
		const char *name = table->options->fields ? table->options->fields[column - HIST_FIELD].name : NULL;
		return name ? name : "";
	}
	if (column == HIST_SELF && table->options->self_named)
		return "Self";
	if (table->options->latency && (column == HIST_SELF || column == HIST_LATENCY))
		return place_column_title(column == HIST_SELF ? HIST_LATENCY : HIST_SELF);
	return place_column_title(column);
}

/* Of names that tasks had earlier, as they are printed. */
static size_t longest_earlier_comm(const struct table *table)
{
	size_t longest = 0;

	for (size_t i = 0; i < table->nr; i++) {
		const struct hist_place *place = &table->entries[i]->place;
		if (place->filtered || !place->comm || place->comm == place->task->comm)
			continue;
		AUTO_ESCAPED shown = escaped_text(place->comm->text);
		longest = (size_t)shown.len > longest ? (size_t)shown.len : longest;
	}
	return longest;
}

/* They are cut to the width of the last ones, as in perf, unless two of them would be the same then. */
static void measure_earlier_comms(struct table *table)
{
	struct hash_table cut = {0}; /* by a hash of what is printed of it: the name */
	const size_t longest = longest_earlier_comm(table), width = table->width[HIST_COMM];
	bool differ = true;

	for (size_t i = 0; i < table->nr && longest > width && differ; i++) {
		const struct hist_place *place = &table->entries[i]->place;
		if (place->filtered || !place->comm)
			continue;
		AUTO_ESCAPED shown = escaped_text(place->comm->text);
		const uint64_t hash = hash_bytes(shown.text, (size_t)shown.len < width ? (size_t)shown.len : width);
		const char *other = hash_table_find_item(&cut, hash);
		differ = !other || strcmp(other, place->comm->text) == 0;
		if (!other && hash_table_add(&cut, hash, (void *)place->comm->text))
			break; /* out of memory: they are cut */
	}
	hash_table_fini(&cut);
	if (!differ)
		widen(table, HIST_COMM, longest);
}

static void measure(struct table *table)
{
	for (unsigned column = 0; column < HIST_COLUMNS; column++) {
		widen(table, column, strlen(table_title(table, column)));
		if (column == HIST_WEIGHT)
			widen(table, column, strlen(place_column_title(HIST_LOCAL_WEIGHT)));
		else if (column == HIST_ADDRESS)
			widen(table, column, strlen("0x") + PLACE_ADDRESS_DIGITS);
		if (column >= HIST_KEYS)
			widen(table, column, is_share(column) ? PERCENT_WIDTH : COUNT_WIDTH);
	}
	widen(table, HIST_TIME, table->options->nanoseconds ? NANOSECONDS_WIDTH : SECONDS_WIDTH);
	for (size_t i = 0; i < table->nr; i++)
		if (!table->entries[i]->place.filtered)
			measure_entry(table, &table->entries[i]->place);
	measure_earlier_comms(table);
}

static bool has_column(const struct table *table, enum hist_column column)
{
	if (place_is_field(column) && !table->has_field[column - HIST_FIELD])
		return false;
	return column >= HIST_KEYS || !table->options->hidden[column];
}

static bool table_next_column(const struct table *table, unsigned *at, enum hist_column *ret)
{
	const struct column_list *list = &table->options->columns;

	while (*at < list->nr) {
		*ret = list->columns[(*at)++];
		if (has_column(table, *ret))
			return true;
	}
	return false;
}

static void table_print_dots(FILE *to, size_t nr)
{
	while (nr--)
		fputc('.', to);
}

/* "Samples: 3K of event": never more than four digits, with a blank where there is no unit. */
static void print_title(const struct table *table)
{
	uint64_t nr_samples = table->nr_samples, period = 0;
	static const char units[] = " KMG";
	unsigned unit = 0;

	for (unsigned i = 0; i < table->subject->nr; i++)
		period += table->periods[i];
	for (; nr_samples > 1000 && units[unit + 1]; unit++)
		nr_samples /= 1000;
	fprintf(table->to, "# Samples: %" PRIu64 "%c of event%s '%s'", nr_samples, units[unit],
		table->subject->plural ? "s" : "",
		table->options->title ? table->options->title : table->subject->name);
	if (table->options->times) {
		AUTO_ESCAPED times = escaped_text(table->options->times);
		fprintf(table->to, " (time slices: %s)", times.text);
	}
	fputc('\n', table->to);
	if (table->options->sorted_by) {
		AUTO_BUF struct buf list = {0};
		column_choice_sort_words(table->options->sorted_by, &list);
		AUTO_ESCAPED words = escaped_text(buf_text(&list));
		fprintf(table->to, "# Total weight : %" PRIu64 "\n# Sort order   : %s\n#\n", period, words.text);
	} else {
		fprintf(table->to, "# Event count (approx.): %" PRIu64 "\n", period);
		if (table->options->socket.set)
			fprintf(table->to, "# Processor Socket: %" PRIu64 "\n", table->options->socket.number);
		fputs("#\n", table->to);
	}
}

/* The next of "8,0,20": 0 when there is none. */
static unsigned next_width(const char **at)
{
	char *end;
	unsigned long width = strtoul(*at, &end, 10);

	*at = *end == ',' ? end + 1 : end;
	return width <= MAX_WIDTH ? (unsigned)width : MAX_WIDTH;
}

static void set_widths(struct table *table)
{
	const char *at = table->options->widths ? table->options->widths : "";
	enum hist_column column;

	for (unsigned i = 0; table_next_column(table, &i, &column);) {
		unsigned width = next_width(&at);
		if (width)
			table->width[column] = width;
	}
}

/* Numbers have a part for each member of a group, and a title that is never cut. */
static unsigned table_column_width(const struct table *table, enum hist_column column)
{
	unsigned width = (unsigned)table->width[column], len = (unsigned)strlen(table_title(table, column));

	if (column < HIST_KEYS)
		return width;
	width *= table->subject->nr;
	return width > len ? width : len;
}

/* Between two columns; the first has none before it. */
static void print_gap(const struct table *table, bool *first)
{
	if (!*first && table->options->separator)
		fputc(table->options->separator, table->to);
	else if (!*first)
		fputs("  ", table->to);
	*first = false;
}

static void print_title_dots(const struct table *table)
{
	enum hist_column column;
	bool first = true;

	fputs("\n# ", table->to);
	for (unsigned i = 0; table_next_column(table, &i, &column);) {
		print_gap(table, &first);
		table_print_dots(table->to, table_column_width(table, column));
	}
	fputs("\n#", table->to);
}

static void print_column_titles(const struct table *table)
{
	enum hist_column column;
	bool first = true;

	fputs("# ", table->to);
	for (unsigned i = 0; table_next_column(table, &i, &column);) {
		int width = (int)table_column_width(table, column);
		print_gap(table, &first);
		if (column < HIST_KEYS && !place_is_field(column))
			fprintf(table->to, "%-*.*s", width, width, table_title(table, column));
		else
			fprintf(table->to, "%*s", width, table_title(table, column));
	}
	if (!table->options->separator)
		print_title_dots(table);
	fputc('\n', table->to);
}

/* With a separator: as it is, but for the separator in it. */
static int table_print_key(const struct table *table, enum hist_column key, const struct hist_entry *entry)
{
	const struct place_style style = {(int)table->width[key], table->options->widths, table->options->nanoseconds,
					  entry->nr_samples};
	char *text = NULL;
	size_t len = 0;

	if (!table->options->separator)
		return place_text_print(table->to, key, &entry->place, style);
	FILE *to = text_stream_open(&text, &len);
	if (!to)
		return -1;
	int taken = place_text_print(to, key, &entry->place, style);
	if (fclose(to))
		taken = -1;
	for (size_t i = 0; taken >= 0 && i < len; i++)
		fputc(text[i] == table->options->separator ? '.' : text[i], table->to);
	free(text);
	return taken;
}

static double share_of(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double table_percent(const struct table *table, unsigned member, uint64_t period)
{
	return share_of(period, table->periods[member]);
}

/* Returns the columns taken, which colours do not take. */
static unsigned print_share(const struct table *table, double share, int width)
{
	struct colour_marks colour = colour_of_share(table->options->coloured, share);

	fputs(colour.on, table->to);
	int taken = put_share(table->to, share, width);
	fputs(colour.off, table->to);
	return (unsigned)taken;
}

/* Of one member of a group. With a separator numbers stand at the left of their columns. Returns the columns taken. */
static unsigned print_number(const struct table *table, enum hist_column column, unsigned member,
			     const struct hist_entry *entry)
{
	uint64_t number = entry ? hist_number(entry, column) : 0;
	int width = table->options->separator ? 0 : (int)table->width[column];

	if (column == HIST_LATENCY)
		return print_share(table, share_of(number, table->latencies[member]), width);
	if (is_share(column))
		return print_share(table, table_percent(table, member, number), width);
	return (unsigned)fprintf(table->to, " %*" PRIu64, width > 1 ? width - 1 : 0, number);
}

static unsigned table_print_numbers(const struct table *table, enum hist_column column, const struct hist_entry *entry)
{
	int width = table->options->separator ? 0 : (int)table->width[column];
	unsigned taken;

	if (column == HIST_CHILDREN && !table->options->children)
		return (unsigned)fprintf(table->to, "%*s", width, "N/A");
	taken = print_number(table, column, 0, entry);
	for (unsigned i = 1; i < table->subject->nr; i++)
		taken += print_number(table, column, i, entry->members ? entry->members[i - 1] : NULL);
	return taken;
}

static void print_entry(const struct table *table, const struct hist_entry *entry)
{
	enum hist_column column;
	bool first = true;

	if (!table->options->separator)
		fputs("  ", table->to);
	for (unsigned i = 0; table_next_column(table, &i, &column);) {
		print_gap(table, &first);
		int taken = column < HIST_KEYS ? table_print_key(table, column, entry)
					       : (int)table_print_numbers(table, column, entry);
		/* Also when those that follow are hidden. */
		if (i < table->options->columns.nr && taken >= 0 && taken < (int)table_column_width(table, column))
			put_blanks(table->to, table_column_width(table, column) - (unsigned)taken);
	}
	fputc('\n', table->to);
}

static void count_nothing_yet(struct table *table)
{
	memset(table->periods, 0, table->subject->nr * sizeof(*table->periods));
	memset(table->latencies, 0, table->subject->nr * sizeof(*table->latencies));
	table->nr_samples = 0;
}

static void count_entry(struct table *table, const struct hist_entry *entry)
{
	for (unsigned member = 0; member < table->subject->nr; member++) {
		const struct hist_entry *part = !member ? entry : entry->members ? entry->members[member - 1] : NULL;
		table->periods[member] += part ? part->period : 0;
		table->latencies[member] += part ? part->latency : 0;
		table->nr_samples += part ? part->nr_samples : 0;
	}
}

/* What is shown is the whole. */
static void count_shown(struct table *table)
{
	count_nothing_yet(table);
	for (size_t i = 0; i < table->nr; i++)
		if (!table->entries[i]->place.filtered)
			count_entry(table, table->entries[i]);
}

/* Likewise; shares are of all that is below what is shown at the top, as in perf. */
static void count_top(struct table *table, const struct hierarchy_node *first)
{
	count_shown(table);
	uint64_t nr_samples = table->nr_samples;
	count_nothing_yet(table);
	for (const struct hierarchy_node *node = first; node; node = node->next)
		if (node->is_shown)
			count_entry(table, node->entry);
	table->nr_samples = nr_samples;
}

static void count_all(struct table *table)
{
	for (unsigned i = 0; i < table->subject->nr; i++) {
		const struct hist *hist = table->subject->hists[i];
		table->periods[i] = hist ? hist_period(hist) : 0;
		table->latencies[i] = hist ? hist_latency(hist) : 0;
		table->nr_samples += hist ? hist_nr_samples(hist) : 0;
	}
}

static int print_entries(struct table *table, struct graph *graph, size_t first, size_t end)
{
	const struct table_options *options = table->options;
	int err = 0;

	for (size_t i = first; i < end && !err && !ferror(table->to); i++) {
		const struct hist_entry *entry = table->entries[i];
		uint64_t shown = options->children ? entry->children_period : entry->period;
		if (entry->place.filtered || table_percent(table, 0, shown) < options->percent_limit)
			continue;
		print_entry(table, entry);
		if (graph)
			err = graph_print(graph, entry, shown);
	}
	return err;
}

/* A table whose rows are printed by several threads. */
struct shared_table {
	const struct table *table;
	struct graph *graph;  /* the first thread's; NULL: none */
	struct graph *graphs; /* of the others; zeroed: not used yet */
	size_t rows_of_piece;
};

/* 0 or -ENOMEM; *ret NULL: none is printed. */
static int graph_of(const struct shared_table *shared, unsigned worker, FILE *to, struct graph **ret)
{
	const struct graph *like = shared->graph;
	struct graph *graph = worker && like ? &shared->graphs[worker - 1] : shared->graph;

	if (graph && !graph->options) {
		int err = graph_init(graph, like->options, like->tally, like->lines);
		if (err) {
			*graph = (struct graph){0};
			return err;
		}
		graph->total = like->total;
		graph->shown_total = like->shown_total;
	}
	if (graph)
		graph->to = to;
	*ret = graph;
	return 0;
}

static int print_piece(void *ctx, unsigned worker, unsigned piece, FILE *to)
{
	const struct shared_table *shared = ctx;
	const size_t first = piece * shared->rows_of_piece, left = shared->table->nr - first;
	const size_t nr = left < shared->rows_of_piece ? left : shared->rows_of_piece;
	struct table table = *shared->table;
	struct graph *graph;
	int err = graph_of(shared, worker, to, &graph);

	table.to = to;
	return err ? err : print_entries(&table, graph, first, first + nr);
}

/* The rows at the top take the most time, by their graphs. */
static int print_rows(struct table *table, struct graph *graph)
{
	enum { ROWS_WITH_GRAPHS = 4, ROWS = 64, FEW_PIECES = 8 };
	const unsigned nr_workers = ordered_text_workers();
	struct shared_table shared = {.table = table, .graph = graph, .rows_of_piece = graph ? ROWS_WITH_GRAPHS : ROWS};
	const size_t nr_pieces = (table->nr + shared.rows_of_piece - 1) / shared.rows_of_piece;

	if (nr_workers < 2 || nr_pieces <= FEW_PIECES || nr_pieces > UINT_MAX)
		return print_entries(table, graph, 0, table->nr);
	shared.graphs = graph ? calloc(nr_workers - 1, sizeof(*shared.graphs)) : NULL;
	if (graph && !shared.graphs)
		return -ENOMEM;
	const struct ordered_text text = {.nr_pieces = (unsigned)nr_pieces, .put = print_piece, .ctx = &shared};
	int err = ordered_text_print(table->to, &text);
	for (unsigned i = 0; shared.graphs && i < nr_workers - 1; i++)
		graph_fini(&shared.graphs[i]);
	free(shared.graphs);
	return err;
}

/* --hierarchy: a table as a tree. */

enum { INDENT = 3 /* of a level */, NO_ENTRY_INDENT = 4 };

/*
 * Numbers stand behind a margin as wide as the deepest one's, and then the keys. With a separator there is none, and
 * in the table of an event that has none of the keys.
 */
static unsigned margin(const struct table *table)
{
	return table->options->separator || !table->nr_levels ? 0 : (table->nr_levels - 1) * INDENT;
}

/* Between columns. */
static void print_tree_gap(const struct table *table)
{
	if (table->options->separator)
		fputc(table->options->separator, table->to);
	else
		fputs("  ", table->to);
}

static bool next_number(const struct table *table, unsigned *at, enum hist_column *ret)
{
	while (table_next_column(table, at, ret))
		if (*ret >= HIST_KEYS)
			return true;
	return false;
}

/* "Command+Shared Object / Symbol". */
static void put_titles(const struct table *table, struct buf *out)
{
	for (unsigned level = 0; level < table->nr_levels; level++) {
		buf_put_text(out, level ? " / " : "");
		for (unsigned i = 0; i < table->levels[level].nr; i++) {
			const char *title = table_title(table, table->levels[level].keys[i]);
			title += strspn(title, " ");
			size_t len = strlen(title);
			while (len && title[len - 1] == ' ')
				len--;
			buf_printf(out, "%s%.*s", i ? "+" : "", (int)len, title);
		}
	}
}

/* The widest of the titles and of the levels. */
static size_t keys_width(const struct table *table, size_t titles_width)
{
	size_t widest = titles_width;

	for (unsigned level = 0; level < table->nr_levels; level++) {
		size_t width = (size_t)level * INDENT;
		for (unsigned i = 0; i < table->levels[level].nr; i++)
			width += table_column_width(table, table->levels[level].keys[i]) + (i > 0);
		if (widest < width)
			widest = width;
	}
	return widest;
}

static void print_tree_titles(const struct table *table)
{
	AUTO_BUF struct buf titles = {0};
	enum hist_column column;

	put_titles(table, &titles);
	fprintf(table->to, "# %*s", (int)margin(table), "");
	for (unsigned i = 0; next_number(table, &i, &column);) {
		fprintf(table->to, "%*s", (int)table_column_width(table, column), table_title(table, column));
		print_tree_gap(table);
	}
	fprintf(table->to, "%s\n# ", buf_text(&titles));
	table_print_dots(table->to, margin(table));
	for (unsigned i = 0, nr = 0; next_number(table, &i, &column); nr++) {
		if (nr && table->options->separator)
			fputc(table->options->separator, table->to);
		else if (nr)
			fputs("..", table->to);
		table_print_dots(table->to, table_column_width(table, column));
	}
	print_tree_gap(table);
	table_print_dots(table->to, keys_width(table, titles.len));
	fputs("\n#\n", table->to);
}

/* Without the blanks in front: fields of tracepoints stand at the left here. 0 or -ENOMEM. */
static int print_tree_key(const struct table *table, enum hist_column key, const struct hist_entry *entry)
{
	struct table into = *table;
	AUTO_FREE char *text = NULL;
	size_t len = 0;

	into.to = text_stream_open(&text, &len);
	if (!into.to)
		return -ENOMEM;
	int taken = table_print_key(&into, key, entry);
	if (fclose(into.to) || taken < 0)
		return -ENOMEM;
	int width = (int)table_column_width(table, key);
	bool pads = table->options->separator && key != HIST_SYM && !place_is_field(key);
	fprintf(table->to, "%s%*s", text + strspn(text, " "), pads && taken < width ? width - taken : 0, "");
	return 0;
}

static int print_tree_entry(const struct table *table, const struct hist_entry *entry, unsigned level)
{
	enum hist_column column;
	int err = 0;

	fprintf(table->to, "%*s", (int)level * INDENT, "");
	for (unsigned i = 0, nr = 0; next_number(table, &i, &column); nr++) {
		if (nr || !table->options->separator)
			print_tree_gap(table);
		int taken = (int)table_print_numbers(table, column, entry),
		    width = (int)table_column_width(table, column);
		fprintf(table->to, "%*s", taken < width ? width - taken : 0, "");
	}
	fprintf(table->to, "%*s", (int)margin(table), "");
	for (unsigned i = 0; i < table->levels[level].nr && !err; i++) {
		print_tree_gap(table);
		err = print_tree_key(table, table->levels[level].keys[i], entry);
	}
	fputc('\n', table->to);
	return err;
}

static bool is_printed(const struct table *table, const struct hierarchy_node *node)
{
	return node->is_shown && table_percent(table, 0, node->entry->period) >= table->options->percent_limit;
}

static bool any_is_printed(const struct table *table, const struct hierarchy_node *node)
{
	for (; node; node = node->next)
		if (is_printed(table, node))
			return true;
	return false;
}

static void print_no_entry(const struct table *table, unsigned level)
{
	unsigned width = NO_ENTRY_INDENT, nr = 0;
	enum hist_column column;

	for (unsigned i = 0; next_number(table, &i, &column); nr++)
		width += table_column_width(table, column) + (nr ? (unsigned)strlen("  ") : 0);
	if (!table->options->separator)
		width += (table->nr_levels + level) * INDENT;
	fprintf(table->to, "%*sno entry >= %.2f%%\n", (int)width, "", table->options->percent_limit);
}

static int print_level(const struct table *table, const struct hierarchy_node *node, unsigned level,
		       struct graph *graph)
{
	int err = 0;

	for (; node && !err && !ferror(table->to); node = node->next) {
		if (!is_printed(table, node))
			continue;
		err = print_tree_entry(table, node->entry, level);
		if (!err && node->is_leaf && graph)
			err = graph_print(graph, node->entry, node->entry->period);
		if (!node->is_leaf && !any_is_printed(table, node->below))
			print_no_entry(table, level);
		if (!err)
			err = print_level(table, node->below, level + 1, graph);
	}
	return err;
}

/* Those of --hierarchy, without keys that are fields which this event has not. */
static void set_levels(struct table *table)
{
	for (unsigned i = 0; i < table->options->nr_levels; i++) {
		const struct hierarchy_level *from = &table->options->levels[i];
		struct hierarchy_level *to = &table->levels[table->nr_levels];
		to->nr = 0;
		for (unsigned key = 0; key < from->nr; key++)
			if (has_column(table, from->keys[key]))
				to->keys[to->nr++] = from->keys[key];
		table->nr_levels += to->nr > 0;
	}
}

/* graph: prints one below each entry; NULL: none. 0 or -ENOMEM; errors of `to` are left to the caller (ferror). */
static int table_print(FILE *to, const struct table_subject *subject, const struct table_options *options,
		       struct graph *graph)
{
	AUTO_FREE uint64_t *sums = calloc(2ull * subject->nr, sizeof(*sums));
	struct table table = {.to = to,
			      .options = options,
			      .subject = subject,
			      .periods = sums,
			      .latencies = sums ? sums + subject->nr : NULL};
	AUTO_HIERARCHY struct hierarchy *hierarchy = NULL;
	int err = sums ? hist_sort(subject->hists[0], &table.entries, &table.nr) : -ENOMEM;

	if (err)
		return err;
	measure(&table);
	set_widths(&table);
	if (options->nr_levels) {
		set_levels(&table);
		err = hierarchy_new(subject->hists[0], table.levels, table.nr_levels, &hierarchy);
	}
	if (err)
		return err;
	count_all(&table);
	if (options->relative && hierarchy)
		count_top(&table, hierarchy_first(hierarchy));
	else if (options->relative)
		count_shown(&table);
	if (!options->headless) {
		print_title(&table);
		if (hierarchy)
			print_tree_titles(&table);
		else
			print_column_titles(&table);
	}
	if (graph) {
		graph->total = hist_period(subject->hists[0]);
		graph->shown_total = sums[0];
		graph->to = to;
	}
	err = hierarchy ? print_level(&table, hierarchy_first(hierarchy), 0, graph) : print_rows(&table, graph);
	fputs("\n\n", to);
	return err;
}

static bool has_chains(const struct event_desc *event)
{
	return event->attr.sample_type & PERF_SAMPLE_CALLCHAIN;
}

static bool has_any_chains(const struct report_tables *tables)
{
	size_t nr_events;
	const struct event_desc *events = session_events(tables->session, &nr_events);

	for (size_t i = 0; i < nr_events; i++)
		if (has_chains(&events[i]))
			return true;
	return false;
}

/* Sets those of `groups`, which are each of one event, that begin a recorded group. Returns whether there are any. */
static bool find_recorded(const struct session *session, struct report_group groups[], size_t nr_events)
{
	struct feature_list list;
	struct feature_group found;
	struct span payload;
	bool any = false;

	if (!session_feature(session, FEATURE_GROUP_DESC, &payload) || feature_list_open(payload, &list))
		return false;
	while (feature_list_group(&list, &found) > 0) {
		if (found.leader >= nr_events || found.members < 2 || found.members > nr_events - found.leader ||
		    groups[found.leader].nr > 1)
			continue;
		groups[found.leader] = (struct report_group){
			.first = found.leader,
			.nr = found.members,
			.name = strcmp(found.name, "{anon_group}") == 0 ? "anon group" : found.name,
			.braces = true,
		};
		any = true;
	}
	return any;
}

void report_group_put_name(const struct report_group *group, const struct event_desc *events, struct buf *out)
{
	if (group->braces)
		escape_put_text(out, group->name);
	buf_put_text(out, group->braces ? " { " : "");
	for (size_t i = 0; i < group->nr; i++) {
		buf_put_text(out, i ? ", " : "");
		escape_put_text(out, events[group->first + i].name);
	}
	if (group->braces)
		buf_put_text(out, " }");
}

static int print_with_graph(const struct report_tables *tables, const struct table_subject *subject,
			    const struct event_samples *samples, const struct event_desc *event, FILE *to)
{
	const struct report_options *options = tables->options;
	struct frame_lines lines;
	struct graph graph = {0};

	if (options->graph.mode == GRAPH_NONE || !has_chains(event))
		return table_print(to, subject, &options->table, NULL);
	int err = frame_lines_init(&lines, &options->graph, tables->samples);
	if (!err)
		err = graph_init(&graph, &options->graph, &samples->tally, &lines);
	if (!err)
		err = table_print(to, subject, &options->table, &graph);
	graph_fini(&graph);
	frame_lines_fini(&lines);
	return err;
}

static bool any(struct hist *const hists[], size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (hists[i])
			return true;
	return false;
}

/* A group whose events all have no samples has no table. */
static int print_group(const struct report_tables *tables, const struct report_group *group, FILE *to)
{
	size_t nr_events, nr_sampled = tables->samples->nr;
	const struct event_desc *events = session_events(tables->session, &nr_events);
	AUTO_FREE struct hist **hists = calloc(group->nr, sizeof(*hists));
	struct event_samples *leader = group->first < nr_sampled ? &tables->samples->events[group->first] : NULL;
	AUTO_BUF struct buf name = {0};
	int err = 0;

	if (!hists)
		return -ENOMEM;
	for (size_t i = 0; i < group->nr && group->first + i < nr_sampled; i++)
		hists[i] = leader[i].hist;
	if (!any(hists, group->nr))
		return 0;
	if (!hists[0])
		err = samples_make_hist(tables->samples, group->first, &hists[0]);
	if (!err && group->nr > 1)
		err = hist_link(hists[0], hists + 1, (unsigned)group->nr - 1);
	report_group_put_name(group, events, &name);
	const struct table_subject subject = {
		.hists = hists, .nr = (unsigned)group->nr, .plural = group->plural, .name = buf_text(&name)};
	return err ? err : print_with_graph(tables, &subject, leader, &events[group->first], to);
}

int report_groups_find(const struct report_options *options, const struct session *session, struct report_group **ret,
		       size_t *ret_nr)
{
	size_t nr_events, nr = 0;

	session_events(session, &nr_events);
	struct report_group *groups = calloc(nr_events + 1, sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < nr_events; i++)
		groups[i] = (struct report_group){.first = i, .nr = 1};
	bool any = find_recorded(session, groups, nr_events);
	bool all = options->groups == GROUPS_ALL && nr_events && !any;
	for (size_t i = 0; i < nr_events; i += groups[nr++].nr) {
		struct report_group group = groups[i];
		if (all)
			group = (struct report_group){.nr = nr_events};
		else if (options->groups == GROUPS_NONE)
			group = (struct report_group){.first = i, .nr = 1};
		group.plural = group.nr > 1 || groups[i].nr > 1;
		groups[nr] = group;
	}
	*ret = groups;
	*ret_nr = nr;
	return 0;
}

static int print_groups(const struct report_tables *tables, FILE *to)
{
	AUTO_FREE struct report_group *groups = NULL;
	size_t nr = 0;
	int err = report_groups_find(tables->options, tables->session, &groups, &nr);

	for (size_t i = 0; i < nr && !err; i++)
		err = print_group(tables, &groups[i], to);
	return err;
}

static void complete_table_options(const struct report_tables *tables)
{
	struct report_options *options = tables->options;
	struct table_options *table = &options->table;
	bool children = tables->samples->children;

	column_choice_shown(&options->columns, children, &table->columns);
	table->self_named = children && !options->columns.fields.nr;
	table->children = children;
	table->headless = options->quiet;
	table->coloured = options->graph.coloured = colour_wanted(options->colour, pager_terminal());
	table->dso_list = options->samples.filter.dsos;
	table->socket = options->samples.socket;
}

static int print_json(const struct report_tables *tables, const struct event_desc *events, size_t nr_events, FILE *to)
{
	const struct report_json_options json = {
		.percent_limit = tables->options->table.percent_limit,
		.lost_samples = tables->lost_samples,
		.title = tables->options->table.title,
		.hints = tables->hints,
	};

	return report_json_print(tables->samples, events, nr_events, &json, to);
}

int report_tables_print(const struct report_tables *tables, FILE *to, struct diag *reterr)
{
	size_t nr_events;
	const struct event_desc *events = session_events(tables->session, &nr_events);

	const struct samples_options *samples = &tables->options->samples;
	if ((samples->filter.cpus || samples->socket.set) && sample_filter_check_cpus(tables->session, reterr))
		return -EINVAL;
	const struct graph_options *graph = &tables->options->graph;
	if (graph->wanted && graph->mode != GRAPH_NONE && !has_any_chains(tables))
		return diag_set(reterr, -EINVAL,
				"this recording has no call chains to make a graph of: record it with -g");
	if (hist_has_key(&samples->hist, HIST_PARENT) && !has_any_chains(tables))
		return diag_set(
			reterr, -EINVAL,
			"the key parent needs call chains, which this recording does not have: record it with -g");
	int err = samples_count(tables->samples);
	if (!err)
		err = hints_make(tables->samples, tables->hints);
	if (!err && tables->options->json) {
		err = print_json(tables, events, nr_events, to);
	} else if (!err) {
		complete_table_options(tables);
		if (!tables->options->quiet && tables->lost_samples != LOST_UNKNOWN)
			fprintf(to, "#\n# Total Lost Samples: %" PRIu64 "\n#\n", tables->lost_samples);
		err = print_groups(tables, to);
	}
	return err ? diag_set(reterr, err, "out of memory") : 0;
}
