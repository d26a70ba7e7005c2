/* SPDX-License-Identifier: MIT */
/* The layout is that of perf diff. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "cmd/diff/diff.h"
#include "cmd/text/place_text.h"

enum column_kind { BASELINE, BASE_PERIOD, VALUE, FORMULA, PERIOD };

/* A column of numbers. */
struct column {
	enum column_kind kind;
	unsigned file;
	char title[32];
	int width;
};

enum { COLUMNS_OF_FILE = 3, CELL_BYTES = 128 };

struct table {
	const struct diff_rows *rows;
	const struct diff_options *options;
	FILE *to;
	struct column *columns;
	unsigned nr_columns;
	int widths[HIST_KEYS]; /* of the keys */
};

static void add_column(struct table *table, enum column_kind kind, unsigned file)
{
	static const char *const values[] = {"Delta", "Delta Abs", "Ratio", "Weighted diff"};
	static const int value_widths[] = {7, 7, 14, 14};
	const char *titles[] = {"Baseline", "Base period", values[table->options->compute], "Formula", "Period"};
	const int widths[] = {8, 14, value_widths[table->options->compute], 70, 14};
	struct column *column = &table->columns[table->nr_columns++];

	*column = (struct column){.kind = kind, .file = file};
	int len = table->rows->nr_files > 2
			  ? snprintf(column->title, sizeof(column->title), "%s/%u", titles[kind], file)
			  : snprintf(column->title, sizeof(column->title), "%s", titles[kind]);
	column->width = len > widths[kind] ? len : widths[kind];
}

static int add_columns(struct table *table)
{
	const struct diff_options *options = table->options;

	table->columns = calloc((size_t)table->rows->nr_files * COLUMNS_OF_FILE, sizeof(*table->columns));
	if (!table->columns)
		return -1;
	for (unsigned file = 0; file < table->rows->nr_files; file++) {
		add_column(table, file ? VALUE : BASELINE, file);
		if (options->formula && file)
			add_column(table, FORMULA, file);
		if (options->periods)
			add_column(table, file ? PERIOD : BASE_PERIOD, file);
	}
	return 0;
}

static void put_value(const struct table *table, const struct diff_row *row, unsigned file, char *out)
{
	const struct diff_options *options = table->options;
	double value = diff_value(table->rows, row, file, options);

	if (options->compute <= DIFF_DELTA_ABS)
		snprintf(out, CELL_BYTES, "%+.2f%%", value);
	else if (!row->cells[0].has)
		snprintf(out, CELL_BYTES, "N/A");
	else if (options->compute == DIFF_RATIO)
		snprintf(out, CELL_BYTES, "%14.6f", value);
	else
		snprintf(out, CELL_BYTES, "%14.0f%s", value, table->rows->nr_files > 2 ? " " : "");
}

static void put_formula(const struct table *table, const struct diff_row *row, unsigned file, char *out)
{
	const struct diff_options *options = table->options;
	uint64_t before = row->cells[0].period, after = row->cells[file].period;

	switch (options->compute) {
	case DIFF_RATIO: snprintf(out, CELL_BYTES, "%" PRIu64 " / %" PRIu64, after, before); break;
	case DIFF_WDIFF:
		snprintf(out, CELL_BYTES, "(%" PRIu64 " * %" PRId64 ") - (%" PRIu64 " * %" PRId64 ")", after,
			 options->weight_data, before, options->weight_baseline);
		break;
	default:
		snprintf(out, CELL_BYTES, "(%" PRIu64 " * 100 / %" PRIu64 ") - (%" PRIu64 " * 100 / %" PRIu64 ")",
			 after, table->rows->totals[file], before, table->rows->totals[0]);
	}
}

static void put_cell(const struct table *table, const struct diff_row *row, const struct column *column, char *out)
{
	const struct diff_cell *cell = &row->cells[column->file];
	double percent = diff_baseline_percent(table->rows, row);

	out[0] = '\0';
	if (column->kind == BASE_PERIOD)
		snprintf(out, CELL_BYTES, "%" PRIu64, cell->period);
	if (!cell->has)
		return;
	switch (column->kind) {
	case BASELINE: snprintf(out, CELL_BYTES, table->options->separator ? "%.2f" : "%.2f%%", percent); break;
	case VALUE: put_value(table, row, column->file, out); break;
	case FORMULA: put_formula(table, row, column->file, out); break;
	case PERIOD: snprintf(out, CELL_BYTES, "%" PRIu64, cell->period); break;
	default: break;
	}
}

/* The text of a key, with the separator taken out of it, as it is printed. NULL: out of memory. */
static char *key_text(const struct table *table, enum hist_column key, const struct hist_place *place, int *ret_width)
{
	char separator = table->options->separator, *text = NULL;
	size_t len;
	FILE *to = text_stream_open(&text, &len);

	if (!to)
		return NULL;
	*ret_width = place_text_print(to, key, place, (struct place_style){0});
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	for (char *at = text; separator && *at; at++)
		*at = *at == separator ? '.' : *at;
	return text;
}

static bool has_key(const struct diff_options *options, enum hist_column key)
{
	for (unsigned i = 0; i < options->nr_keys; i++)
		if (options->keys[i] == key)
			return true;
	return false;
}

/* As in perf the object of an address without a symbol takes as much room as an address has digits. */
static int least_width(const struct diff_options *options, enum hist_column key, const struct hist_place *place)
{
	const bool widens = key == HIST_DSO && !place->symbol && has_key(options, HIST_SYM);

	return widens && !options->dso_list && !options->separator ? PLACE_ADDRESS_DIGITS : 0;
}

static void measure(struct table *table)
{
	const struct diff_options *options = table->options;

	for (unsigned i = 0; i < options->nr_keys; i++) {
		enum hist_column key = options->keys[i];
		table->widths[i] = (int)strlen(place_column_title(key));
		for (size_t j = 0; j < table->rows->nr; j++) {
			const struct hist_place *place = &table->rows->rows[j]->place;
			const int least = least_width(options, key, place);
			int width = 0;
			free(key_text(table, key, place, &width));
			width = width > least ? width : least;
			table->widths[i] = width > table->widths[i] ? width : table->widths[i];
		}
	}
}

static void print_separator(const struct table *table, bool first)
{
	char separator = table->options->separator;

	if (separator && !first)
		fputc(separator, table->to);
	else if (!separator)
		fputs("  ", table->to);
}

static void print_heads(const struct table *table, bool dots)
{
	const struct diff_options *options = table->options;
	static const char line[] = "................................................................................"
				   "................................................................................";

	fputs(options->separator ? "# " : "#", table->to);
	for (unsigned i = 0; i < table->nr_columns; i++) {
		const struct column *column = &table->columns[i];
		if (i || !options->separator)
			fputs(options->separator ? (char[]){options->separator, 0} : i ? "  " : " ", table->to);
		if (dots)
			fprintf(table->to, "%.*s", column->width, line);
		else
			fprintf(table->to, "%*s", column->width, column->title);
	}
	for (unsigned i = 0; i < options->nr_keys; i++) {
		if (options->hidden[options->keys[i]])
			continue;
		print_separator(table, false);
		for (int at = 0; dots && at < table->widths[i]; at++)
			fputc('.', table->to);
		if (!dots)
			fprintf(table->to, "%-*s", table->widths[i], place_column_title(options->keys[i]));
	}
	fputc('\n', table->to);
}

static void print_row(const struct table *table, const struct diff_row *row)
{
	const struct diff_options *options = table->options;
	unsigned last = options->nr_keys;
	char cell[CELL_BYTES];

	for (unsigned i = 0; i < options->nr_keys; i++)
		last = options->hidden[options->keys[i]] ? last : i;
	for (unsigned i = 0; i < table->nr_columns; i++) {
		const struct column *column = &table->columns[i];
		put_cell(table, row, column, cell);
		print_separator(table, !i);
		fprintf(table->to, options->separator ? "%-*s" : "%*s", column->width, cell);
	}
	for (unsigned i = 0; i < options->nr_keys; i++) {
		if (options->hidden[options->keys[i]])
			continue;
		int width = 0;
		char *text = key_text(table, options->keys[i], &row->place, &width);
		print_separator(table, false);
		fputs(text ? text : "", table->to);
		/* As in perf a symbol at the end is not padded. */
		if (width < table->widths[i] && (options->keys[i] != HIST_SYM || i != last))
			fprintf(table->to, "%*s", table->widths[i] - width, "");
		free(text);
	}
	fputc('\n', table->to);
}

static void print_title(const struct table *table, const char *event, const char *const *files)
{
	AUTO_ESCAPED name = escaped_text(event);

	fprintf(table->to, "# Event '%s'\n#\n", name.text);
	if (table->rows->nr_files < 3)
		return;
	fputs("# Data files:\n", table->to);
	for (unsigned i = 0; i < table->rows->nr_files; i++) {
		AUTO_ESCAPED path = escaped_text(files[i]);
		fprintf(table->to, "#  [%u] %s %s\n", i, path.text, i ? "" : "(Baseline)");
	}
	fputs("#\n", table->to);
}

void diff_table_print(const struct diff_rows *rows, const char *event, const char *const *files,
		      const struct diff_options *options, FILE *to)
{
	struct table table = {.rows = rows, .options = options, .to = to};

	if (add_columns(&table))
		return;
	measure(&table);
	if (!options->quiet) {
		print_title(&table, event, files);
		print_heads(&table, false);
		if (!options->separator) {
			print_heads(&table, true);
			fputs("#\n", to);
		}
	}
	for (size_t i = 0; i < rows->nr; i++)
		print_row(&table, rows->rows[i]);
	free(table.columns);
}
