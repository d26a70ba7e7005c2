/* SPDX-License-Identifier: MIT */
#include "record/part_names.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/sink.h"

static void format_time(uint64_t hundredths, char *ret, size_t size)
{
	time_t seconds = (time_t)(hundredths / 100);
	struct tm tm;
	char text[16];

	localtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y%m%d%H%M%S", &tm);
	snprintf(ret, size, "%s%02u", text, (unsigned)(hundredths % 100));
}

char *part_names_next(struct part_names *names)
{
	uint64_t at = clock_ns(CLOCK_REALTIME) / 10000000;
	char text[20], *name;

	/* Later than what may not be finished yet, and so not be found; and no file of another recording. */
	if (at <= names->last)
		at = names->last + 1;
	for (;; at++) {
		format_time(at, text, sizeof(text));
		if (asprintf(&name, "%s.%s", names->base, text) < 0)
			return NULL;
		if (access(name, F_OK))
			break;
		free(name);
	}
	names->last = at;
	return name;
}

int part_names_add(struct part_names *names, char *name)
{
	if (names->nr == names->room) {
		size_t room = names->room ? names->room * 2 : 16;
		char **grown = realloc(names->names, room * sizeof(*grown));
		if (!grown) {
			free(name);
			return -ENOMEM;
		}
		names->names = grown;
		names->room = room;
	}
	names->names[names->nr++] = name;
	while (names->keep && names->nr > names->keep) {
		sink_remove(names->names[0]);
		free(names->names[0]);
		memmove(names->names, names->names + 1, --names->nr * sizeof(*names->names));
	}
	return 0;
}

void part_names_fini(struct part_names *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->names[i]);
	free(names->names);
	names->names = NULL;
	names->nr = names->room = 0;
}
