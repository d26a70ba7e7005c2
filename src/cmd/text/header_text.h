/* SPDX-License-Identifier: MIT */
/*
 * header_text: the lines on top of a report about file, machine and events, in the words of perf report --header.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct session;

struct header_options {
	bool wanted, alone, full;
};

/* Their rows in the table of a command whose struct `type` has a struct header_options `field`. */
#define HEADER_OPTIONS(type, field, heading)                                                                           \
	{.name = "header",                                                                                             \
	 .help = "Print first what the file says of itself and of the machine",                                        \
	 .set = option_set_flag,                                                                                       \
	 .offset = offsetof(type, field.wanted),                                                                       \
	 .group = heading},                                                                                            \
		{.name = "header-only",                                                                                \
		 .help = "Print that alone",                                                                           \
		 .set = option_set_flag,                                                                               \
		 .offset = offsetof(type, field.alone)},                                                               \
	{                                                                                                              \
		.letter = 'I', .name = "show-info", .help = "Print the long parts of it too: topology and caches",     \
		.set = option_set_flag, .offset = offsetof(type, field.full)                                           \
	}

/*
 * Prints the block of "# …" lines. full: also the long parts (-I); else a line says that they exist. For a pipe it
 * prints the features that were read so far: call it at the first record that is not part of the header. A damaged
 * section is named and left out; the others are printed.
 */
void header_print(FILE *to, struct session *session, bool full);
