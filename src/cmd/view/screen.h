/* SPDX-License-Identifier: MIT */
/*
 * screen: the terminal while it is drawn on: text in styles, keys, a prompt, a menu, a page to scroll in. ncurses is
 * included by screen.c alone. Private to the room. One screen in the process; main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct diag;

enum screen_style {
	SCREEN_PLAIN,
	SCREEN_TITLE,
	SCREEN_HEADER,
	SCREEN_LARGE,  /* shares from 5 % on */
	SCREEN_MEDIUM, /* shares from 0.5 % on */
	SCREEN_DIM,
	SCREEN_GAP,      /* where records were lost */
	SCREEN_SELECTED, /* a part of the line of time */
	SCREEN_STYLES,
	SCREEN_CURSOR = 64, /* added to another one */
};

/* Keys that are no bytes; bytes are themselves, and those of characters outside of ASCII come one by one. */
enum screen_key {
	KEY_NONE_YET = -1, /* nothing came in time */
	KEY_UP_ARROW = 0x1000,
	KEY_DOWN_ARROW,
	KEY_LEFT_ARROW,
	KEY_RIGHT_ARROW,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_TO_FIRST,
	KEY_TO_LAST,
	KEY_BACKWARD_TAB,
	KEY_ERASE,
	KEY_HELP_PAGE,
	KEY_SIZE_CHANGED,
	KEY_TERMINATED, /* a signal asks the process to end */
	KEY_ESCAPE = 27,
	KEY_CONTROL_C = 3,
	KEY_RETURN = 13,
	KEY_TAB_FORWARD = 9,
};

/* Can there be one? false: *ret_why has the reason. */
bool screen_possible(const char **ret_why);

/* Called before and after each wait for a key, to release and take a lock of the caller. Each may be NULL. */
struct screen_wait {
	void (*before)(void *ctx);
	void (*after)(void *ctx);
	void *ctx;
};

/* -ENOTSUP and why: there is none. */
int screen_open(bool colourless, const struct screen_wait *wait, struct diag *reterr);

/* Gives the terminal back. Nothing happens when it is not open. */
void screen_close(void);

int screen_rows(void);
int screen_columns(void);
bool screen_utf8(void); /* else what is drawn is ASCII */

/*
 * Around work that may take long, shows its progress on the terminal and ends when SIGINT comes: Ctrl-C is that signal
 * in between, and all is drawn again behind it.
 */
void screen_begin_work(void);
void screen_end_work(void);

void screen_clear(void);
/* At most `width` columns of a text that was escaped, from its column `skip` on; returns the columns drawn. */
int screen_put(int y, int x, int width, int style, const char *text);
int screen_put_from(int y, int x, int width, int style, const char *text, int skip);
void screen_fill(int y, int x, int width, int style); /* with blanks */
void screen_show(void);

/* Without waiting: has the user pressed Ctrl-C or ESC to end what takes long? Other keys stay in the queue. */
bool screen_gives_up(void);

/* The next key, after at most so many milliseconds (-1: any). */
int screen_key(int timeout_ms);

/* Draws what a menu or a prompt stands on: again when the terminal has another size. */
struct screen_behind {
	void (*draw)(void *ctx);
	void *ctx;
};

/* What the user types into the last line. */
struct screen_prompt {
	const char *label;
	char *text; /* at first, and as it is edited */
	size_t room;
	void (*changed)(void *ctx);  /* after each key; NULL: nothing */
	struct screen_behind behind; /* of both, the context */
};
bool screen_prompt(const struct screen_prompt *prompt); /* false: cancelled, and the text is unchanged */

/* The index of the item that was chosen; -1: none. */
int screen_menu(const char *title, const char *const items[], int nr, const struct screen_behind *behind);

/* Lines to scroll in, up and down and sideways, until a key closes them. */
void screen_page(const char *title, const char *text);

/* The columns of a text; a byte that is no character counts as one. */
int screen_width(const char *text);

/* The bytes of its first `columns` columns. */
size_t screen_cut(const char *text, int columns);
