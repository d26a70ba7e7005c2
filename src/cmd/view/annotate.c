/* SPDX-License-Identifier: MIT */
#include "cmd/view/annotate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/code/annotation.h"
#include "analyze/symbols/dso.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/escape.h"
#include "cmd/view/files.h"
#include "cmd/view/screen.h"

enum { NUMBER_COLUMNS = 12, DEEPEST_CALLS = 32, SEARCH_TEXT = 64, SCROLL_COLUMNS = 10, LARGE = 5, TAB_STOP = 8 };

static const double medium_share = 0.5;

/* What stands left of an instruction. */
enum shown_number { SHOW_PERCENT, SHOW_PERIOD, SHOW_SAMPLES, SHOW_KINDS };

struct annotate {
	const struct model *model;
	struct annotation code;
	size_t *lines; /* heap; those of the annotation that are shown */
	size_t nr_lines, cursor, top;
	bool no_source;
	enum shown_number number;
	int skip;
	unsigned depth; /* calls that were followed */
	char search[SEARCH_TEXT];
	char message[256];
};

static const struct annotation_line *line_at(const struct annotate *annotate, size_t at)
{
	return &annotate->code.lines[annotate->lines[at]];
}

static const struct code_instruction *instruction_at(const struct annotate *annotate, size_t at)
{
	const struct annotation_line *line = line_at(annotate, at);

	return line->instruction == ANNOTATION_SOURCE ? NULL : &annotate->code.code.all[line->instruction];
}

static uint64_t period_at(const struct annotate *annotate, size_t at)
{
	const struct annotation_line *line = line_at(annotate, at);

	return line->instruction == ANNOTATION_SOURCE ? 0 : annotate->code.amounts[line->instruction].period;
}

/* The lines that are shown; the cursor stays at its instruction. */
static void choose_lines(struct annotate *annotate)
{
	size_t at = annotate->nr_lines ? annotate->lines[annotate->cursor] : 0;

	annotate->nr_lines = 0;
	for (size_t i = 0; i < annotate->code.nr_lines; i++) {
		if (annotate->no_source && annotate->code.lines[i].instruction == ANNOTATION_SOURCE)
			continue;
		if (i <= at)
			annotate->cursor = annotate->nr_lines;
		annotate->lines[annotate->nr_lines++] = i;
	}
}

/* The line of the instruction at an address; nr_lines: none. */
static size_t line_of(const struct annotate *annotate, uint64_t address)
{
	size_t index = code_find(&annotate->code.code, address);

	if (index == annotate->code.code.nr || annotate->code.code.all[index].address != address)
		return annotate->nr_lines;
	for (size_t i = 0; i < annotate->nr_lines; i++)
		if (line_at(annotate, i)->instruction == index)
			return i;
	return annotate->nr_lines;
}

/* The line with the most samples, below `most` or, of those equal to it, behind `after`; nr_lines: none. */
static size_t next_hottest(const struct annotate *annotate, size_t from)
{
	uint64_t most = from < annotate->nr_lines ? period_at(annotate, from) : UINT64_MAX;
	size_t best = annotate->nr_lines;

	for (size_t i = 0; i < annotate->nr_lines; i++) {
		uint64_t period = period_at(annotate, i);
		bool behind = period < most || (period == most && from < annotate->nr_lines && i > from);
		if (period && behind && (best == annotate->nr_lines || period > period_at(annotate, best)))
			best = i;
	}
	return best;
}

/* And the other way. */
static size_t previous_hottest(const struct annotate *annotate, size_t from)
{
	uint64_t least = period_at(annotate, from);
	size_t best = annotate->nr_lines;

	for (size_t i = annotate->nr_lines; i-- > 0;) {
		uint64_t period = period_at(annotate, i);
		bool before = period > least || (period == least && i < from);
		if (period && before && (best == annotate->nr_lines || period < period_at(annotate, best)))
			best = i;
	}
	return best;
}

static int style_of(double share)
{
	return share >= LARGE ? SCREEN_LARGE : share > medium_share ? SCREEN_MEDIUM : SCREEN_PLAIN;
}

static void put_number(const struct annotate *annotate, size_t at, char *text, size_t room, int *style)
{
	const struct annotation_line *line = line_at(annotate, at);

	text[0] = '\0';
	*style = SCREEN_PLAIN;
	if (line->instruction == ANNOTATION_SOURCE || !annotate->code.amounts[line->instruction].nr_samples)
		return;
	const struct hist_amount *amount = &annotate->code.amounts[line->instruction];
	double share = 100.0 * (double)amount->period / (double)annotate->code.total.period;
	*style = style_of(share);
	if (annotate->number == SHOW_PERCENT)
		snprintf(text, room, "%9.2f", share);
	else
		snprintf(text, room, "%11" PRIu64,
			 annotate->number == SHOW_PERIOD ? amount->period : amount->nr_samples);
}

/* Tabs become blanks, everything else that is special is escaped. */
static void put_source(struct buf *out, const char *text, size_t len)
{
	int column = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\r' && i + 1 == len)
			break;
		size_t end = i;
		while (end < len && text[end] != '\t' && text[end] != '\r')
			end++;
		if (end > i) {
			escape_put(out, text + i, end - i);
			column += (int)(end - i);
			i = end - 1;
			continue;
		}
		do
			buf_put_u8(out, ' ');
		while (++column % TAB_STOP);
	}
}

/* The name of the function that a call goes to, with a plus where it goes into one. */
static void put_target(const struct annotate *annotate, const struct code_instruction *instruction, struct buf *out)
{
	const struct symbol *own = annotate->code.symbol, *other;

	if (!instruction->target || (instruction->target >= own->start && instruction->target < own->end))
		return;
	other = annotate->code.dso->kind == DSO_KERNEL || annotate->code.dso->loaded
			? symbols_find(&annotate->code.dso->symbols, instruction->target)
			: NULL;
	if (!other)
		return;
	buf_put_text(out, "  <");
	escape_put_text(out, other->name);
	if (instruction->target > other->start)
		buf_printf(out, "+%#" PRIx64, instruction->target - other->start);
	buf_put_text(out, ">");
}

static void put_line(const struct annotate *annotate, size_t at, struct buf *out)
{
	const struct annotation_line *line = line_at(annotate, at);
	const struct code_instruction *instruction = instruction_at(annotate, at);
	size_t len;

	out->len = 0;
	if (instruction) {
		const struct symbol *own = annotate->code.symbol;
		bool inside = instruction->jump && instruction->target >= own->start && instruction->target < own->end;
		const char *mark = !inside                                       ? " "
				   : instruction->target <= instruction->address ? (screen_utf8() ? "↑" : "^")
										 : (screen_utf8() ? "↓" : "v");
		buf_printf(out, "%8" PRIx64 ": %s %s", instruction->shown, mark, instruction->text);
		put_target(annotate, instruction, out);
		return;
	}
	const char *text = source_file_line(line->file, line->source_line, &len);
	escape_put_text(out, source_file_name(line->file));
	buf_printf(out, ":%u%s  ", line->source_line,
		   source_file_is_newer(line->file) ? " (newer than the program)" : "");
	put_source(out, text, len);
}

/* Between the jump at the cursor and where it goes. */
static const char *rail_at(const struct annotate *annotate, size_t at)
{
	const struct code_instruction *jump = annotate->nr_lines ? instruction_at(annotate, annotate->cursor) : NULL;
	size_t to = jump && jump->jump && jump->target ? line_of(annotate, jump->target) : annotate->nr_lines;
	size_t from = annotate->cursor;

	if (to == annotate->nr_lines)
		return " ";
	if (at == to)
		return screen_utf8() ? "→" : ">";
	if (at == from)
		return screen_utf8() ? (to > from ? "┌" : "└") : "+";
	bool between = to > from ? at > from && at < to : at < from && at > to;
	return between ? (screen_utf8() ? "│" : "|") : " ";
}

/* The names may be long: the numbers stand at the right edge, where they are not cut off. */
static void draw_title(const struct annotate *annotate)
{
	static const char *const kinds[] = {"Percent: local period", "Period", "Samples"};
	AUTO_BUF struct buf names = {0}, numbers = {0};
	int columns = screen_columns(), at;

	escape_put_text(&names, annotate->code.symbol->name);
	buf_put_text(&names, "  ");
	escape_put_text(&names, dso_long_name(annotate->code.dso));
	buf_printf(&numbers, "  Samples: %" PRIu64 "  [%s]%s", annotate->code.total.nr_samples, kinds[annotate->number],
		   annotate->code.code.cut ? "  (only its first MiB)" : "");
	at = columns - (int)strlen(buf_text(&numbers));
	if (at < 0)
		at = 0;
	screen_fill(0, 0, columns, SCREEN_TITLE);
	screen_put(0, 0, at, SCREEN_TITLE, buf_text(&names));
	screen_put(0, at, columns - at, SCREEN_TITLE, buf_text(&numbers));
}

static void draw_row(const struct annotate *annotate, size_t at, int y, struct buf *text)
{
	int style, cursor = at == annotate->cursor ? SCREEN_CURSOR : 0, width = screen_columns();
	bool source = !instruction_at(annotate, at);
	char number[32];

	put_number(annotate, at, number, sizeof(number), &style);
	put_line(annotate, at, text);
	screen_fill(y, 0, width, cursor);
	screen_put(y, 0, NUMBER_COLUMNS, style + cursor, number);
	screen_put(y, NUMBER_COLUMNS, 2, SCREEN_DIM + cursor, screen_utf8() ? "│" : "|");
	screen_put(y, NUMBER_COLUMNS + 1, 1, SCREEN_MEDIUM + cursor, rail_at(annotate, at));
	screen_put_from(y, NUMBER_COLUMNS + 2, width, (source ? SCREEN_DIM : SCREEN_PLAIN) + cursor, buf_text(text),
			annotate->skip);
}

static size_t page_rows(void)
{
	return screen_rows() > 3 ? (size_t)screen_rows() - 2 : 1;
}

static void draw(struct annotate *annotate)
{
	AUTO_BUF struct buf text = {0};
	size_t rows = page_rows();

	if (annotate->cursor < annotate->top)
		annotate->top = annotate->cursor;
	if (annotate->cursor >= annotate->top + rows)
		annotate->top = annotate->cursor - rows + 1;
	screen_clear();
	draw_title(annotate);
	for (size_t i = 0; i < rows && annotate->top + i < annotate->nr_lines; i++)
		draw_row(annotate, annotate->top + i, (int)i + 1, &text);
	screen_fill(screen_rows() - 1, 0, screen_columns(), SCREEN_HEADER);
	screen_put(screen_rows() - 1, 0, screen_columns(), SCREEN_HEADER,
		   annotate->message[0]
			   ? annotate->message
			   : "Press 'h' for help; Enter follows a jump or call, TAB goes to the hottest line");
	screen_show();
}

static void say(struct annotate *annotate, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct annotate *annotate, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(annotate->message, sizeof(annotate->message), format, args);
	va_end(args);
}

static int show_function(const struct annotate *from, const struct hist_place *place, struct diag *reterr);

static void follow(struct annotate *annotate)
{
	const struct code_instruction *instruction = instruction_at(annotate, annotate->cursor);
	struct diag diag = {0};

	if (!instruction || !instruction->target) {
		say(annotate, "This line does not jump to a fixed place");
		return;
	}
	size_t to = line_of(annotate, instruction->target);
	if (to < annotate->nr_lines) {
		annotate->cursor = to;
		return;
	}
	const struct symbol *symbol = symbols_find(&annotate->code.dso->symbols, instruction->target);
	const struct hist_place place = {.dso = annotate->code.dso, .symbol = symbol};
	if (!symbol)
		say(annotate, "No function is known there");
	else if (annotate->depth == DEEPEST_CALLS)
		say(annotate, "Too many calls were followed: press q to go back");
	else if (show_function(annotate, &place, &diag))
		say(annotate, "%s", diag.text);
}

static void find_text(struct annotate *annotate, bool forward)
{
	AUTO_BUF struct buf text = {0};
	size_t nr = annotate->nr_lines;

	for (size_t step = 1; annotate->search[0] && step <= nr; step++) {
		size_t at = (annotate->cursor + (forward ? step : nr - step)) % nr;
		put_line(annotate, at, &text);
		if (strstr(buf_text(&text), annotate->search)) {
			annotate->cursor = at;
			return;
		}
	}
	if (annotate->search[0])
		say(annotate, "Not found");
}

static void search(struct annotate *annotate, bool forward)
{
	const struct screen_prompt prompt = {"Search: ", annotate->search, sizeof(annotate->search), NULL, NULL};

	if (screen_prompt(&prompt))
		find_text(annotate, forward);
}

static int write_lines(void *ctx, FILE *to)
{
	const struct annotate *annotate = ctx;
	AUTO_BUF struct buf text = {0};
	AUTO_ESCAPED name = escaped_text(annotate->code.symbol->name);
	int style;
	char number[32];

	fprintf(to, "# %s: %" PRIu64 " samples\n#\n", name.text, annotate->code.total.nr_samples);
	for (size_t i = 0; i < annotate->nr_lines && !ferror(to); i++) {
		put_number(annotate, i, number, sizeof(number), &style);
		put_line(annotate, i, &text);
		fprintf(to, "%-*s| %s\n", NUMBER_COLUMNS, number, buf_text(&text));
	}
	return text.failed ? -ENOMEM : 0;
}

static void write_file(struct annotate *annotate)
{
	char path[FILES_NAME];
	struct diag diag = {0};

	if (files_write("perf.annotation", write_lines, annotate, path, &diag))
		say(annotate, "%s", diag.text);
	else
		say(annotate, "Written to %s", path);
}

static void show_help(void)
{
	screen_page("Keys", "h ? F1           This page\n"
			    "UP DOWN PGUP PGDN SPACE HOME END\n"
			    "                 Move\n"
			    "LEFT RIGHT       Scroll long lines\n"
			    "q ESC Ctrl-C     Go back\n"
			    "ENTER            Follow a jump or a call\n"
			    "H                The line with the most samples\n"
			    "TAB Shift-TAB    The next one in order of samples, the one before\n"
			    "s                Lines of the source, or not\n"
			    "t                Percent, period, samples\n"
			    "/ ?              Search a text, forward; backward\n"
			    "n                Search again\n"
			    "P                Write to perf.annotation.N\n");
}

static void go_to(struct annotate *annotate, size_t line)
{
	if (line < annotate->nr_lines)
		annotate->cursor = line;
	else
		say(annotate, "No more lines have samples");
}

static bool navigate(struct annotate *annotate, int key)
{
	size_t last = annotate->nr_lines ? annotate->nr_lines - 1 : 0, page = page_rows();

	switch (key) {
	case KEY_UP_ARROW: annotate->cursor -= annotate->cursor > 0; return true;
	case KEY_DOWN_ARROW: annotate->cursor += annotate->cursor < last; return true;
	case KEY_PAGE_UP: annotate->cursor -= annotate->cursor < page ? annotate->cursor : page; return true;
	case ' ':
	case KEY_PAGE_DOWN:
		annotate->cursor += last - annotate->cursor < page ? last - annotate->cursor : page;
		return true;
	case KEY_TO_FIRST: annotate->cursor = 0; return true;
	case KEY_TO_LAST: annotate->cursor = last; return true;
	case KEY_RIGHT_ARROW: annotate->skip += SCROLL_COLUMNS; return true;
	case KEY_LEFT_ARROW: annotate->skip -= annotate->skip ? SCROLL_COLUMNS : 0; return true;
	case KEY_SIZE_CHANGED: return true;
	default: return false;
	}
}

/* false: the user goes back. */
static bool take_key(struct annotate *annotate, int key)
{
	annotate->message[0] = '\0';
	if (navigate(annotate, key))
		return true;
	switch (key) {
	case 'q':
	case KEY_ESCAPE:
	case KEY_CONTROL_C:
	case KEY_TERMINATED: return false;
	case 'h':
	case KEY_HELP_PAGE: show_help(); break;
	case KEY_RETURN: follow(annotate); break;
	case 'H': go_to(annotate, next_hottest(annotate, annotate->nr_lines)); break;
	case KEY_TAB_FORWARD: go_to(annotate, next_hottest(annotate, annotate->cursor)); break;
	case KEY_BACKWARD_TAB: go_to(annotate, previous_hottest(annotate, annotate->cursor)); break;
	case 's':
		annotate->no_source = !annotate->no_source;
		choose_lines(annotate);
		break;
	case 't': annotate->number = (annotate->number + 1) % SHOW_KINDS; break;
	case '/': search(annotate, true); break;
	case '?': search(annotate, false); break;
	case 'n': find_text(annotate, true); break;
	case 'P': write_file(annotate); break;
	default: break;
	}
	return true;
}

/* Samples of all members of the event that are counted now. */
static void count_samples(struct annotate *annotate)
{
	const struct view_event *event = &annotate->model->data->events[annotate->model->event];

	for (unsigned i = 0; i < event->nr; i++) {
		for (uint32_t cell = 0; event->tallies[i] && cell < event->tallies[i]->nr; cell++) {
			const struct tally_cell at = tally_cell(event->tallies[i], cell);
			if (at.place.dso == annotate->code.dso && model_counts(annotate->model, &at))
				annotation_add(&annotate->code, at.place.dso, at.place.address, &at.amount);
		}
	}
}

static int show(struct annotate *annotate, const struct hist_place *place, struct diag *reterr)
{
	const struct view_data *data = annotate->model->data;
	const struct annotation_options options = {
		.code = {.symfs = data->symfs, .syntax = data->code_syntax, .kernel_fd = data->kernel_code_fd},
		.debug_info = data->debug_info};
	int err = annotation_make(place, &options, &annotate->code, reterr);

	if (err)
		return err;
	annotate->lines = calloc(annotate->code.nr_lines + 1, sizeof(*annotate->lines));
	if (!annotate->lines)
		return diag_set(reterr, -ENOMEM, "out of memory");
	count_samples(annotate);
	choose_lines(annotate);
	size_t hottest = next_hottest(annotate, annotate->nr_lines);
	annotate->cursor = hottest < annotate->nr_lines ? hottest : 0;
	if (annotate->nr_lines > page_rows() && annotate->cursor > page_rows() / 2)
		annotate->top = annotate->cursor - page_rows() / 2;
	do
		draw(annotate);
	while (take_key(annotate, screen_key(-1)));
	return 0;
}

static int show_function(const struct annotate *from, const struct hist_place *place, struct diag *reterr)
{
	struct annotate annotate = {
		.model = from->model, .number = from->number, .no_source = from->no_source, .depth = from->depth + 1};
	int err = show(&annotate, place, reterr);

	annotation_fini(&annotate.code);
	free(annotate.lines);
	return err;
}

int annotate_run(const struct model *model, const struct hist_place *place, struct diag *reterr)
{
	const struct annotate start = {.model = model};

	if (!place->symbol)
		return diag_set(reterr, -ENOENT, "No function is known here: there is no code to show");
	if (!model->data->addresses)
		return diag_set(reterr, -ENOTSUP, "The addresses of these samples were not kept");
	return show_function(&start, place, reterr);
}
