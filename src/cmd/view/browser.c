/* SPDX-License-Identifier: MIT */
/* The table on the screen, and its keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report/time_bins.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/escape.h"
#include "cmd/view/annotate.h"
#include "cmd/view/files.h"
#include "cmd/view/line.h"
#include "cmd/view/model.h"
#include "cmd/view/screen.h"
#include "cmd/view/timeline.h"
#include "cmd/view/view.h"

enum { SCROLL_COLUMNS = 10, MEASURED_ROWS = 200, FIRST_MS = 500 /* to the first update */ };

/* On a smaller terminal the samples over time are left out, then the titles; names need so much room beside shares. */
enum { TIMELINE_ROWS = 8, TIMELINE_COLUMNS_LEAST = 40, TITLE_ROWS = 5, NAME_COLUMNS = 16 };

enum { BROWSER_MESSAGE = 640, MANY_CELLS = 200000 };

struct browser {
	struct view_source *source;
	struct model *model;
	struct timeline timeline;
	struct row top; /* of the screen */
	int skip;       /* columns that are scrolled away */
	int widest;     /* the columns of the longest line on the screen */
	int fixed;      /* the first columns, which do not scroll; -1: all but the names */
	struct line_style style;
	struct code_style code_style;
	bool no_headers;
	uint64_t update_ns;            /* when source->ops->update() is called next, by CLOCK_MONOTONIC */
	char message[BROWSER_MESSAGE]; /* in the last line; "": the usual one */
};

static void say(struct browser *browser, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct browser *browser, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(browser->message, sizeof(browser->message), format, args);
	va_end(args);
}

static bool has_timeline(const struct browser *browser)
{
	const struct timeline *timeline = &browser->timeline;
	bool fits = screen_rows() >= TIMELINE_ROWS && screen_columns() >= TIMELINE_COLUMNS_LEAST;

	return timeline->bins && timeline->bins->bin_ns && (fits || timeline->choosing);
}

static bool has_titles(const struct browser *browser)
{
	return !browser->no_headers && screen_rows() >= TITLE_ROWS;
}

/* What stands above the rows. */
static int header_rows(const struct browser *browser)
{
	return 1 + has_timeline(browser) + has_titles(browser);
}

/* At least one, however small the terminal is. */
static int table_rows(const struct browser *browser)
{
	int rows = screen_rows() - header_rows(browser) - 1;

	return rows > 0 ? rows : 1;
}

static bool is_above(struct row a, struct row b)
{
	return a.entry < b.entry || (a.entry == b.entry && a.branch < b.branch);
}

static bool is_same(struct row a, struct row b)
{
	return a.entry == b.entry && a.branch == b.branch;
}

/* Moves the top so that the cursor is on the screen. */
static void follow_cursor(struct browser *browser)
{
	struct model *model = browser->model;
	struct row at;
	int rows = table_rows(browser);

	model_normalize(model, &model->cursor);
	model_normalize(model, &browser->top);
	if (is_above(model->cursor, browser->top)) {
		browser->top = model->cursor;
		return;
	}
	at = browser->top;
	for (int i = 0; i < rows; i++) {
		if (is_same(at, model->cursor))
			return;
		if (!model_down(model, &at))
			break;
	}
	browser->top = model->cursor;
	for (int i = 1; i < rows && model_up(model, &browser->top); i++)
		;
}

/* The text of a piece, which stands at that column of the line; what is behind the fixed columns is scrolled. */
static void draw_piece(int y, int column, int style, const char *text, int fixed, int skip)
{
	int columns = screen_columns(), width = screen_width(text);
	int inside = fixed > column ? fixed - column : 0; /* of it, those before the others */

	if (inside > 0)
		screen_put(y, column, inside < columns - column ? inside : columns - column, style, text);
	if (width <= inside)
		return;
	int x = column + inside - skip;
	int passed = x < fixed ? fixed - x : 0;
	screen_put_from(y, x + passed, columns - x - passed, style, text, inside + passed);
}

static void draw_line(struct browser *browser, struct line *line, int y, int style)
{
	int column = 0, columns = screen_columns();
	char *text = (char *)(uintptr_t)buf_text(&line->text);

	screen_fill(y, 0, columns, SCREEN_PLAIN + style);
	for (unsigned i = 0; i < line->nr && !line->text.failed; i++) {
		const struct line_piece *piece = &line->pieces[i];
		char *end = text + piece->from + piece->len, behind = *end;
		*end = '\0';
		int width = screen_width(text + piece->from);
		int fixed = browser->fixed >= 0 ? browser->fixed : piece->name ? column : column + width;
		draw_piece(y, column, piece->style + style, text + piece->from, fixed, browser->skip);
		column += width;
		*end = behind;
	}
	if (browser->widest < column)
		browser->widest = column;
}

/* Names alone scroll where the other columns leave them room, so that shares stay; else all behind the first ones. */
static void fix_columns(struct browser *browser, const struct line *titles)
{
	int column = 0, columns = screen_columns(), first = 0;

	for (unsigned i = 0; i + 1 < titles->nr; i++) {
		column += (int)titles->pieces[i].len; /* titles are ASCII */
		first = 3 * column <= 2 * columns ? column : first;
	}
	browser->fixed = column + NAME_COLUMNS <= columns ? -1 : first;
}

static void draw_title(struct browser *browser)
{
	AUTO_BUF struct buf text = {0};
	int width = screen_columns();

	line_of_table(&text, browser->model);
	if (browser->model->data->lost_samples)
		buf_printf(&text, ", lost: %" PRIu64, browser->model->data->lost_samples);
	screen_fill(0, 0, width, SCREEN_TITLE);
	screen_put(0, 0, width, SCREEN_TITLE, buf_text(&text));
}

static void draw_rows(struct browser *browser, int first)
{
	struct model *model = browser->model;
	struct row row = browser->top;
	struct line line __attribute__((cleanup(line_fini))) = {0};
	int last = screen_rows() - 2;

	for (int y = first; y <= last && model_has_row(model, row); y++) {
		if (!row.branch)
			line_style_fit(&browser->style, model, model_entry(model, row));
		line_of_row(&line, model, &browser->style, row);
		draw_line(browser, &line, y, is_same(row, model->cursor) ? SCREEN_CURSOR : 0);
		if (!model_down(model, &row))
			break;
	}
	if (!model->nr_shown)
		screen_put(first + 1, 4, screen_columns(), SCREEN_PLAIN,
			   model->nr_entries
				   ? "No row is left: press / to change the filter, L the limit, ESC to zoom out"
				   : "No samples");
}

/* What the source says of itself, and where the cursor is. */
static void put_state(const struct browser *browser, struct buf *out)
{
	const struct model *model = browser->model;
	struct view_live live = {0};

	if (browser->source->ops->live) {
		browser->source->ops->live(browser->source->ctx, &live);
		buf_printf(out, "%s%s%s%s%slost: %" PRIu64 "  kept: %.1f MB  ", live.paused ? "[paused] " : "",
			   live.disabled ? "[disabled] " : "", live.zero ? "[zero] " : "", live.total ? "[total] " : "",
			   live.ended ? "[ended] " : "", live.lost, (double)live.kept_bytes / 1e6);
		if (live.not_counted)
			buf_printf(out, "not counted: %" PRIu64 "  ", live.not_counted);
	}
	buf_printf(out, "%zu/%zu", model->nr_shown ? model->cursor.entry + 1 : 0, model->nr_shown);
}

static void draw_last_line(const struct browser *browser)
{
	int y = screen_rows() - 1, width = screen_columns();
	AUTO_BUF struct buf state = {0};

	put_state(browser, &state);
	int room = width - screen_width(buf_text(&state));
	const char *text = browser->message[0] ? browser->message
			   : browser->timeline.choosing
				   ? "Left, Right: move; Enter: begin and end of the cut; Backspace: all; ESC"
				   : "Press 'h' for help on key bindings";
	screen_fill(y, 0, width, SCREEN_HEADER);
	/* A message is worth more than the state. */
	if (browser->message[0] && screen_width(text) >= room) {
		screen_put(y, 0, width, SCREEN_HEADER, text);
		return;
	}
	screen_put(y, 0, room - 1, SCREEN_HEADER, text);
	screen_put(y, room > 0 ? room : 0, width, SCREEN_HEADER, buf_text(&state));
}

static void draw(struct browser *browser)
{
	struct line line __attribute__((cleanup(line_fini))) = {0};
	int y = 1;

	follow_cursor(browser);
	screen_clear();
	draw_title(browser);
	if (has_timeline(browser))
		timeline_draw(&browser->timeline, y++, screen_columns());
	browser->widest = 0;
	line_of_titles(&line, browser->model, &browser->style);
	fix_columns(browser, &line);
	if (has_titles(browser))
		draw_line(browser, &line, y++, 0);
	draw_rows(browser, y);
	draw_last_line(browser);
	screen_show();
}

static void draw_again(void *ctx)
{
	draw(ctx);
}

/* After a recount: columns are as wide as the largest rows want. */
static void measure(struct browser *browser)
{
	memset(browser->style.widths, 0, sizeof(browser->style.widths));
	for (size_t i = 0; i < browser->model->nr_shown && i < MEASURED_ROWS; i++)
		line_style_fit(&browser->style, browser->model, model_entry(browser->model, (struct row){.entry = i}));
}

/* Where counting takes so long that one sees it. */
static void say_counting(struct browser *browser, bool can_end)
{
	if (model_cells(browser->model) < MANY_CELLS)
		return;
	say(browser, can_end ? "Counting: Ctrl-C or ESC gives up" : "Counting");
	draw_last_line(browser);
	screen_show();
	browser->message[0] = '\0';
}

static int recount(struct browser *browser)
{
	if (!browser->source->interval_ms)
		say_counting(browser, false);
	int err = model_recount(browser->model);

	if (!err)
		measure(browser);
	return err;
}

static void filter_changed(void *ctx)
{
	struct browser *browser = ctx;

	if (!model_choose(browser->model))
		draw(browser);
}

static int enter_filter(struct browser *browser)
{
	const struct screen_prompt prompt = {"Show names with:",
					     browser->model->filter,
					     sizeof(browser->model->filter),
					     filter_changed,
					     {draw_again, browser}};

	screen_prompt(&prompt);
	return model_choose(browser->model);
}

static int enter_limit(struct browser *browser)
{
	char text[32], *end;
	const struct screen_prompt prompt = {
		"Hide rows below this percentage:", text, sizeof(text), NULL, {draw_again, browser}};

	snprintf(text, sizeof(text), "%g", browser->model->percent_limit);
	if (!screen_prompt(&prompt))
		return 0;
	double limit = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "%") != 0) || !(limit >= 0 && limit <= 100)) {
		say(browser, "A percentage is a number from 0 to 100");
		return 0;
	}
	browser->model->percent_limit = limit;
	return model_choose(browser->model);
}

/* Into what the row is about; out again when that is the newest zoom. */
static int zoom(struct browser *browser, enum zoom_kind kind)
{
	struct model *model = browser->model;
	int err;

	if (model->nr_zooms && model->zooms[model->nr_zooms - 1].kind == kind) {
		say_counting(browser, false);
		model_zoom_out(model, &err);
	} else if (!model_has_row(model, model->cursor)) {
		return 0;
	} else {
		const struct hist_place place = model_place(model, model->cursor);
		say_counting(browser, true);
		err = model_zoom(model, kind, &place, screen_gives_up);
	}
	if (err == -ENOENT && kind == ZOOM_SOCKET)
		say(browser, "Sockets are told apart by the key socket only: report -s socket,...");
	else if (err == -EINTR)
		say(browser, "Given up: what was shown before is still there");
	else if (err == -ENOENT)
		say(browser, "This row has none to zoom into");
	else if (err == -ENOSPC)
		say(browser, "No more than %d zooms: press ESC to zoom out", MODEL_ZOOMS);
	measure(browser);
	return err == -ENOMEM ? err : 0;
}

static int cut(struct browser *browser, const struct view_times *times)
{
	struct timeline *timeline = &browser->timeline;
	struct diag diag = {0};

	screen_begin_work();
	int err = browser->source->ops->cut(browser->source->ctx, times, &diag);
	screen_end_work();
	timeline->choosing = false;
	if (err) {
		say(browser, "%s", diag.text);
		return err == -ENOMEM ? err : 0;
	}
	timeline->cut = times != NULL;
	if (times)
		timeline->times = *times;
	return recount(browser);
}

/* false: nothing was left to go back from. */
static bool go_back(struct browser *browser, int *reterr)
{
	*reterr = 0;
	if (browser->model->filter[0]) {
		browser->model->filter[0] = '\0';
		*reterr = model_choose(browser->model);
		return true;
	}
	if (model_zoom_out(browser->model, reterr)) {
		measure(browser);
		return true;
	}
	if (!browser->timeline.cut)
		return false;
	*reterr = cut(browser, NULL);
	return true;
}

static void begin_choosing(struct browser *browser)
{
	struct timeline *timeline = &browser->timeline;

	if (!timeline->bins || !timeline->bins->bin_ns)
		say(browser, "The samples of this recording have no times");
	else if (!browser->source->ops->cut)
		say(browser, "Only a recording in a file can be read again to cut a time from it");
	else if (screen_columns() < TIMELINE_COLUMNS_LEAST || screen_rows() < TITLE_ROWS)
		say(browser, "The terminal is too small to cut a time");
	else
		timeline->choosing = true, timeline->mark = -1;
}

/* true: the key was for the line of time. */
static bool choose_time(struct browser *browser, int key, int *reterr)
{
	struct timeline *timeline = &browser->timeline;
	int first, last;

	switch (key) {
	case KEY_LEFT_ARROW: timeline->cursor -= timeline->cursor > 0; return true;
	case KEY_RIGHT_ARROW: timeline->cursor += timeline->cursor + 1 < timeline->columns; return true;
	case KEY_TO_FIRST: timeline->cursor = 0; return true;
	case KEY_TO_LAST: timeline->cursor = timeline->columns - 1; return true;
	case KEY_ERASE:
		if (timeline->cut)
			*reterr = cut(browser, NULL);
		timeline->choosing = false;
		return true;
	case KEY_RETURN:
	case ' ':
		if (timeline->mark < 0) {
			timeline->mark = timeline->cursor;
			return true;
		}
		first = timeline->mark < timeline->cursor ? timeline->mark : timeline->cursor;
		last = timeline->mark < timeline->cursor ? timeline->cursor : timeline->mark;
		*reterr = cut(browser, &(struct view_times){timeline_times(timeline, first, last).first_ns,
							    timeline_times(timeline, first, last).last_ns});
		return true;
	case KEY_ESCAPE:
	case 'T':
	case 'q': timeline->choosing = false; return true;
	default: return false;
	}
}

static void page(struct browser *browser, bool down)
{
	struct row *cursor = &browser->model->cursor;

	for (int i = table_rows(browser) - 1; i > 0; i--)
		if (!(down ? model_down(browser->model, cursor) : model_up(browser->model, cursor)))
			break;
}

/* Until nothing is left of what scrolls. No column is passed over on a narrow terminal. */
static void scroll(struct browser *browser, bool right)
{
	int fixed = browser->fixed > 0 ? browser->fixed : 0, half = (screen_columns() - fixed) / 2;
	int step = half < SCROLL_COLUMNS ? half : SCROLL_COLUMNS;

	if (!right)
		browser->skip -= browser->skip < step ? browser->skip : step;
	else if (browser->widest - browser->skip > fixed)
		browser->skip += step;
}

/* true: the key moves. */
static bool navigate(struct browser *browser, int key)
{
	struct model *model = browser->model;

	switch (key) {
	case KEY_DOWN_ARROW: model_down(model, &model->cursor); return true;
	case KEY_UP_ARROW: model_up(model, &model->cursor); return true;
	case KEY_PAGE_DOWN:
	case ' ': page(browser, true); return true;
	case KEY_PAGE_UP: page(browser, false); return true;
	case KEY_TO_FIRST: model->cursor = (struct row){0}; return true;
	case KEY_TO_LAST: model->cursor = model_last(model); return true;
	case KEY_RIGHT_ARROW:
	case KEY_LEFT_ARROW: scroll(browser, key == KEY_RIGHT_ARROW); return true;
	default: return false;
	}
}

/* true: the key opens or closes call trees. */
static bool fold(struct browser *browser, int key)
{
	struct model *model = browser->model;

	if (key != '+' && key != '-' && key != 'e' && key != 'c' && key != 'E' && key != 'C')
		return false;
	if (!model_has_chains(model) && !model->hierarchy)
		say(browser, "This event has no call chains: record it with -g");
	else if (key == 'E')
		model_open_all(model);
	else if (key == 'C')
		model_close_all(model);
	else if (model_has_row(model, model->cursor) && key == 'e')
		model_toggle_entry(model, model->cursor);
	else if (model_has_row(model, model->cursor) && key == 'c')
		model_close_entry(model, model->cursor);
	else if (model_has_row(model, model->cursor))
		model_toggle(model, model->cursor);
	return true;
}

static int next_event(struct browser *browser, bool forward)
{
	struct model *model = browser->model;
	size_t nr = model->data->nr_events;

	if (nr < 2) {
		say(browser, "There is one event only");
		return 0;
	}
	model_forget(model);
	model->event = (model->event + (forward ? 1 : nr - 1)) % nr;
	browser->top = (struct row){0};
	return recount(browser);
}

static int switch_direction(struct browser *browser)
{
	struct model *model = browser->model;

	if (!model_has_chains(model)) {
		say(browser, "This event has no call chains: record it with -g");
		return 0;
	}
	bool callers = model->count.direction == CALLTREE_CALLEE;
	model->count.direction = callers ? CALLTREE_CALLER : CALLTREE_CALLEE;
	say(browser, callers ? "Call trees go from a function to what it called"
			     : "Call trees go from a function to its callers");
	return recount(browser);
}

static int switch_children(struct browser *browser)
{
	struct model *model = browser->model;

	if (model->hierarchy) {
		say(browser, "Each sample counts once in a tree of keys: callers are not counted");
		return 0;
	}
	if (!model_has_chains(model)) {
		say(browser, "This event has no call chains: record it with -g");
		return 0;
	}
	model->count.hist.children = !model->count.hist.children;
	return recount(browser);
}

static int sort_by_member(struct browser *browser, unsigned member)
{
	if (member >= browser->model->nr_hists) {
		say(browser, "This table has %u %s%s", browser->model->nr_hists,
		    browser->model->data->compared ? "file" : "event", browser->model->nr_hists == 1 ? "" : "s");
		return 0;
	}
	browser->model->sort_member = member;
	return recount(browser);
}

enum { MENU_ANNOTATE, MENU_FOLD = 10, MENU_ITEMS = 9, MENU_TEXT = 160 };

/* A line of the menu, if the row has what it is about. */
struct menu {
	char texts[MENU_ITEMS][MENU_TEXT];
	const char *items[MENU_ITEMS];
	int actions[MENU_ITEMS]; /* an enum zoom_kind plus 1, or MENU_… */
	int nr;
};

static void menu_add(struct menu *menu, int action, const char *what, const char *name)
{
	AUTO_ESCAPED shown = escaped_text(name);

	menu->actions[menu->nr] = action;
	menu->items[menu->nr] = menu->texts[menu->nr];
	snprintf(menu->texts[menu->nr++], MENU_TEXT, "%s%s%.*s", what, *name ? " " : "",
		 escaped_cut(shown.text, MENU_TEXT - 64), shown.text);
}

/* What a sample has to be of to be shown by itself: the zooms, and the place that the user chose. */
static struct view_samples samples_like(const struct model *model, const struct view_samples *chosen)
{
	struct view_samples wanted = {.tid = VIEW_ANY_TID};

	for (unsigned i = 0; i < model->nr_zooms; i++) {
		const struct zoom *at = &model->zooms[i];
		switch (at->kind) {
		case ZOOM_COMM: wanted.comm = at->name; break;
		case ZOOM_THREAD: wanted.tid = at->tid; break;
		case ZOOM_DSO: wanted.dso = at->name; break;
		case ZOOM_SYMBOL: wanted.symbol = at->name; break;
		case ZOOM_KERNEL:
		case ZOOM_SOCKET: break;
		}
	}
	wanted.comm = chosen->comm ? chosen->comm : wanted.comm;
	wanted.dso = chosen->dso ? chosen->dso : wanted.dso;
	wanted.symbol = chosen->symbol ? chosen->symbol : wanted.symbol;
	wanted.tid = chosen->tid != VIEW_ANY_TID ? chosen->tid : wanted.tid;
	return wanted;
}

static void show_samples(struct browser *browser, const struct view_samples *chosen)
{
	const struct view_samples wanted = samples_like(browser->model, chosen);
	const struct timeline *timeline = &browser->timeline;
	AUTO_BUF struct buf text = {0}, title = {0};
	struct diag diag = {0};

	if (!browser->source->ops->samples) {
		say(browser, "Only the samples of a recording in a file can be read again");
		return;
	}
	screen_begin_work();
	int err = browser->source->ops->samples(browser->source->ctx, &wanted, timeline->cut ? &timeline->times : NULL,
						&title, &text, &diag);
	screen_end_work();
	if (err)
		say(browser, "%s", diag.text);
	else if (!text.len)
		say(browser, "None of the samples is of that: callers have none of their own");
	else
		screen_page(buf_text(&title), buf_text(&text));
}

enum { SAMPLES_ITEMS = 5 };

static void choose_samples(struct browser *browser)
{
	struct model *model = browser->model;
	struct view_samples choices[SAMPLES_ITEMS];
	struct menu menu = {.nr = 0};

	choices[menu.nr] = (struct view_samples){.tid = VIEW_ANY_TID};
	menu_add(&menu, 0, "All samples", "");
	if (model_has_row(model, model->cursor)) {
		const struct hist_place place = model_place(model, model->cursor);
		if (place.task) {
			choices[menu.nr] = (struct view_samples){.tid = place.tid};
			menu_add(&menu, 0, "Samples of thread", place.task->comm->text);
		}
		if (place.comm) {
			choices[menu.nr] = (struct view_samples){.tid = VIEW_ANY_TID, .comm = place.comm->text};
			menu_add(&menu, 0, "Samples of command", place.comm->text);
		}
		if (place.dso) {
			choices[menu.nr] = (struct view_samples){.tid = VIEW_ANY_TID, .dso = dso_long_name(place.dso)};
			menu_add(&menu, 0, "Samples in DSO", dso_short_name(place.dso));
		}
		if (place.symbol) {
			choices[menu.nr] = (struct view_samples){.tid = VIEW_ANY_TID, .symbol = place.symbol->name};
			menu_add(&menu, 0, "Samples in function", place.symbol->name);
		}
	}
	int chosen = screen_menu("Show each sample, as millrace script does", menu.items, menu.nr,
				 &(struct screen_behind){draw_again, browser});
	if (chosen >= 0)
		show_samples(browser, &choices[chosen]);
}

/* To the next row of the table with a function, or to the one before. false: there is none. */
static bool go_to_function(struct browser *browser, bool forward)
{
	struct model *model = browser->model;
	struct row row = {.entry = model->cursor.entry};

	while (forward ? row.entry + 1 < model->nr_shown : row.entry > 0) {
		row.entry += forward ? 1 : (size_t)-1;
		if (model_place(model, row).symbol) {
			model->cursor = row;
			return true;
		}
	}
	say(browser, forward ? "No function is in a row behind it" : "No function is in a row before it");
	return false;
}

static void annotate(struct browser *browser)
{
	struct model *model = browser->model;
	struct annotate_result result;

	if (!model_has_row(model, model->cursor))
		return;
	do {
		const struct hist_place place = model_place(model, model->cursor);
		struct diag diag = {0};
		result = (struct annotate_result){ANNOTATE_BACK, {0}};
		if (annotate_run(model, &place, &browser->code_style, &result, &diag))
			say(browser, "%s", diag.text);
	} while ((result.end == ANNOTATE_NEXT || result.end == ANNOTATE_PREVIOUS) &&
		 go_to_function(browser, result.end == ANNOTATE_NEXT));
	if (result.end == ANNOTATE_SAMPLES)
		show_samples(browser, &(struct view_samples){.tid = VIEW_ANY_TID, .symbol = result.place.symbol->name});
}

static void show_help(const struct browser *browser)
{
	AUTO_BUF struct buf text = {0};

	buf_put_text(&text, "h ? F1           This page\n"
			    "UP DOWN PGUP PGDN SPACE HOME END\n"
			    "                 Move\n"
			    "LEFT RIGHT       Scroll long names, and all columns of a narrow terminal\n"
			    "q ESC Ctrl-C     Go back, or leave (ESC goes back only)\n"
			    "TAB Shift-TAB    Next, previous event\n"
			    "\n"
			    "ENTER m          Menu: zoom into command, thread, object, function; annotate\n"
			    "a                Annotate the function: its code, with shares\n"
			    "t d k            Zoom into the thread, object, kernel; again: out\n"
			    "y w              Zoom into the function, command; again: out\n"
			    "S                Zoom into the socket (with the key socket: -s socket,...)\n"
			    "ESC              Zoom out\n"
			    "/                Show rows whose names have a text in them, as you type\n"
			    "T                Cut a time from the line above the table\n"
			    "\n"
			    "+ -              Open or close one level of the call tree, or of the keys\n"
			    "e c              Open or close all of this row; close it\n"
			    "E C              Open, close all rows\n"
			    "G                Callers or callees in call trees\n"
			    "x                Count callers too (Children), or not\n"
			    "V                Names of objects in call trees\n"
			    "\n"
			    "F                Shares of what is shown, or of all\n"
			    "H                Titles of the columns\n"
			    "L                Hide rows below a percentage\n"
			    "0-9              Of a group, sort by the event of that number; of files\n"
			    "                 that are compared, by the difference of that one, 0: by the\n"
			    "                 baseline\n"
			    "P                Write the table to perf.hist.N\n"
			    "r                Show the samples of a row one by one\n"
			    "i                Header of the recording; with report -T, what threads counted\n");
	buf_put_text(&text, browser->model->data->compared ? ""
			    : browser->source->ops->save
				    ? "\n"
				      "s                Save the samples in memory as a perf.data\n"
				      "z                Forget everything at each refresh, or not\n"
				      "D                Keep everything, or let old samples decay\n"
				      "p                Pause\n"
				      "f                Disable or enable the events\n"
				    : "s                Another recording of this directory\n");
	screen_page("Keys", buf_text(&text));
}

static void show_header(struct browser *browser)
{
	AUTO_BUF struct buf text = {0};

	if (browser->source->ops->header)
		browser->source->ops->header(browser->source->ctx, &text);
	if (text.len)
		screen_page("Header", buf_text(&text));
	else
		say(browser, "There is no header");
}

static int write_rows(void *ctx, FILE *to)
{
	struct browser *browser = ctx;
	struct model *model = browser->model;
	struct line line __attribute__((cleanup(line_fini))) = {0};
	struct row row = {0};
	AUTO_BUF struct buf title = {0};

	line_of_table(&title, model);
	line_of_titles(&line, model, &browser->style);
	fprintf(to, "# %s\n#\n# %s\n#\n", buf_text(&title), buf_text(&line.text));
	for (bool more = model_has_row(model, row); more && !ferror(to); more = model_down(model, &row)) {
		line_of_row(&line, model, &browser->style, row);
		fprintf(to, "%s\n", buf_text(&line.text));
		if (line.text.failed)
			return -ENOMEM;
	}
	return 0;
}

static void write_file(struct browser *browser)
{
	char path[FILES_NAME];
	struct diag diag = {0};

	if (files_write("perf.hist", write_rows, browser, path, &diag))
		say(browser, "%s", diag.text);
	else
		say(browser, "Written to %s", path);
}

static void save(struct browser *browser)
{
	AUTO_BUF struct buf path = {0};
	struct diag diag = {0};

	if (browser->source->ops->save(browser->source->ctx, &path, &diag))
		say(browser, "%s", diag.text);
	else
		say(browser, "Saved as %s", buf_text(&path));
}

/* true: another recording was chosen. */
static bool other_file(struct browser *browser, struct view_result *ret)
{
	struct file_list list = {.nr = 0};

	if (browser->model->data->compared) {
		say(browser, "A comparison is of these recordings; millrace report shows others");
		return false;
	}
	if (files_list_recordings(&list) || !list.nr) {
		say(browser, "No other recording is in this directory");
		return false;
	}
	int chosen = screen_menu("Another recording", (const char *const *)list.names, (int)list.nr,
				 &(struct screen_behind){draw_again, browser});
	if (chosen >= 0) {
		ret->end = VIEW_OTHER_FILE;
		snprintf(ret->path, sizeof(ret->path), "%s", list.paths[chosen]);
	}
	files_list_fini(&list);
	return chosen >= 0;
}

static void fill_menu(struct browser *browser, const struct hist_place *place, struct menu *menu)
{
	struct model *model = browser->model;

	if (place->symbol)
		menu_add(menu, MENU_ANNOTATE, "Annotate", place->symbol->name);
	if (place->task)
		menu_add(menu, ZOOM_THREAD + 1, "Zoom into thread", place->task->comm->text);
	if (place->comm)
		menu_add(menu, ZOOM_COMM + 1, "Zoom into command", place->comm->text);
	if (place->dso)
		menu_add(menu, ZOOM_DSO + 1, "Zoom into DSO", dso_short_name(place->dso));
	if (place->symbol)
		menu_add(menu, ZOOM_SYMBOL + 1, "Zoom into function", place->symbol->name);
	if (place->level == 'k')
		menu_add(menu, ZOOM_KERNEL + 1, "Zoom into the kernel", "");
	if (model_socket(model, place) >= 0)
		menu_add(menu, ZOOM_SOCKET + 1, "Zoom into this socket", "");
	const struct hierarchy_node *node = model_node(model, model->cursor);
	if (model_sign(model, model->cursor) != ' ')
		menu_add(menu, MENU_FOLD, model_sign(model, model->cursor) == '+' ? "Expand" : "Collapse",
			 node && !node->is_leaf ? "this level" : "the call tree");
}

static int open_menu(struct browser *browser)
{
	struct model *model = browser->model;
	struct menu menu = {.nr = 0};

	if (!model_has_row(model, model->cursor))
		return 0;
	const struct hist_place place = model_place(model, model->cursor);
	fill_menu(browser, &place, &menu);
	int chosen = screen_menu("Menu", menu.items, menu.nr, &(struct screen_behind){draw_again, browser});
	if (chosen < 0)
		return 0;
	int action = menu.actions[chosen];
	if (action == MENU_ANNOTATE)
		annotate(browser);
	else if (action == MENU_FOLD)
		model_toggle(model, model->cursor);
	else
		return zoom(browser, (enum zoom_kind)(action - 1));
	return 0;
}

/* Keys that change what is shown. 0 or -ENOMEM. */
static int change(struct browser *browser, int key)
{
	struct model *model = browser->model;

	switch (key) {
	case '/': return enter_filter(browser);
	case 'L': return enter_limit(browser);
	case 't': return zoom(browser, ZOOM_THREAD);
	case 'd': return zoom(browser, ZOOM_DSO);
	case 'k': return zoom(browser, ZOOM_KERNEL);
	case 'y': return zoom(browser, ZOOM_SYMBOL);
	case 'w': return zoom(browser, ZOOM_COMM);
	case 'S': return zoom(browser, ZOOM_SOCKET);
	case KEY_RETURN:
	case 'm': return open_menu(browser);
	case 'F': model->relative = !model->relative; return model_choose(model);
	case 'G': return switch_direction(browser);
	case 'x': return switch_children(browser);
	case KEY_TAB_FORWARD: return next_event(browser, true);
	case KEY_BACKWARD_TAB: return next_event(browser, false);
	default: return key >= '0' && key <= '9' ? sort_by_member(browser, (unsigned)(key - '0')) : 0;
	}
}

/* Keys that show or write something. true: the view ends. */
static bool other_key(struct browser *browser, int key, struct view_result *ret)
{
	switch (key) {
	case 'h':
	case '?':
	case KEY_HELP_PAGE: show_help(browser); break;
	case 'a': annotate(browser); break;
	case 'i': show_header(browser); break;
	case 'P': write_file(browser); break;
	case 'r': choose_samples(browser); break;
	case 'H': browser->no_headers = !browser->no_headers; break;
	case 'V': browser->style.dsos = !browser->style.dsos; break;
	case 'T': begin_choosing(browser); break;
	case 'z':
	case 'D':
	case 'p':
	case 'f':
		if (browser->source->ops->toggle)
			browser->source->ops->toggle(browser->source->ctx, (char)key);
		break;
	case 's':
		if (!browser->source->ops->save)
			return other_file(browser, ret);
		save(browser);
		break;
	default: break;
	}
	return false;
}

/* 1: the view ends; 0; -ENOMEM. */
static int take_key(struct browser *browser, int key, struct view_result *ret)
{
	int err = 0;

	if (key == KEY_SIZE_CHANGED) {
		browser->skip = 0; /* other columns are fixed */
		if (browser->timeline.choosing)
			say(browser, "T to begin the cut again: columns are other times now");
		browser->timeline.choosing = false;
		return 0;
	}
	browser->message[0] = '\0';
	if (key == KEY_TERMINATED)
		return 1;
	if (browser->timeline.choosing && choose_time(browser, key, &err))
		return err;
	if (key == KEY_ESCAPE || key == 'q' || key == KEY_CONTROL_C)
		return go_back(browser, &err) || key == KEY_ESCAPE ? err : 1;
	if (navigate(browser, key) || fold(browser, key))
		return 0;
	err = change(browser, key);
	return err ? err : other_key(browser, key, ret);
}

/* The next key, or KEY_NONE_YET when the source is to be updated; the caller then calls this again. */
static int wait_for_key(struct browser *browser)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int timeout_ms = -1;

	if (browser->source->interval_ms)
		timeout_ms = browser->update_ns > now ? (int)((browser->update_ns - now) / 1000000) + 1 : 0;
	return screen_key(timeout_ms);
}

/*
 * With new samples. A cursor that was left at the first row stays there, whatever is counted there now, but for a row
 * whose tree is open: that one is being looked at.
 */
static int recount_new(struct browser *browser)
{
	struct model *model = browser->model;
	const struct row first = {0};
	bool at_first = !model->cursor.entry && !model->cursor.branch;
	bool looked_at = model_has_row(model, first) && model_sign(model, first) == '-';
	int err = recount(browser);

	if (!err && at_first && !looked_at)
		model->cursor = first;
	return err;
}

/* What came since the last time. 0 or -ENOMEM. */
static int update(struct browser *browser)
{
	const struct view_source *source = browser->source;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!source->interval_ms || now < browser->update_ns)
		return 0;
	browser->update_ns = now + (uint64_t)source->interval_ms * 1000000;
	return source->ops->update(source->ctx) ? recount_new(browser) : 0;
}

/* Until the user leaves. 0 or -ENOMEM. */
static int browse(struct browser *browser, struct view_result *ret)
{
	int done = 0;

	measure(browser);
	if (browser->source->interval_ms > FIRST_MS)
		browser->update_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)FIRST_MS * 1000000;
	if (browser->source->data->note)
		say(browser, "%s", browser->source->data->note);
	while (!done) {
		draw(browser);
		int key = wait_for_key(browser);
		if (key != KEY_NONE_YET)
			done = take_key(browser, key, ret);
		if (!done)
			done = update(browser);
	}
	return done < 0 ? done : 0;
}

bool view_possible(const char **ret_why)
{
	return screen_possible(ret_why);
}

int view_run(struct view_source *source, const struct view_options *options, struct view_result *ret,
	     struct diag *reterr)
{
	struct browser browser = {
		.source = source,
		.timeline = {.bins = source->data->times,
			     .gaps = source->data->gaps,
			     .nr_gaps = source->data->nr_gaps,
			     .mark = -1},
	};

	*ret = (struct view_result){.end = VIEW_QUIT};
	const struct screen_wait wait = {source->ops->unlock, source->ops->lock, source->ctx};
	int err = screen_open(options->colourless, &wait, reterr);
	if (err)
		return err;
	if (source->ops->lock)
		source->ops->lock(source->ctx);
	err = model_new(source->data, &browser.model);
	if (!err)
		err = browse(&browser, ret);
	if (source->ops->unlock)
		source->ops->unlock(source->ctx);
	screen_close();
	model_free(browser.model);
	return err ? diag_set(reterr, err, "%s", strerror(-err)) : 0;
}
