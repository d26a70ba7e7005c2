/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"

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

	vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
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

void log_status(const char *format, ...)
{
	char line[128];
	va_list args;

	/* A background job does not write over what its terminal shows now: tcgetpgrp(3). */
	if (current_level < LOG_NORMAL || !isatty(STDERR_FILENO) || tcgetpgrp(STDERR_FILENO) != getpgrp())
		return;
	va_start(args, format);
	int len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "%s%s%s", status_erased(), len > 0 ? "millrace: " : "", line);
	atomic_store(&status_shown, len > 0);
}
