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

struct annotate {
	const struct model *model;
	struct code_style *style;
	struct annotation code;
	struct hist_amount event; /* all samples of the event */
	uint32_t *nr_sources;     /* heap; of each instruction: jumps of the function that go there */
	size_t *lines;            /* heap; those of the annotation that are shown */
	size_t nr_lines, cursor, top;
	struct annotate_result result;
	int skip, widest; /* columns that are scrolled away; of the longest line on the screen */
	unsigned depth;   /* calls that were followed */
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
		if (annotate->style->no_source && annotate->code.lines[i].instruction == ANNOTATION_SOURCE)
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

static double share_of(const struct annotate *annotate, const struct hist_amount *amount)
{
	const struct hist_amount *all = annotate->style->global ? &annotate->event : &annotate->code.total;
	uint64_t part = annotate->style->by_samples ? amount->nr_samples : amount->period;
	uint64_t whole = annotate->style->by_samples ? all->nr_samples : all->period;

	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_number(const struct annotate *annotate, size_t at, char *text, size_t room, int *style)
{
	const struct annotation_line *line = line_at(annotate, at);

	text[0] = '\0';
	*style = SCREEN_PLAIN;
	if (line->instruction == ANNOTATION_SOURCE || !amount_is_used(&annotate->code.amounts[line->instruction]))
		return;
	const struct hist_amount *amount = &annotate->code.amounts[line->instruction];
	double share = share_of(annotate, amount);
	*style = style_of(share);
	if (annotate->style->number == CODE_PERCENT)
		snprintf(text, room, "%9.2f", share);
	else
		snprintf(text, room, "%11" PRIu64,
			 annotate->style->number == CODE_PERIOD ? amount->period : amount->nr_samples);
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

/* Where a jump or call goes: false: it is not known to be in a function. */
static bool find_target(const struct annotate *annotate, const struct code_instruction *instruction,
			const struct symbol **ret)
{
	const struct symbol *own = annotate->code.symbol;
	bool known = annotate->code.dso->kind == DSO_KERNEL || annotate->code.dso->loaded;

	*ret = NULL;
	if (!instruction->target)
		return false;
	if (instruction->target >= own->start && instruction->target < own->end)
		*ret = own;
	else if (known)
		*ret = symbols_find(&annotate->code.dso->symbols, instruction->target);
	return *ret != NULL;
}

static void put_symbol_offset(struct buf *out, const struct symbol *symbol, uint64_t address)
{
	escape_put_text(out, symbol->name);
	if (address > symbol->start)
		buf_printf(out, "+%#" PRIx64, address - symbol->start);
}

/* The bytes of the text before the address where it goes, with which it ends; its length: it has none. */
static size_t operand_start(const struct code_instruction *instruction)
{
	uint64_t shown = instruction->shown - instruction->address + instruction->target;
	size_t len = strlen(instruction->text);
	char address[32];
	int digits = snprintf(address, sizeof(address), "%#" PRIx64, shown);

	if (!instruction->target || len < (size_t)digits || strcmp(instruction->text + len - digits, address) != 0)
		return len;
	len -= (size_t)digits;
	return len && instruction->text[len - 1] == '#' ? len - 1 : len; /* as arm64 has it */
}

/* The instruction with offsets and names in place of addresses; or as it was disassembled. */
static void put_instruction(const struct annotate *annotate, const struct code_instruction *instruction,
			    struct buf *out)
{
	const struct code_style *style = annotate->style;
	const struct symbol *target;
	bool known = find_target(annotate, instruction, &target), inside = target == annotate->code.symbol;
	size_t plain = known && !style->disassembly && !(inside && style->full_addresses) ? operand_start(instruction)
											  : strlen(instruction->text);

	buf_put(out, instruction->text, plain);
	if (!known)
		return;
	if (!instruction->text[plain]) {
		if (inside && !style->disassembly)
			return;
		buf_put_text(out, "  <");
		put_symbol_offset(out, target, instruction->target);
		buf_put_text(out, ">");
	} else if (inside && instruction->jump) {
		buf_printf(out, "%" PRIx64, instruction->target - target->start);
	} else {
		put_symbol_offset(out, target, instruction->target);
	}
}

static void put_label(const struct annotate *annotate, const struct code_instruction *instruction, struct buf *out)
{
	const struct code_style *style = annotate->style;
	uint32_t nr_sources = annotate->nr_sources[instruction - annotate->code.code.all];
	bool shown = style->disassembly || nr_sources || style->labels == LABEL_ALL ||
		     (style->labels == LABEL_CALLS && instruction->call);

	if (style->sources && nr_sources)
		buf_printf(out, "%4u ", nr_sources);
	else if (style->sources)
		buf_put_text(out, "     ");
	if (!shown)
		buf_put_text(out, "         ");
	else
		buf_printf(out, "%8" PRIx64 ":",
			   style->disassembly || style->full_addresses
				   ? instruction->shown
				   : instruction->address - annotate->code.symbol->start);
}

static void put_source_line(const struct annotate *annotate, const struct annotation_line *line, struct buf *out)
{
	size_t len;
	const char *text = source_file_line(line->file, line->source_line, &len);

	if (!annotate->style->no_line_numbers) {
		escape_put_text(out, annotate->style->full_paths ? source_file_path(line->file)
								 : source_file_name(line->file));
		buf_printf(out, ":%u", line->source_line);
	}
	buf_printf(out, "%s  ", source_file_is_newer(line->file) ? " (newer than the program)" : "");
	put_source(out, text, len);
}

static void put_line(const struct annotate *annotate, size_t at, struct buf *out)
{
	const struct code_instruction *instruction = instruction_at(annotate, at);

	out->len = 0;
	if (!instruction) {
		put_source_line(annotate, line_at(annotate, at), out);
		return;
	}
	const struct symbol *own = annotate->code.symbol;
	bool inside = instruction->jump && instruction->target >= own->start && instruction->target < own->end;
	put_label(annotate, instruction, out);
	buf_printf(out, " %s ",
		   !inside                                       ? " "
		   : instruction->target <= instruction->address ? (screen_utf8() ? "↑" : "^")
								 : (screen_utf8() ? "↓" : "v"));
	put_instruction(annotate, instruction, out);
}

/* Between the jump at the cursor and where it goes. */
static const char *rail_at(const struct annotate *annotate, size_t at)
{
	const struct code_instruction *jump = annotate->nr_lines ? instruction_at(annotate, annotate->cursor) : NULL;
	size_t to = jump && jump->jump && jump->target ? line_of(annotate, jump->target) : annotate->nr_lines;
	size_t from = annotate->cursor;

	if (to == annotate->nr_lines || annotate->style->no_arrows)
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
	static const char *const shares[] = {"Percent: local period", "Percent: local hits", "Percent: global period",
					     "Percent: global hits"};
	const struct code_style *style = annotate->style;
	const char *kind = style->number == CODE_PERIOD    ? "Period"
			   : style->number == CODE_SAMPLES ? "Samples"
							   : shares[2 * style->global + style->by_samples];
	AUTO_BUF struct buf names = {0}, numbers = {0};
	int columns = screen_columns(), at;

	escape_put_text(&names, annotate->code.symbol->name);
	buf_put_text(&names, "  ");
	escape_put_text(&names, dso_long_name(annotate->code.dso));
	buf_printf(&numbers, "  Samples: %" PRIu64 "  [%s]%s", annotate->code.total.nr_samples, kind,
		   annotate->code.code.cut ? "  (only its first MiB)" : "");
	at = columns - (int)strlen(buf_text(&numbers));
	if (at < 0)
		at = 0;
	screen_fill(0, 0, columns, SCREEN_TITLE);
	screen_put(0, 0, at, SCREEN_TITLE, buf_text(&names));
	screen_put(0, at, columns - at, SCREEN_TITLE, buf_text(&numbers));
}

static void draw_row(struct annotate *annotate, size_t at, int y, struct buf *text)
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
	if (annotate->widest < screen_width(buf_text(text)))
		annotate->widest = screen_width(buf_text(text));
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
	annotate->widest = 0;
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

static void draw_again(void *ctx)
{
	draw(ctx);
}

static void say(struct annotate *annotate, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct annotate *annotate, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(annotate->message, sizeof(annotate->message), format, args);
	va_end(args);
}

static int show_function(const struct annotate *from, const struct hist_place *place, struct annotate_result *ret,
			 struct diag *reterr);

/* false: the user leaves from the function that was called. */
static bool follow(struct annotate *annotate)
{
	const struct code_instruction *instruction = instruction_at(annotate, annotate->cursor);
	struct diag diag = {0};

	if (!instruction || !instruction->target) {
		say(annotate, "This line does not jump to a fixed place");
		return true;
	}
	size_t to = line_of(annotate, instruction->target);
	if (to < annotate->nr_lines) {
		annotate->cursor = to;
		return true;
	}
	const struct symbol *symbol = symbols_find(&annotate->code.dso->symbols, instruction->target);
	const struct hist_place place = {.dso = annotate->code.dso, .symbol = symbol};
	if (!symbol)
		say(annotate, "No function is known there");
	else if (annotate->depth == DEEPEST_CALLS)
		say(annotate, "Too many calls were followed: press q to go back");
	else if (show_function(annotate, &place, &annotate->result, &diag))
		say(annotate, "%s", diag.text);
	return annotate->result.end == ANNOTATE_BACK;
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
	const struct screen_prompt prompt = {
		"Search:", annotate->search, sizeof(annotate->search), NULL, {draw_again, annotate}};

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
	screen_page("Keys", "h F1             This page\n"
			    "UP DOWN PGUP PGDN SPACE HOME END\n"
			    "                 Move\n"
			    "LEFT RIGHT       Scroll long lines\n"
			    "q ESC Ctrl-C     Go back\n"
			    "ENTER            Follow a jump or a call\n"
			    "< >              The function of the row before, of the next one\n"
			    "H                The line with the most samples\n"
			    "TAB Shift-TAB    The next one in order of samples, the one before\n"
			    "/ ?              Search a text, forward; backward\n"
			    "n                Search again\n"
			    "\n"
			    "s                Lines of the source, or not\n"
			    "k                Their numbers, or not\n"
			    "l                The whole paths of source files, or not\n"
			    "o                As it is disassembled, all addresses; or offsets and names\n"
			    "O                Offsets of jump targets, of calls too, of all instructions\n"
			    "f                Addresses in place of offsets\n"
			    "j                The arrow from a jump to its target, or not\n"
			    "J                How many jumps go to an instruction, or not\n"
			    "\n"
			    "t                Percent, period, samples\n"
			    "p                Percent of the function (local), of all samples (global)\n"
			    "b                Percent of the periods, of the number of samples (hits)\n"
			    "r                The samples of the function\n"
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
	case KEY_RIGHT_ARROW: annotate->skip += annotate->widest > annotate->skip ? SCROLL_COLUMNS : 0; return true;
	case KEY_LEFT_ARROW: annotate->skip -= annotate->skip ? SCROLL_COLUMNS : 0; return true;
	default: return false;
	}
}

/* Keys that change how the code is shown. true: it was one. */
static bool change_style(struct annotate *annotate, int key)
{
	struct code_style *style = annotate->style;

	switch (key) {
	case 's':
		style->no_source = !style->no_source;
		choose_lines(annotate);
		return true;
	case 'k': style->no_line_numbers = !style->no_line_numbers; return true;
	case 'l': style->full_paths = !style->full_paths; return true;
	case 'o': style->disassembly = !style->disassembly; return true;
	case 'O': style->labels = (style->labels + 1) % CODE_LABELS; return true;
	case 'f': style->full_addresses = !style->full_addresses; return true;
	case 'j': style->no_arrows = !style->no_arrows; return true;
	case 'J': style->sources = !style->sources; return true;
	case 't': style->number = (style->number + 1) % CODE_NUMBERS; return true;
	case 'p': style->global = !style->global; return true;
	case 'b': style->by_samples = !style->by_samples; return true;
	default: return false;
	}
}

static bool leave(struct annotate *annotate, enum annotate_end end)
{
	annotate->result = (struct annotate_result){
		end,
		{.dso = annotate->code.dso, .symbol = annotate->code.symbol, .address = annotate->code.symbol->start}};
	return false;
}

/* false: the user leaves. */
static bool take_key(struct annotate *annotate, int key)
{
	if (key == KEY_SIZE_CHANGED)
		return true;
	annotate->message[0] = '\0';
	if (navigate(annotate, key) || change_style(annotate, key))
		return true;
	switch (key) {
	case 'q':
	case KEY_ESCAPE:
	case KEY_CONTROL_C:
	case KEY_TERMINATED: return leave(annotate, ANNOTATE_BACK);
	case '<': return leave(annotate, ANNOTATE_PREVIOUS);
	case '>': return leave(annotate, ANNOTATE_NEXT);
	case 'r': return leave(annotate, ANNOTATE_SAMPLES);
	case 'h':
	case KEY_HELP_PAGE: show_help(); break;
	case KEY_RETURN: return follow(annotate);
	case 'H': go_to(annotate, next_hottest(annotate, annotate->nr_lines)); break;
	case KEY_TAB_FORWARD: go_to(annotate, next_hottest(annotate, annotate->cursor)); break;
	case KEY_BACKWARD_TAB: go_to(annotate, previous_hottest(annotate, annotate->cursor)); break;
	case '/': search(annotate, true); break;
	case '?': search(annotate, false); break;
	case 'n': find_text(annotate, true); break;
	case 'P': write_file(annotate); break;
	case 'c': say(annotate, "Cycles of blocks are not counted: report -b -s symbol_to,cycles has them"); break;
	case 'B': say(annotate, "Counters of branches are not shown"); break;
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
			annotate->event.period += at.amount.period;
			annotate->event.nr_samples += at.amount.nr_samples;
			if (at.place.dso == annotate->code.dso && model_counts(annotate->model, &at))
				annotation_add(&annotate->code, at.place.dso, at.place.address, &at.amount);
		}
	}
}

static void count_jumps(struct annotate *annotate)
{
	const struct code *code = &annotate->code.code;

	for (size_t i = 0; i < code->nr; i++) {
		size_t to = code->all[i].jump && code->all[i].target ? code_find(code, code->all[i].target) : code->nr;
		if (to < code->nr && code->all[to].address == code->all[i].target)
			annotate->nr_sources[to]++;
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
	annotate->nr_sources = calloc(annotate->code.code.nr + 1, sizeof(*annotate->nr_sources));
	if (!annotate->lines || !annotate->nr_sources)
		return diag_set(reterr, -ENOMEM, "out of memory");
	count_samples(annotate);
	count_jumps(annotate);
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

static int show_function(const struct annotate *from, const struct hist_place *place, struct annotate_result *ret,
			 struct diag *reterr)
{
	struct annotate annotate = {.model = from->model, .style = from->style, .depth = from->depth + 1};
	int err = show(&annotate, place, reterr);

	annotation_fini(&annotate.code);
	free(annotate.lines);
	free(annotate.nr_sources);
	*ret = annotate.result;
	return err;
}

int annotate_run(const struct model *model, const struct hist_place *place, struct code_style *style,
		 struct annotate_result *ret, struct diag *reterr)
{
	const struct annotate start = {.model = model, .style = style};

	if (!place->symbol)
		return diag_set(reterr, -ENOENT, "No function is known here: there is no code to show");
	if (!model->data->addresses)
		return diag_set(reterr, -ENOTSUP, "The addresses of these samples were not kept");
	return show_function(&start, place, ret, reterr);
}
