/* SPDX-License-Identifier: MIT */
/*
 * part_names: what the files of a recording that switches its output are called, and which of them are kept. Owned by
 * the rotation; one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct part_names {
	const char *base; /* borrowed: "perf.data" */
	size_t keep;      /* --switch-max-files; 0: all */
	char **names;     /* heap; finished ones that are still there, oldest first */
	size_t nr, room;
	uint64_t last; /* the last time that was given, in hundredths of a second of CLOCK_REALTIME */
};

/* "perf.data.2026112210183800", as perf calls it: local time with hundredths, later than any before. Heap; NULL: -ENOMEM. */
char *part_names_next(struct part_names *names);

/* A file is finished; removes those that are too many. Owns `name`. 0 or -ENOMEM. */
int part_names_add(struct part_names *names, char *name);
void part_names_fini(struct part_names *names);
