/* SPDX-License-Identifier: MIT */
#include "cmd/report_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report_graph.h"

enum {
	PERCENT_WIDTH = 8,
	COUNT_WIDTH = 12,
	ADDRESS_DIGITS = 16,
	LEVEL_WIDTH = 4, /* "[.] " */
	TID_WIDTH = 8,   /* "%7d:" */
	MAX_WIDTH = 10000,
};

static const char *const titles[HIST_KEYS] = {
	[HIST_COMM] = "Command",        [HIST_DSO] = "Shared Object", [HIST_SYM] = "Symbol",
	[HIST_TID] = "    Pid:Command", [HIST_CPU] = "CPU",
};

enum number { NUMBER_CHILDREN, NUMBER_SELF, NUMBER_SAMPLES, NUMBER_PERIOD };

/* A column of numbers; they stand before those of the keys. */
struct number_column {
	enum number what;
	const char *title;
	unsigned width;
};

struct table {
	FILE *to;
	const struct table_options *options;
	struct hist_entry *const *entries;
	size_t nr;
	uint64_t period; /* what is 100 % */
	uint64_t nr_samples;
	size_t width[HIST_KEYS];
	struct number_column numbers[4];
	unsigned nr_numbers;
};

static void widen(struct table *table, enum hist_key key, size_t width)
{
	if (table->width[key] < width)
		table->width[key] = width;
}

static const char *dso_text(const struct hist_place *place)
{
	return place->dso ? dso_short_name(place->dso) : "[unknown]";
}

static void measure_entry(struct table *table, const struct hist_place *place)
{
	size_t comm =
		strlen(task_comm(place->task)); /* its last one; an earlier one may be cut, as in perf */

	widen(table, HIST_COMM, comm);
	widen(table, HIST_TID, comm + TID_WIDTH);
	if (place->dso)
		widen(table, HIST_DSO, strlen(dso_text(place)));
	if (place->symbol) {
		widen(table, HIST_SYM, LEVEL_WIDTH + strlen(place->symbol->name));
		return;
	}
	widen(table, HIST_SYM, LEVEL_WIDTH + ADDRESS_DIGITS + 2);
	if (!table->options->dso_list)
		widen(table, HIST_DSO, ADDRESS_DIGITS);
}

static void measure(struct table *table)
{
	for (unsigned key = 0; key < HIST_KEYS; key++)
		widen(table, key, strlen(titles[key]));
	for (size_t i = 0; i < table->nr; i++)
		if (!table->entries[i]->place.filtered)
			measure_entry(table, &table->entries[i]->place);
}

static enum hist_key last_key(const struct table_options *options)
{
	enum hist_key last = HIST_KEYS;

	for (unsigned i = 0; i < options->hist.nr_keys; i++)
		if (!options->hidden[options->hist.keys[i]])
			last = options->hist.keys[i];
	return last;
}

static void print_dots(FILE *to, size_t nr)
{
	while (nr--)
		fputc('.', to);
}

/* "Samples: 3K of event": never more than four digits, with a blank where there is no unit. */
static void print_title(const struct table *table, uint64_t nr_samples, const char *event_name)
{
	static const char units[] = " KMG";
	unsigned unit = 0;

	for (; nr_samples > 1000 && units[unit + 1]; unit++)
		nr_samples /= 1000;
	fprintf(table->to,
		"# Samples: %" PRIu64 "%c of event '%s'\n# Event count (approx.): %" PRIu64 "\n#\n",
		nr_samples, units[unit], event_name, table->period);
}

static void add_number(struct table *table, enum number what, const char *title, unsigned width)
{
	table->numbers[table->nr_numbers++] = (struct number_column){what, title, width};
}

static void choose_numbers(struct table *table)
{
	const struct table_options *options = table->options;

	if (options->hist.children)
		add_number(table, NUMBER_CHILDREN, "Children", PERCENT_WIDTH);
	add_number(table, NUMBER_SELF, options->hist.children ? "Self" : "Overhead", PERCENT_WIDTH);
	if (options->sample_counts)
		add_number(table, NUMBER_SAMPLES, "Samples", COUNT_WIDTH);
	if (options->periods)
		add_number(table, NUMBER_PERIOD, "Period", COUNT_WIDTH);
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
	const struct table_options *options = table->options;
	const char *at = options->widths ? options->widths : "";

	for (unsigned i = 0; i < table->nr_numbers; i++) {
		unsigned width = next_width(&at);
		if (width)
			table->numbers[i].width = width;
	}
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		enum hist_key key = options->hist.keys[i];
		unsigned width = options->hidden[key] ? 0 : next_width(&at);
		if (width)
			table->width[key] = width;
	}
}

/* A title is never cut where numbers stand below it. */
static unsigned title_width(const struct number_column *column)
{
	unsigned len = (unsigned)strlen(column->title);

	return column->width > len ? column->width : len;
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
	const struct table_options *options = table->options;
	bool first = true;

	fputs("\n# ", table->to);
	for (unsigned i = 0; i < table->nr_numbers; i++) {
		print_gap(table, &first);
		print_dots(table->to, title_width(&table->numbers[i]));
	}
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		if (options->hidden[options->hist.keys[i]])
			continue;
		print_gap(table, &first);
		print_dots(table->to, table->width[options->hist.keys[i]]);
	}
	fputs("\n#", table->to);
}

static void print_column_titles(const struct table *table)
{
	const struct table_options *options = table->options;
	bool first = true;

	fputs("# ", table->to);
	for (unsigned i = 0; i < table->nr_numbers; i++) {
		print_gap(table, &first);
		fprintf(table->to, "%*s", (int)title_width(&table->numbers[i]), table->numbers[i].title);
	}
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		enum hist_key key = options->hist.keys[i];
		int width = (int)table->width[key];
		if (options->hidden[key])
			continue;
		print_gap(table, &first);
		fprintf(table->to, "%-*.*s", width, width, titles[key]);
	}
	if (!options->separator)
		print_title_dots(table);
	fputc('\n', table->to);
}

/* Returns the columns taken. */
static int print_key_to(FILE *to, const struct table *table, enum hist_key key, const struct hist_place *place)
{
	int width = (int)table->width[key];
	/* Only a width that was asked for cuts a name; -1: none. */
	int name_width = !table->options->widths ? -1 : width > LEVEL_WIDTH ? width - LEVEL_WIDTH : 0;

	switch (key) {
	case HIST_COMM:
		return fprintf(to, "%-*.*s", width, width, place->comm->text);
	case HIST_DSO:
		return fprintf(to, "%-*.*s", width, width, dso_text(place));
	case HIST_SYM:
		if (place->symbol)
			return fprintf(to, "[%c] %.*s%s", place->level, name_width, place->symbol->name,
				       place->symbol->inlined ? " (inlined)" : "");
		return fprintf(to, "[%c] %-#.*" PRIx64, place->level, ADDRESS_DIGITS, place->address);
	case HIST_TID:
		width = width > TID_WIDTH ? width - TID_WIDTH : 0;
		return fprintf(to, "%7d:%-*.*s", (int)place->tid, width, table->options->widths ? width : -1,
			       task_comm(place->task));
	case HIST_CPU:
		return fprintf(to, "%.*d", width, place->cpu);
	default:
		return 0;
	}
}

/* With a separator: as it is, but for the separator in it. */
static int print_key(const struct table *table, enum hist_key key, const struct hist_place *place)
{
	char *text = NULL;
	size_t len = 0;

	if (!table->options->separator)
		return print_key_to(table->to, table, key, place);
	FILE *to = open_memstream(&text, &len);
	if (!to)
		return -1;
	int taken = print_key_to(to, table, key, place);
	if (fclose(to))
		taken = -1;
	for (size_t i = 0; taken >= 0 && i < len; i++)
		fputc(text[i] == table->options->separator ? '.' : text[i], table->to);
	free(text);
	return taken;
}

static double percent(const struct table *table, uint64_t period)
{
	return table->period ? 100.0 * (double)period / (double)table->period : 0;
}

/* With a separator numbers stand at the left of their columns. */
static void print_number(const struct table *table, const struct number_column *column, const struct hist_entry *entry)
{
	bool aligned = !table->options->separator;
	int width = (int)column->width, taken = 0;

	switch (column->what) {
	case NUMBER_CHILDREN:
	case NUMBER_SELF: {
		uint64_t period = column->what == NUMBER_CHILDREN ? entry->children_period : entry->period;
		taken = fprintf(table->to, " %*.2f%%", aligned && width > 2 ? width - 2 : 0, percent(table, period));
		break;
	}
	case NUMBER_SAMPLES:
		taken = fprintf(table->to, " %*" PRIu64, aligned && width > 1 ? width - 1 : 0, entry->nr_samples);
		break;
	case NUMBER_PERIOD:
		taken = fprintf(table->to, " %*" PRIu64, aligned && width > 1 ? width - 1 : 0, entry->period);
		break;
	}
	if (taken >= 0 && taken < (int)title_width(column))
		fprintf(table->to, "%*s", (int)title_width(column) - taken, "");
}

static void print_entry(const struct table *table, const struct hist_entry *entry)
{
	const struct table_options *options = table->options;
	enum hist_key last = last_key(options);
	bool first = true;

	if (!options->separator)
		fputs("  ", table->to);
	for (unsigned i = 0; i < table->nr_numbers; i++) {
		print_gap(table, &first);
		print_number(table, &table->numbers[i], entry);
	}
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		enum hist_key key = options->hist.keys[i];
		if (options->hidden[key])
			continue;
		print_gap(table, &first);
		int taken = print_key(table, key, &entry->place);
		if (key != last && taken >= 0 && taken < (int)table->width[key])
			fprintf(table->to, "%*s", (int)table->width[key] - taken, "");
	}
	fputc('\n', table->to);
}

/* What is shown is the whole. */
static void count_shown(struct table *table)
{
	table->period = table->nr_samples = 0;
	for (size_t i = 0; i < table->nr; i++) {
		const struct hist_entry *entry = table->entries[i];
		table->period += entry->place.filtered ? 0 : entry->period;
		table->nr_samples += entry->place.filtered ? 0 : entry->nr_samples;
	}
}

int table_print(FILE *to, struct hist *hist, const char *event_name, const struct table_options *options,
		struct graph *graph)
{
	struct table table = {.to = to, .options = options, .period = hist_period(hist), .nr_samples = hist_nr_samples(hist)};
	int err = hist_sort(hist, &table.entries, &table.nr);

	if (err)
		return err;
	if (options->relative)
		count_shown(&table);
	measure(&table);
	choose_numbers(&table);
	set_widths(&table);
	if (!options->headless) {
		print_title(&table, table.nr_samples, event_name);
		print_column_titles(&table);
	}
	if (graph) {
		graph->total = hist_period(hist);
		graph->shown_total = table.period;
		graph->to = to;
	}
	for (size_t i = 0; i < table.nr && !err && !ferror(to); i++) {
		const struct hist_entry *entry = table.entries[i];
		uint64_t shown = options->hist.children ? entry->children_period : entry->period;
		if (entry->place.filtered || percent(&table, shown) < options->percent_limit)
			continue;
		print_entry(&table, entry);
		if (graph)
			err = graph_print(graph, entry, shown);
	}
	fputs("\n\n", to);
	return err;
}
