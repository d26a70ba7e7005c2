/* SPDX-License-Identifier: MIT */
/* A build without ncursesw: there is no screen. */
#include <errno.h>
#include <string.h>

#include "base/diag.h"
#include "cmd/view/screen.h"

bool screen_possible(const char **ret_why)
{
	*ret_why = "this build has no ncursesw";
	return false;
}

int screen_open(bool colourless, const struct screen_wait *wait, struct diag *reterr)
{
	(void)colourless, (void)wait;
	return diag_set(reterr, -ENOTSUP, "this build has no ncursesw");
}

void screen_close(void)
{
}

int screen_rows(void)
{
	return 0;
}

int screen_columns(void)
{
	return 0;
}

bool screen_utf8(void)
{
	return false;
}

void screen_begin_work(void)
{
}

void screen_end_work(void)
{
}

void screen_clear(void)
{
}

int screen_put(int y, int x, int width, int style, const char *text)
{
	return screen_put_from(y, x, width, style, text, 0);
}

int screen_put_from(int y, int x, int width, int style, const char *text, int skip)
{
	(void)y, (void)x, (void)width, (void)style, (void)text, (void)skip;
	return 0;
}

void screen_fill(int y, int x, int width, int style)
{
	(void)y, (void)x, (void)width, (void)style;
}

void screen_show(void)
{
}

bool screen_gives_up(void)
{
	return true;
}

int screen_key(int timeout_ms)
{
	(void)timeout_ms;
	return KEY_TERMINATED;
}

bool screen_prompt(const struct screen_prompt *prompt)
{
	(void)prompt;
	return false;
}

int screen_menu(const char *title, const char *const items[], int nr, const struct screen_behind *behind)
{
	(void)title, (void)items, (void)nr, (void)behind;
	return -1;
}

void screen_page(const char *title, const char *text)
{
	(void)title, (void)text;
}

int screen_width(const char *text)
{
	return (int)strlen(text);
}

size_t screen_cut(const char *text, int columns)
{
	return strnlen(text, columns > 0 ? (size_t)columns : 0);
}
