/* SPDX-License-Identifier: MIT */
#include "record/synth_record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { CHUNK_BYTES = 65536 };

/* "ffffffff81000000 T _text" or "ffffffffc0001000 t helper\t[module]". false: no such line. */
static bool line_parse(const char *line, const char *end, struct kallsyms_line *ret)
{
	uint64_t addr = 0;
	const char *at = line;

	for (; at < end && *at != ' '; at++) {
		unsigned digit = *at >= 'a' ? (unsigned)(*at - 'a') + 10 : (unsigned)(*at - '0');
		if (digit > 15)
			return false;
		addr = addr << 4 | digit;
	}
	if (at == line || end - at < 4 || at[2] != ' ')
		return false;
	at += 3;
	const char *tab = memchr(at, '\t', (size_t)(end - at));
	const char *name_end = tab ? tab : end;

	*ret = (struct kallsyms_line){.addr = addr, .name = {at, (size_t)(name_end - at)}};
	if (tab)
		ret->module = (struct span){tab + 1, (size_t)(end - tab - 1)};
	return true;
}

/* Visits the whole lines of the text. *ret_used: bytes of them. */
static int lines_visit(struct span text, int (*visit)(const struct kallsyms_line *, void *), void *arg,
		       size_t *ret_used)
{
	const char *start = text.ptr, *line = start, *end = start + text.len, *newline;
	struct kallsyms_line parsed;
	int stop = 0;

	while (!stop && line < end && (newline = memchr(line, '\n', (size_t)(end - line)))) {
		if (line_parse(line, newline, &parsed))
			stop = visit(&parsed, arg);
		line = newline + 1;
	}
	*ret_used = (size_t)(line - start);
	return stop;
}

int synth_kallsyms_each(int (*visit)(const struct kallsyms_line *line, void *arg), void *arg)
{
	AUTO_FD int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *text = malloc(CHUNK_BYTES);
	size_t kept = 0, used;

	if (fd < 0)
		return -errno;
	if (!text)
		return -ENOMEM;
	for (;;) {
		ssize_t got = read(fd, text + kept, CHUNK_BYTES - kept);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : 0;
		kept += (size_t)got;
		int stop = lines_visit((struct span){text, kept}, visit, arg, &used);
		if (stop)
			return stop;
		if (used == 0 && kept == CHUNK_BYTES)
			return -EBADMSG; /* a line of 64 KiB is none */
		kept -= used;
		memmove(text, text + used, kept);
	}
}
