/* SPDX-License-Identifier: MIT */
#include "cmd/view/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "sysinfo/library.h"

/* Behind our own headers: term.h has macros with names such as `tab`. */
#include <term.h>

#include <curses.h>

/* Names of terminfo's capabilities that term.h defines as macros. */
#undef lines
#undef columns

enum { ESCAPE_DELAY_MS = 25 /* an arrow key's bytes come together, even over ssh */, TAB_STOP = 8 };
enum { TYPED_AHEAD = 64 /* ncurses keeps 137 */ };
enum { SCROLL_COLUMNS = 10, TYPED_COLUMNS = 16 /* of a prompt, or half of the terminal, however long its label is */ };

static SCREEN *screen;
static bool utf8;
static struct screen_wait while_waiting;
static volatile sig_atomic_t terminated; /* the signal */
static const int endings[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};

/*
 * Loaded when a table is to be shown: with libtinfo, which it needs, it would slow the start of every command. Macros
 * of curses.h that call a function are of no use here.
 */
static struct {
	__typeof__(clearok) *clearok;
	__typeof__(delscreen) *delscreen;
	__typeof__(endwin) *endwin;
	__typeof__(has_colors) *has_colors;
	__typeof__(init_pair) *init_pair;
	__typeof__(newterm) *newterm;
	__typeof__(noecho) *noecho;
	__typeof__(nonl) *nonl;
	__typeof__(set_escdelay) *set_escdelay;
	__typeof__(start_color) *start_color;
	__typeof__(ungetch) *ungetch;
	__typeof__(use_default_colors) *use_default_colors;
	__typeof__(waddch) *waddch;
	__typeof__(waddnstr) *waddnstr;
	__typeof__(wattrset) *wattrset;
	__typeof__(werase) *werase;
	__typeof__(wgetch) *wgetch;
	__typeof__(wmove) *wmove;
	__typeof__(wrefresh) *wrefresh;
	__typeof__(cbreak) *cbreak;
	__typeof__(curs_set) *curs_set;
	__typeof__(keypad) *keypad;
	__typeof__(nodelay) *nodelay;
	__typeof__(noraw) *noraw;
	__typeof__(raw) *raw;
	__typeof__(setupterm) *setupterm;
	__typeof__(tigetstr) *tigetstr;
	WINDOW **window; /* the variable stdscr */
} curses;

/* false: it is not installed. */
static bool load_library(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(clearok, &curses.clearok),
		LIBRARY_FUNCTION(delscreen, &curses.delscreen),
		LIBRARY_FUNCTION(endwin, &curses.endwin),
		LIBRARY_FUNCTION(has_colors, &curses.has_colors),
		LIBRARY_FUNCTION(init_pair, &curses.init_pair),
		LIBRARY_FUNCTION(newterm, &curses.newterm),
		LIBRARY_FUNCTION(noecho, &curses.noecho),
		LIBRARY_FUNCTION(nonl, &curses.nonl),
		LIBRARY_FUNCTION(set_escdelay, &curses.set_escdelay),
		LIBRARY_FUNCTION(start_color, &curses.start_color),
		LIBRARY_FUNCTION(ungetch, &curses.ungetch),
		LIBRARY_FUNCTION(use_default_colors, &curses.use_default_colors),
		LIBRARY_FUNCTION(waddch, &curses.waddch),
		LIBRARY_FUNCTION(waddnstr, &curses.waddnstr),
		LIBRARY_FUNCTION(wattrset, &curses.wattrset),
		LIBRARY_FUNCTION(werase, &curses.werase),
		LIBRARY_FUNCTION(wgetch, &curses.wgetch),
		LIBRARY_FUNCTION(wmove, &curses.wmove),
		LIBRARY_FUNCTION(wrefresh, &curses.wrefresh),
		LIBRARY_FUNCTION(cbreak, &curses.cbreak),
		LIBRARY_FUNCTION(curs_set, &curses.curs_set),
		LIBRARY_FUNCTION(keypad, &curses.keypad),
		LIBRARY_FUNCTION(nodelay, &curses.nodelay),
		LIBRARY_FUNCTION(noraw, &curses.noraw),
		LIBRARY_FUNCTION(raw, &curses.raw),
		LIBRARY_FUNCTION(setupterm, &curses.setupterm),
		LIBRARY_FUNCTION(tigetstr, &curses.tigetstr),
		LIBRARY_VARIABLE(stdscr, &curses.window),
	};

	return library_load("libncursesw.so.6", functions, sizeof(functions) / sizeof(functions[0]));
}

static WINDOW *window(void)
{
	return *curses.window;
}

/* By terminfo's name for it. NULL: the terminal cannot; -1: no such name. Source: tigetstr(3) */
static bool can_move_cursor(void)
{
	const char *how = curses.tigetstr("cup");

	return how && how != (char *)(intptr_t)-1;
}

bool screen_possible(const char **ret_why)
{
	const char *type = getenv("TERM");
	int err = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		*ret_why = "standard input and output are not both terminals";
	else if (!type || !*type || strcmp(type, "dumb") == 0)
		*ret_why = "TERM names no terminal that can be drawn on";
	else if (!load_library())
		*ret_why = "libncursesw.so.6 is not installed (Debian: libncursesw6)";
	else if (curses.setupterm((char *)(uintptr_t)type, STDOUT_FILENO, &err) == ERR)
		*ret_why = "terminfo does not know the terminal that TERM names";
	else if (!can_move_cursor())
		*ret_why = "the terminal that TERM names cannot be drawn on";
	else
		return true;
	return false;
}

static void at_ending(int signal_nr)
{
	terminated = signal_nr;
}

/* The terminal must not stay as it is when a fault ends the process. */
static void at_crash(int signal_nr)
{
	curses.endwin();
	signal(signal_nr, SIG_DFL);
	raise(signal_nr);
}

static void set_handlers(void)
{
	struct sigaction ending = {.sa_handler = at_ending};
	struct sigaction crash = {.sa_handler = at_crash, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		sigaction(endings[i], &ending, NULL);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &crash, NULL);
}

static void set_colours(bool colourless)
{
	if (colourless || !curses.has_colors() || curses.start_color() == ERR)
		return;
	curses.use_default_colors();
	curses.init_pair(SCREEN_LARGE, COLOR_RED, -1);
	curses.init_pair(SCREEN_MEDIUM, COLOR_GREEN, -1);
	curses.init_pair(SCREEN_DIM, COLOR_CYAN, -1);
	curses.init_pair(SCREEN_GAP, COLOR_RED, -1);
	curses.init_pair(SCREEN_SELECTED, COLOR_YELLOW, -1);
}

int screen_open(bool colourless, const struct screen_wait *wait, struct diag *reterr)
{
	const char *why;

	if (screen)
		return 0;
	if (!screen_possible(&why))
		return diag_set(reterr, -ENOTSUP, "%s", why);
	setlocale(LC_CTYPE, "");
	utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	screen = curses.newterm(NULL, stdout, stdin);
	if (!screen)
		return diag_set(reterr, -ENOTSUP, "the terminal cannot be drawn on");
	while_waiting = *wait;
	terminated = 0;
	set_handlers();
	curses.raw();
	curses.noecho();
	curses.nonl();
	curses.keypad(window(), TRUE);
	curses.nodelay(window(), TRUE);
	curses.set_escdelay(ESCAPE_DELAY_MS);
	curses.curs_set(0);
	set_colours(colourless);
	return 0;
}

void screen_close(void)
{
	if (!screen)
		return;
	curses.endwin();
	curses.delscreen(screen);
	screen = NULL;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		signal(endings[i], SIG_DFL);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		signal(crashes[i], SIG_DFL);
	if (terminated)
		raise(terminated);
}

int screen_rows(void)
{
	return getmaxy(window());
}

int screen_columns(void)
{
	return getmaxx(window());
}

bool screen_utf8(void)
{
	return utf8;
}

/* The columns of the character at the start of the text, and its bytes. */
static int character(const char *text, size_t *ret_bytes)
{
	wchar_t wide;
	mbstate_t state = {0};
	size_t bytes = (unsigned char)*text < 0x80 ? 1 : mbrtowc(&wide, text, MB_CUR_MAX, &state);

	if (bytes == 0 || bytes > 4) { /* no character of this locale */
		*ret_bytes = 1;
		return 1;
	}
	*ret_bytes = bytes;
	if ((unsigned char)*text < 0x80)
		return 1;
	int width = wcwidth(wide);
	return width < 0 ? 1 : width;
}

int screen_width(const char *text)
{
	int width = 0;

	for (size_t bytes; *text; text += bytes)
		width += character(text, &bytes);
	return width;
}

size_t screen_cut(const char *text, int columns)
{
	const char *at = text;

	for (size_t bytes; *at; at += bytes) {
		columns -= character(at, &bytes);
		if (columns < 0)
			break;
	}
	return (size_t)(at - text);
}

static attr_t attributes(int style)
{
	static const attr_t plain[SCREEN_STYLES] = {
		[SCREEN_TITLE] = A_BOLD | A_REVERSE, [SCREEN_HEADER] = A_BOLD,      [SCREEN_LARGE] = A_BOLD,
		[SCREEN_GAP] = A_BOLD | A_UNDERLINE, [SCREEN_SELECTED] = A_REVERSE,
	};
	int base = style % SCREEN_CURSOR;
	attr_t attr = plain[base];

	if (base >= SCREEN_LARGE && curses.has_colors())
		attr |= (attr_t)COLOR_PAIR(base);
	return style >= SCREEN_CURSOR ? attr | A_REVERSE : attr;
}

/* What the locale has no character for is drawn as a question mark. */
static void put_character(const char *text, size_t bytes)
{
	if (bytes == 1 && (unsigned char)*text >= 0x80)
		curses.waddch(window(), '?');
	else
		curses.waddnstr(window(), text, (int)bytes);
}

int screen_put_from(int y, int x, int width, int style, const char *text, int skip)
{
	int drawn = 0, passed = 0, columns = getmaxx(window());
	size_t bytes;

	if (y < 0 || y >= getmaxy(window()) || x < 0 || x >= columns)
		return 0;
	width = width < columns - x ? width : columns - x;
	curses.wmove(window(), y, x);
	curses.wattrset(window(), attributes(style));
	for (; *text; text += bytes) {
		int wide = character(text, &bytes);
		if (passed < skip || (skip && !wide && !drawn)) { /* with what it is combined with */
			passed += wide;
			continue;
		}
		if (drawn + wide > width)
			break;
		put_character(text, bytes);
		drawn += wide;
	}
	curses.wattrset(window(), A_NORMAL);
	return drawn;
}

int screen_put(int y, int x, int width, int style, const char *text)
{
	return screen_put_from(y, x, width, style, text, 0);
}

void screen_fill(int y, int x, int width, int style)
{
	if (y < 0 || y >= getmaxy(window()) || x < 0)
		return;
	curses.wattrset(window(), attributes(style));
	for (; width > 0 && x < getmaxx(window()); width--, x++)
		if (curses.wmove(window(), y, x) != ERR)
			curses.waddch(window(), ' ');
	curses.wattrset(window(), A_NORMAL);
}

void screen_begin_work(void)
{
	curses.noraw();
	curses.cbreak();
}

void screen_end_work(void)
{
	curses.raw();
	curses.clearok(window(), TRUE);
}

void screen_clear(void)
{
	curses.werase(window());
}

void screen_show(void)
{
	curses.wrefresh(window());
}

static int key_of(int key)
{
	switch (key) {
	case KEY_UP: return KEY_UP_ARROW;
	case KEY_DOWN: return KEY_DOWN_ARROW;
	case KEY_LEFT: return KEY_LEFT_ARROW;
	case KEY_RIGHT: return KEY_RIGHT_ARROW;
	case KEY_PPAGE: return KEY_PAGE_UP;
	case KEY_NPAGE: return KEY_PAGE_DOWN;
	case KEY_HOME: return KEY_TO_FIRST;
	case KEY_END: return KEY_TO_LAST;
	case KEY_BTAB: return KEY_BACKWARD_TAB;
	case KEY_BACKSPACE:
	case 127:
	case 8: return KEY_ERASE;
	case KEY_F(1): return KEY_HELP_PAGE;
	case KEY_RESIZE: return KEY_SIZE_CHANGED;
	case KEY_ENTER:
	case '\n': return KEY_RETURN;
	default: return key <= 0xff ? key : 0;
	}
}

/* Ctrl-Z: the shell comes back, and later we do. */
static void suspend(void)
{
	curses.endwin();
	raise(SIGSTOP);
	curses.wrefresh(window());
}

static int wait_for_input(struct pollfd *wait, int timeout_ms)
{
	if (while_waiting.before)
		while_waiting.before(while_waiting.ctx);
	int got = poll(wait, 1, timeout_ms);
	if (while_waiting.after)
		while_waiting.after(while_waiting.ctx);
	return got;
}

bool screen_gives_up(void)
{
	int keys[TYPED_AHEAD], nr = 0, key = ERR;

	while (nr < TYPED_AHEAD && (key = curses.wgetch(window())) != ERR && key != KEY_CONTROL_C && key != KEY_ESCAPE)
		keys[nr++] = key;
	while (nr > 0)
		curses.ungetch(keys[--nr]); /* the last one that is given back comes first */
	return terminated || key == KEY_CONTROL_C || key == KEY_ESCAPE;
}

int screen_key(int timeout_ms)
{
	enum { CONTROL_Z = 26, CONTROL_L = 12 };

	for (;;) {
		int key = curses.wgetch(window());
		if (terminated)
			return KEY_TERMINATED;
		if (key == CONTROL_Z) {
			suspend();
			continue;
		}
		if (key == CONTROL_L) {
			curses.clearok(window(), TRUE);
			return KEY_SIZE_CHANGED;
		}
		if (key != ERR)
			return key_of(key);
		struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
		int got = wait_for_input(&wait, timeout_ms);
		if (got == 0)
			return KEY_NONE_YET;
		if (got > 0 && wait.revents & (POLLHUP | POLLERR | POLLNVAL))
			return KEY_TERMINATED; /* the terminal is gone */
	}
}

/* Takes away the last character. */
static void erase_last(char *text)
{
	size_t len = strlen(text);

	while (len && ((unsigned char)text[len - 1] & 0xc0) == 0x80)
		len--;
	text[len ? len - 1 : 0] = '\0';
}

/* One that a locale may have as a part of a character counts as typed, too. */
static bool is_typed(int key)
{
	return (key >= ' ' && key < 127) || (key >= 0x80 && key <= 0xff);
}

/* Of a label that is too long, its beginning. */
static void draw_prompt(const struct screen_prompt *prompt)
{
	int y = screen_rows() - 1, columns = screen_columns();
	int typed = columns / 2 < TYPED_COLUMNS ? columns / 2 : TYPED_COLUMNS;

	screen_fill(y, 0, columns, SCREEN_HEADER);
	int x = screen_put(y, 0, columns - typed - 1, SCREEN_HEADER, prompt->label) + 1;
	int long_by = screen_width(prompt->text) - (columns - x - 2);
	x += screen_put_from(y, x, columns - x, SCREEN_PLAIN, prompt->text, long_by > 0 ? long_by : 0);
	screen_put(y, x, 1, SCREEN_CURSOR, " ");
	screen_show();
}

bool screen_prompt(const struct screen_prompt *prompt)
{
	char before[256];

	snprintf(before, sizeof(before), "%s", prompt->text);
	for (;;) {
		draw_prompt(prompt);
		int key = screen_key(-1);
		size_t len = strlen(prompt->text);
		if (key == KEY_SIZE_CHANGED) {
			prompt->behind.draw(prompt->behind.ctx);
			continue;
		}
		if (key == KEY_RETURN)
			return true;
		if (key == KEY_ESCAPE || key == KEY_CONTROL_C || key == KEY_TERMINATED) {
			snprintf(prompt->text, prompt->room, "%s", before);
			if (prompt->changed)
				prompt->changed(prompt->behind.ctx);
			return false;
		}
		if (key == KEY_ERASE)
			erase_last(prompt->text);
		else if (is_typed(key) && len + 1 < prompt->room)
			prompt->text[len] = (char)key, prompt->text[len + 1] = '\0';
		if (prompt->changed)
			prompt->changed(prompt->behind.ctx);
	}
}

/* As many items as there is room for; the one at `at` is always there. */
static void draw_menu(const char *title, const char *const items[], int nr, int at)
{
	int width = screen_width(title), rows = screen_rows() - 3, first = 0;

	for (int i = 0; i < nr; i++)
		width = screen_width(items[i]) > width ? screen_width(items[i]) : width;
	width = width + 2 < screen_columns() ? width + 2 : screen_columns();
	rows = rows < 1 ? 1 : rows;
	int shown = nr < rows ? nr : rows;
	if (at >= shown)
		first = at - shown + 1;
	int x = (screen_columns() - width) / 2, y = (screen_rows() - shown - 1) / 2;
	screen_fill(y, x, width, SCREEN_TITLE);
	screen_put(y, x + 1, width - 2, SCREEN_TITLE, title);
	for (int i = 0; i < shown; i++) {
		int style = first + i == at ? SCREEN_PLAIN + SCREEN_CURSOR : SCREEN_PLAIN;
		screen_fill(y + 1 + i, x, width, style);
		screen_put(y + 1 + i, x + 1, width - 2, style, items[first + i]);
	}
	screen_show();
}

int screen_menu(const char *title, const char *const items[], int nr, const struct screen_behind *behind)
{
	int at = 0;

	for (;;) {
		draw_menu(title, items, nr, at);
		switch (screen_key(-1)) {
		case KEY_SIZE_CHANGED: behind->draw(behind->ctx); break;
		case KEY_UP_ARROW: at = at ? at - 1 : nr - 1; break;
		case KEY_DOWN_ARROW: at = at + 1 < nr ? at + 1 : 0; break;
		case KEY_RETURN:
		case KEY_RIGHT_ARROW: return nr ? at : -1;
		case KEY_ESCAPE:
		case KEY_LEFT_ARROW:
		case KEY_CONTROL_C:
		case KEY_TERMINATED:
		case 'q': return -1;
		default: break;
		}
	}
}

static int count_lines(const char *text)
{
	int nr = 0;

	for (; *text; text++)
		nr += *text == '\n' || !text[1];
	return nr;
}

/* From its column `skip` on, tabs as blanks; returns the columns of the whole line. */
static int put_page_line(int y, const char *text, size_t len, int skip)
{
	AUTO_BUF struct buf shown = {0};
	size_t from = 0;
	int column = 0;

	for (size_t bytes; from < len; from += bytes) {
		if (text[from] != '\t') {
			column += character(text + from, &bytes);
			buf_put(&shown, text + from, bytes);
			continue;
		}
		bytes = 1;
		do
			buf_put_u8(&shown, ' ');
		while (++column % TAB_STOP);
	}
	screen_put_from(y, 0, screen_columns(), SCREEN_PLAIN, buf_text(&shown), skip);
	return column;
}

/* Returns the columns of the longest line on the screen. */
static int draw_page(const char *title, const char *text, int top, int skip)
{
	int rows = screen_rows() - 2, widest = 0;

	screen_clear();
	screen_fill(0, 0, screen_columns(), SCREEN_TITLE);
	screen_put(0, 0, screen_columns(), SCREEN_TITLE, title);
	for (int line = 0; *text && line < top + rows; line++) {
		size_t len = strcspn(text, "\n");
		int width = line >= top ? put_page_line(1 + line - top, text, len, skip) : 0;
		widest = width > widest ? width : widest;
		text += len + (text[len] == '\n');
	}
	screen_put(screen_rows() - 1, 0, screen_columns(), SCREEN_HEADER, "Press q or ESC to go back");
	screen_show();
	return widest;
}

void screen_page(const char *title, const char *text)
{
	int top = 0, skip = 0, nr = count_lines(text);

	for (;;) {
		int rows = screen_rows() - 2, last = nr > rows ? nr - rows : 0;
		top = top > last ? last : top < 0 ? 0 : top;
		int widest = draw_page(title, text, top, skip);
		switch (screen_key(-1)) {
		case KEY_UP_ARROW: top--; break;
		case KEY_DOWN_ARROW: top++; break;
		case KEY_PAGE_UP: top -= rows; break;
		case ' ':
		case KEY_PAGE_DOWN: top += rows; break;
		case KEY_TO_FIRST: top = 0; break;
		case KEY_TO_LAST: top = last; break;
		case KEY_RIGHT_ARROW: skip += widest - skip > screen_columns() ? SCROLL_COLUMNS : 0; break;
		case KEY_LEFT_ARROW: skip -= skip ? SCROLL_COLUMNS : 0; break;
		case 'q':
		case KEY_ESCAPE:
		case KEY_CONTROL_C:
		case KEY_RETURN:
		case KEY_TERMINATED: return;
		default: break;
		}
	}
}
