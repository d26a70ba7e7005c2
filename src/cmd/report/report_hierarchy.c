/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/report/report_table.h"
#include "cmd/text/place_text.h"

enum { INDENT = 3 /* of a level */, NO_ENTRY_INDENT = 4 };

/* Numbers stand behind a margin as wide as the deepest one's, and then the keys. With a separator there is none. */
static unsigned margin(const struct table *table)
{
	return table->options->separator ? 0 : (table->nr_levels - 1) * INDENT;
}

/* Between columns. */
static void print_gap(const struct table *table)
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

void hierarchy_print_titles(const struct table *table)
{
	AUTO_BUF struct buf titles = {0};
	enum hist_column column;

	put_titles(table, &titles);
	fprintf(table->to, "# %*s", (int)margin(table), "");
	for (unsigned i = 0; next_number(table, &i, &column);) {
		fprintf(table->to, "%*s", (int)table_column_width(table, column), table_title(table, column));
		print_gap(table);
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
	print_gap(table);
	table_print_dots(table->to, keys_width(table, titles.len));
	fputs("\n#\n", table->to);
}

/* Without the blanks in front: fields of tracepoints stand at the left here. 0 or -ENOMEM. */
static int print_key(const struct table *table, enum hist_column key, const struct hist_entry *entry)
{
	struct table into = *table;
	AUTO_FREE char *text = NULL;
	size_t len = 0;

	into.to = open_memstream(&text, &len);
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

static int print_entry(const struct table *table, const struct hist_entry *entry, unsigned level)
{
	enum hist_column column;
	int err = 0;

	fprintf(table->to, "%*s", (int)level * INDENT, "");
	for (unsigned i = 0, nr = 0; next_number(table, &i, &column); nr++) {
		if (nr || !table->options->separator)
			print_gap(table);
		int taken = (int)table_print_numbers(table, column, entry),
		    width = (int)table_column_width(table, column);
		fprintf(table->to, "%*s", taken < width ? width - taken : 0, "");
	}
	fprintf(table->to, "%*s", (int)margin(table), "");
	for (unsigned i = 0; i < table->levels[level].nr && !err; i++) {
		print_gap(table);
		err = print_key(table, table->levels[level].keys[i], entry);
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
		err = print_entry(table, node->entry, level);
		if (!err && node->is_leaf && graph)
			err = graph_print(graph, node->entry, node->entry->period);
		if (!node->is_leaf && !any_is_printed(table, node->below))
			print_no_entry(table, level);
		if (!err)
			err = print_level(table, node->below, level + 1, graph);
	}
	return err;
}

int hierarchy_print(const struct table *table, const struct hierarchy_node *first, struct graph *graph)
{
	return print_level(table, first, 0, graph);
}
