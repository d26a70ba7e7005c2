/* SPDX-License-Identifier: MIT */
#include "cmd/view/line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/escape.h"
#include "cmd/text/place_text.h"
#include "cmd/view/screen.h"

enum { SHARE_WIDTH = 8, COUNT_WIDTH = 12, MOST_NAME = 32, LEVEL_INDENT = 3, LARGE = 5 };

static const double medium_share = 0.5;

void line_fini(struct line *line)
{
	buf_fini(&line->text);
	free(line->pieces);
	line->pieces = NULL;
	line->nr = line->room = 0;
}

static void line_clear(struct line *line)
{
	line->text.len = 0;
	line->nr = 0;
}

/* What was put into the text since `from` is one piece; out of memory: it is not drawn. */
static void put_piece(struct line *line, int style, size_t from, bool name)
{
	if (!array_room(line->pieces, line->nr, line->room))
		line->pieces[line->nr++] = (struct line_piece){style, from, line->text.len - from, name};
}

static void end_piece(struct line *line, int style, size_t from)
{
	put_piece(line, style, from, false);
}

static void put_blanks(struct buf *text, int nr)
{
	while (nr-- > 0)
		buf_put_u8(text, ' ');
}

static int share_style(double share)
{
	return share >= LARGE ? SCREEN_LARGE : share > medium_share ? SCREEN_MEDIUM : SCREEN_PLAIN;
}

static bool is_share(enum hist_column column)
{
	return column >= HIST_KEYS && column != HIST_SAMPLES && column != HIST_PERIOD;
}

/* The columns one by one; children only where callers are counted. */
static bool next_column(const struct model *model, unsigned *at, enum hist_column *ret)
{
	while (*at < model->data->nr_columns) {
		*ret = model->data->columns[(*at)++];
		if (*ret != HIST_CHILDREN || model_children(model))
			return true;
	}
	return false;
}

static bool is_last(const struct model *model, unsigned at)
{
	enum hist_column column;

	return !next_column(model, &at, &column);
}

static const char *title_of(const struct model *model, enum hist_column column)
{
	if (place_is_field(column))
		return model->data->field_titles[column - HIST_FIELD];
	if (column == HIST_SELF && model_children(model) && model->data->self_named)
		return "Self";
	return place_column_title(column);
}

/* The text of a key, on the heap. NULL: out of memory. */
static char *key_text(const struct model *model, enum hist_column key, const struct hist_place *place)
{
	char *text = NULL;
	size_t len;
	FILE *to = text_stream_open(&text, &len);

	if (!to)
		return NULL;
	place_text_print(to, key, place, (struct place_style){.nanoseconds = model->data->nanoseconds});
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

void line_style_fit(struct line_style *style, const struct model *model, const struct hist_entry *entry)
{
	enum hist_column column;

	for (unsigned i = 0; !model->hierarchy && next_column(model, &i, &column);) {
		if (column >= HIST_KEYS)
			continue;
		char *text = key_text(model, column, &entry->place);
		int width = text ? screen_width(text) : 0, least = (int)strlen(title_of(model, column));
		width = width > MOST_NAME ? MOST_NAME : width < least ? least : width;
		if (style->widths[column] < width)
			style->widths[column] = width;
		free(text);
	}
}

/* In its column; the last one is as wide as it is. */
static void put_key(struct line *line, const struct model *model, const struct line_style *style, unsigned at,
		    enum hist_column key, const struct hist_place *place)
{
	char *text = key_text(model, key, place);
	size_t from = line->text.len;
	bool last = is_last(model, at);
	int room = style->widths[key];

	if (text && !last)
		text[screen_cut(text, room)] = '\0';
	if (text)
		buf_put_text(&line->text, text);
	if (!last)
		put_blanks(&line->text, room - (text ? screen_width(text) : 0) + 2);
	put_piece(line, SCREEN_PLAIN, from, last);
	free(text);
}

/* A share, or how much it differs from the baseline; blank where a file that is compared has none. */
static void put_share(struct line *line, const struct model *model, enum hist_column column,
		      const struct hist_entry *entry, unsigned member)
{
	const struct hist_entry *part = model_part(entry, member);
	uint64_t number = part ? hist_number(part, column) : 0, total = model->totals[member];
	double share = total ? 100.0 * (double)number / (double)total : 0;
	size_t from = line->text.len;

	if (model->data->compared && member)
		share = model_delta(model, hist_number(entry, column), number, member);
	if (model->data->compared && !part)
		put_blanks(&line->text, SHARE_WIDTH);
	else
		buf_printf(&line->text, model->data->compared && member ? "%+*.2f%%" : "%*.2f%%", SHARE_WIDTH - 1,
			   share);
	end_piece(line, share_style(fabs(share)), from);
}

/* Of each member of a group, or file. */
static void put_number(struct line *line, const struct model *model, enum hist_column column,
		       const struct hist_entry *entry)
{
	for (unsigned i = 0; i < model->nr_hists; i++) {
		const struct hist_entry *part = model_part(entry, i);
		size_t from = line->text.len;
		if (is_share(column)) {
			put_share(line, model, column, entry, i);
			continue;
		}
		buf_printf(&line->text, "%*" PRIu64, COUNT_WIDTH, part ? hist_number(part, column) : 0);
		end_piece(line, SCREEN_PLAIN, from);
	}
	size_t from = line->text.len;
	put_blanks(&line->text, 2);
	end_piece(line, SCREEN_PLAIN, from);
}

static void put_branch(struct line *line, struct model *model, const struct line_style *style, struct row row)
{
	const struct branch *branch = model_branch(model, row);
	const struct location *at = stacks_location(model->data->stacks, branch->frame);
	size_t from = line->text.len;

	int depth = branch->depth + (model->data->nr_levels ? (int)model->data->nr_levels - 1 : 0);
	put_blanks(&line->text, LEVEL_INDENT * depth + (branch->head ? 0 : 2));
	if (branch->head) {
		bool compared = model->data->compared;
		double share = model_share(model, compared ? branch->baseline : branch->period);
		buf_printf(&line->text, "%c ", model_sign(model, row));
		end_piece(line, SCREEN_PLAIN, from);
		from = line->text.len;
		buf_printf(&line->text, "%.2f%% ", share);
		end_piece(line, share_style(share), from);
		from = line->text.len;
		if (compared) {
			double delta = model_delta(model, branch->baseline, branch->period, model_compared(model));
			buf_printf(&line->text, "%+.2f%% ", delta);
			end_piece(line, share_style(fabs(delta)), from);
			from = line->text.len;
		}
	}
	if (at->symbol)
		escape_put_text(&line->text, at->symbol->name);
	else
		buf_printf(&line->text, "%#" PRIx64, at->ip);
	if (at->symbol && at->symbol->inlined)
		buf_put_text(&line->text, " (inlined)");
	if (style->dsos) {
		buf_put_text(&line->text, "  ");
		escape_put_text(&line->text, at->dso ? dso_short_name(at->dso) : "[unknown]");
	}
	put_piece(line, SCREEN_PLAIN, from, true);
}

/* Of a tree of keys: the numbers, shifted by the level, and behind a margin as wide as the deepest shift the keys. */
static void put_node(struct line *line, struct model *model, struct row row)
{
	const struct hierarchy_node *node = model_node(model, row);
	const struct hierarchy_level *level = &model->data->levels[node->level];
	enum hist_column column;

	put_blanks(&line->text, LEVEL_INDENT * (int)node->level);
	buf_printf(&line->text, "%c ", model_sign(model, row));
	end_piece(line, SCREEN_PLAIN, 0);
	for (unsigned i = 0; next_column(model, &i, &column);)
		if (column >= HIST_KEYS)
			put_number(line, model, column, node->entry);
	size_t from = line->text.len;
	put_blanks(&line->text, LEVEL_INDENT * (int)(model->data->nr_levels - 1));
	end_piece(line, SCREEN_PLAIN, from);
	from = line->text.len;
	for (unsigned i = 0; i < level->nr; i++) {
		char *text = key_text(model, level->keys[i], &node->entry->place);
		buf_printf(&line->text, "%s%s", i ? "  " : "", text ? text + strspn(text, " ") : "");
		free(text);
	}
	put_piece(line, SCREEN_PLAIN, from, true);
}

void line_of_row(struct line *line, struct model *model, const struct line_style *style, struct row row)
{
	enum hist_column column;

	line_clear(line);
	if (row.branch) {
		put_branch(line, model, style, row);
		return;
	}
	if (model->hierarchy) {
		put_node(line, model, row);
		return;
	}
	const struct hist_entry *entry = model_entry(model, row);
	if (model_has_chains(model))
		buf_printf(&line->text, "%c ", model_sign(model, row));
	end_piece(line, SCREEN_PLAIN, 0);
	for (unsigned i = 0; next_column(model, &i, &column);) {
		if (column < HIST_KEYS)
			put_key(line, model, style, i, column, &entry->place);
		else
			put_number(line, model, column, entry);
	}
}

/* "Baseline   Delta", or with more files "Baseline Delta/1 Delta/2". */
static void put_compared_titles(struct line *line, const struct model *model, enum hist_column column)
{
	buf_printf(&line->text, "%*s", SHARE_WIDTH, column == HIST_CHILDREN ? "Children" : "Baseline");
	for (unsigned i = 1; i < model->nr_hists; i++) {
		char title[16];
		snprintf(title, sizeof(title), model->nr_hists > 2 ? "Delta/%u" : "Delta", i);
		buf_printf(&line->text, "%*s", SHARE_WIDTH, title);
	}
	put_blanks(&line->text, 2);
}

static void put_title(struct line *line, const struct model *model, const struct line_style *style, unsigned at,
		      enum hist_column column)
{
	const char *title = title_of(model, column);
	size_t from = line->text.len;

	if (column < HIST_KEYS)
		buf_printf(&line->text, "%-*s", is_last(model, at) ? 0 : style->widths[column] + 2, title);
	else if (is_share(column) && model->data->compared)
		put_compared_titles(line, model, column);
	else
		buf_printf(&line->text, "%*s  ", (is_share(column) ? SHARE_WIDTH : COUNT_WIDTH) * (int)model->nr_hists,
			   title);
	end_piece(line, SCREEN_HEADER, from);
}

/* "Command+Shared Object / Symbol". */
static void put_level_titles(struct line *line, const struct model *model)
{
	size_t from = line->text.len;

	put_blanks(&line->text, LEVEL_INDENT * (int)(model->data->nr_levels - 1));
	for (unsigned level = 0; level < model->data->nr_levels; level++) {
		const struct hierarchy_level *at = &model->data->levels[level];
		buf_put_text(&line->text, level ? " / " : "");
		for (unsigned i = 0; i < at->nr; i++)
			buf_printf(&line->text, "%s%s", i ? "+" : "", title_of(model, at->keys[i]));
	}
	end_piece(line, SCREEN_HEADER, from);
}

void line_of_titles(struct line *line, const struct model *model, const struct line_style *style)
{
	bool tree = model->data->nr_levels > 0;
	enum hist_column column;

	line_clear(line);
	put_blanks(&line->text, tree || model_has_chains(model) ? 2 : 0);
	end_piece(line, SCREEN_HEADER, 0);
	for (unsigned i = 0; next_column(model, &i, &column);)
		if (!tree || column >= HIST_KEYS)
			put_title(line, model, style, i, column);
	if (tree)
		put_level_titles(line, model);
}

/* What is zoomed into, and the filter. */
static void put_chosen(struct buf *out, const struct model *model)
{
	if (model->nr_zooms) {
		buf_put_text(out, ", ");
		model_put_zooms(model, out);
	}
	if (model->filter[0]) {
		buf_put_text(out, ", Filter: ");
		escape_put_text(out, model->filter);
	}
}

void line_of_table(struct buf *out, const struct model *model)
{
	static const char units[] = " KMG";
	uint64_t nr = model->nr_samples;
	unsigned unit = 0;

	if (model->event >= model->data->nr_events) {
		buf_put_text(out, "No samples");
		return;
	}
	if (model->data->compared) {
		buf_put_text(out, "Event '");
		buf_put_text(out, model->data->events[model->event].name);
		buf_printf(out, "', %s", model->data->title);
		put_chosen(out, model);
		return;
	}
	for (; nr > 1000 && units[unit + 1]; unit++)
		nr /= 1000;
	buf_printf(out, "Samples: %" PRIu64, nr);
	if (unit)
		buf_put_u8(out, (uint8_t)units[unit]);
	buf_printf(out, " of event%s '", model->nr_hists > 1 ? "s" : "");
	buf_put_text(out, model->data->events[model->event].name);
	buf_printf(out, "', Event count (approx.): %" PRIu64, model->nr_hists ? hist_period(model->hists[0]) : 0);
	put_chosen(out, model);
}
