/* SPDX-License-Identifier: MIT */
#include "cmd/report_table.h"

#include <inttypes.h>
#include <string.h>

#include "cmd/report_graph.h"

enum {
	PERCENT_WIDTH = 8,
	COUNT_WIDTH = 12,
	ADDRESS_DIGITS = 16,
	LEVEL_WIDTH = 4, /* "[.] " */
	TID_WIDTH = 8,   /* "%7d:" */
};

static const char *const titles[HIST_KEYS] = {
	[HIST_COMM] = "Command",        [HIST_DSO] = "Shared Object", [HIST_SYM] = "Symbol",
	[HIST_TID] = "    Pid:Command", [HIST_CPU] = "CPU",
};

struct table {
	FILE *to;
	const struct table_options *options;
	struct hist_entry *const *entries;
	size_t nr;
	uint64_t period; /* what is 100 % */
	size_t width[HIST_KEYS];
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

static void print_column_titles(const struct table *table)
{
	const struct table_options *options = table->options;
	FILE *to = table->to;

	if (options->hist.children)
		fprintf(to, "# %*s  %*s", PERCENT_WIDTH, "Children", PERCENT_WIDTH, "Self");
	else
		fprintf(to, "# %*s", PERCENT_WIDTH, "Overhead");
	if (options->sample_counts)
		fprintf(to, "  %*s", COUNT_WIDTH, "Samples");
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		enum hist_key key = options->hist.keys[i];
		if (!options->hidden[key])
			fprintf(to, "  %-*s", (int)table->width[key], titles[key]);
	}
	fputs("\n# ", to);
	print_dots(to, PERCENT_WIDTH);
	if (options->hist.children) {
		fputs("  ", to);
		print_dots(to, PERCENT_WIDTH);
	}
	if (options->sample_counts) {
		fputs("  ", to);
		print_dots(to, COUNT_WIDTH);
	}
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		enum hist_key key = options->hist.keys[i];
		if (options->hidden[key])
			continue;
		fputs("  ", to);
		print_dots(to, table->width[key]);
	}
	fputs("\n#\n", to);
}

/* Returns the columns taken. */
static int print_key(const struct table *table, enum hist_key key, const struct hist_place *place)
{
	int width = (int)table->width[key];

	switch (key) {
	case HIST_COMM:
		return fprintf(table->to, "%-*.*s", width, width, place->comm->text);
	case HIST_DSO:
		return fprintf(table->to, "%-*s", width, dso_text(place));
	case HIST_SYM:
		if (place->symbol)
			return fprintf(table->to, "[%c] %s%s", place->level, place->symbol->name,
				       place->symbol->inlined ? " (inlined)" : "");
		return fprintf(table->to, "[%c] %-#.*" PRIx64, place->level, ADDRESS_DIGITS, place->address);
	case HIST_TID:
		return fprintf(table->to, "%7d:%-*s", (int)place->tid, width - TID_WIDTH,
			       task_comm(place->task));
	case HIST_CPU:
		return fprintf(table->to, "%.*d", width, place->cpu);
	default:
		return 0;
	}
}

static double percent(const struct table *table, uint64_t period)
{
	return table->period ? 100.0 * (double)period / (double)table->period : 0;
}

static void print_entry(const struct table *table, const struct hist_entry *entry)
{
	const struct table_options *options = table->options;
	enum hist_key last = last_key(options);

	if (options->hist.children)
		fprintf(table->to, "  %*.2f%%", PERCENT_WIDTH - 1, percent(table, entry->children_period));
	fprintf(table->to, "  %*.2f%%", PERCENT_WIDTH - 1, percent(table, entry->period));
	if (options->sample_counts)
		fprintf(table->to, "  %*" PRIu64, COUNT_WIDTH, entry->nr_samples);
	for (unsigned i = 0; i < options->hist.nr_keys; i++) {
		enum hist_key key = options->hist.keys[i];
		if (options->hidden[key])
			continue;
		fputs("  ", table->to);
		int taken = print_key(table, key, &entry->place);
		if (key != last && taken >= 0 && taken < (int)table->width[key])
			fprintf(table->to, "%*s", (int)table->width[key] - taken, "");
	}
	fputc('\n', table->to);
}

int table_print(FILE *to, struct hist *hist, const char *event_name, const struct table_options *options,
		struct graph *graph)
{
	struct table table = {.to = to, .options = options, .period = hist_period(hist)};
	int err = hist_sort(hist, &table.entries, &table.nr);

	if (err)
		return err;
	measure(&table);
	if (!options->headless) {
		print_title(&table, hist_nr_samples(hist), event_name);
		print_column_titles(&table);
	}
	if (graph) {
		graph->total = table.period;
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
