/* SPDX-License-Identifier: MIT */
/* How the files of /proc and /sys are read. */
#include "record/features_host.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

static char *read_text(const char *path)
{
	AUTO_BUF struct buf text = {0};

	if (fd_slurp(path, TEXT_MAX_BYTES, &text))
		return NULL;
	while (text.len && isspace(text.data[text.len - 1]))
		text.len--;
	return strdup(buf_text(&text));
}

char *features_host_text(const char *format, ...)
{
	char path[4096];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	return len < 0 || (size_t)len >= sizeof(path) ? NULL : read_text(path);
}

uint32_t features_host_u32(uint32_t otherwise, const char *format, ...)
{
	char path[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);

	AUTO_FREE char *text = read_text(path);
	char *end;
	if (!text)
		return otherwise;
	errno = 0;
	long value = strtol(text, &end, 10);
	return errno || end == text ? otherwise : (uint32_t)value;
}

char *features_host_field(const char *path, const char *key)
{
	AUTO_FILE FILE *file = fopen(path, "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0, key_len = strlen(key);

	while (file && getline(&line, &room, file) > 0) {
		if (strncmp(line, key, key_len))
			continue;
		char *value = line + key_len + strspn(line + key_len, " \t");
		if (*value++ != ':')
			continue;
		value += strspn(value, " \t");
		value[strcspn(value, "\n")] = '\0';
		return strdup(value);
	}
	return NULL;
}
