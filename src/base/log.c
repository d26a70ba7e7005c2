/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static int current_level = LOG_NORMAL;

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
	char line[1024];
	int saved = errno;
	int len = snprintf(line, sizeof(line), "millrace: ");

	vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
	fprintf(stderr, "%s\n", line);
	errno = saved;
}

#define LOG_FUNCTION(name, level)                                                                            \
	void name(const char *format, ...)                                                                   \
	{                                                                                                    \
		va_list args;                                                                                \
		if (current_level < (level))                                                                 \
			return;                                                                              \
		va_start(args, format);                                                                      \
		log_line(format, args);                                                                      \
		va_end(args);                                                                                \
	}

LOG_FUNCTION(log_error, LOG_ERRORS)
LOG_FUNCTION(log_note, LOG_NORMAL)
LOG_FUNCTION(log_verbose, LOG_VERBOSE)
LOG_FUNCTION(log_debug, LOG_DEBUG)
