/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/text.h"

static const char status_begin[] = "millrace: ";

static int current_level = LOG_NORMAL;
static atomic_bool status_shown; /* the cursor is in the line of log_status() */

static const char *status_erased(void)
{
	return atomic_exchange(&status_shown, false) ? "\r\033[K" : "";
}

void log_set_level(int level)
{
	current_level = level;
}

int log_level(void)
{
	return current_level;
}

/* One write per line, so that lines of several processes do not mix. errno is kept. */
static void __attribute__((format(printf, 1, 0))) log_line(const char *format, va_list args)
{
	char line[1024], shown[sizeof(line) * ESCAPE_GROWTH];
	int saved = errno;
	int len = snprintf(line, sizeof(line), "millrace: ");

	text_format(line + len, sizeof(line) - (size_t)len, format, args);
	struct span left = {line, strlen(line)};
	size_t shown_len = escape_take(&left, shown, sizeof(shown));
	fprintf(stderr, "%s%.*s\n", status_erased(), (int)shown_len, shown);
	errno = saved;
}

#define LOG_FUNCTION(name, level)                                                                                      \
	void name(const char *format, ...)                                                                             \
	{                                                                                                              \
		va_list args;                                                                                          \
		if (current_level < (level))                                                                           \
			return;                                                                                        \
		va_start(args, format);                                                                                \
		log_line(format, args);                                                                                \
		va_end(args);                                                                                          \
	}

LOG_FUNCTION(log_error, LOG_ERRORS)
LOG_FUNCTION(log_note, LOG_NORMAL)
LOG_FUNCTION(log_verbose, LOG_VERBOSE)
LOG_FUNCTION(log_debug, LOG_DEBUG)

/*
 * Bytes that the line of log_status() may have behind its beginning, at least one for each column. In the last column
 * of the terminal the cursor would go to the next line, and only that one would be removed.
 */
static size_t status_room(void)
{
	enum { TAKEN = sizeof(status_begin) };
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return PROGRESS_BYTES * ESCAPE_GROWTH; /* not known */
	return size.ws_col > TAKEN ? size.ws_col - TAKEN : 0;
}

void log_status(const char *format, ...)
{
	char line[PROGRESS_BYTES], shown[sizeof(line) * ESCAPE_GROWTH];
	va_list args;

	/* A background job does not write over what its terminal shows now: tcgetpgrp(3). */
	if (current_level < LOG_NORMAL || !isatty(STDERR_FILENO) || tcgetpgrp(STDERR_FILENO) != getpgrp())
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	struct span left = {line, strlen(line)};
	size_t room = status_room(), len = escape_take(&left, shown, room < sizeof(shown) ? room : sizeof(shown));
	fprintf(stderr, "%s%s%.*s", status_erased(), len ? status_begin : "", (int)len, shown);
	atomic_store(&status_shown, len > 0);
}

void progress_start(struct progress *progress, const char *what)
{
	enum { FIRST_NS = 1000000000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	*progress = (struct progress){.what = what,
				      .start_ns = now,
				      .next_ns = now + FIRST_NS,
				      .bytes = progress->bytes,
				      .total = progress->total};
}

/* "12.3 M", "950". */
static void count_text(double nr, char *text, size_t room)
{
	static const char units[] = " kMGT";
	unsigned unit = 0;

	for (; nr >= 1000 && units[unit + 1]; unit++)
		nr /= 1000;
	if (unit)
		snprintf(text, room, "%.1f %c", nr, units[unit]);
	else
		snprintf(text, room, "%.0f", nr);
}

enum { BAR = 20 };

/* `most`: columns of the bar. */
static void line_with_bar(const struct progress *progress, uint64_t now_ns, int most, char ret[PROGRESS_BYTES])
{
	enum { MOST_SECONDS = 360000 };
	static const char full[BAR + 1] = "####################";
	double seconds = (double)(now_ns - progress->start_ns) / 1e9;
	const char *unit = progress->bytes ? "B" : " records", *rate_unit = progress->bytes ? "B" : "";
	char count[32], rate[32];

	count_text((double)progress->nr_records, count, sizeof(count));
	count_text((double)progress->nr_records / seconds, rate, sizeof(rate));
	if (!progress->total || progress->done > progress->total || !progress->done) {
		snprintf(ret, PROGRESS_BYTES, "%s: %s%s, %s%s/s", progress->what, count, unit, rate, rate_unit);
		return;
	}
	double part = (double)progress->done / (double)progress->total, left = seconds / part - seconds;
	int bar = (int)(part * most);
	snprintf(ret, PROGRESS_BYTES, "%s: %3.0f %% [%.*s%*s] %s%s, %s%s/s, %.0f s left", progress->what, part * 100,
		 bar, full, most - bar, "", count, unit, rate, rate_unit, left < MOST_SECONDS ? left : MOST_SECONDS);
}

void progress_line(const struct progress *progress, uint64_t now_ns, char ret[PROGRESS_BYTES])
{
	line_with_bar(progress, now_ns, BAR, ret);
}

void progress_show(struct progress *progress)
{
	enum { EACH_NS = 200000000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	char line[PROGRESS_BYTES];

	if (now < progress->next_ns)
		return;
	progress->next_ns = now + EACH_NS;
	progress_line(progress, now, line);
	size_t len = strlen(line), room = status_room();
	if (len > room) /* the bar is what can be shorter */
		line_with_bar(progress, now, len - room < BAR ? BAR - (int)(len - room) : 0, line);
	log_status("%s", line);
}

void progress_end(struct progress *progress)
{
	log_status("%s", "");
	progress->what = NULL;
}
