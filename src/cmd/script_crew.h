/* SPDX-License-Identifier: MIT */
/*
 * script_crew: the lines of many samples made by several threads side by side, and written in the order of the samples.
 * One owner (script_crew_free), used by one thread. Memory: bounded, whatever the size of the file.
 */
#pragma once

#include <stdbool.h>

#include "cmd/sample_text.h"

struct diag;
struct input_records;
struct machine;
struct output;
struct script_crew;

struct script_crew_options {
	const struct sample_text_options *text; /* all borrowed, and for the life of the crew */
	struct session *session;
	struct machine *machine;
	struct output *out;
};

/*
 * `text`: of the caller's own, which goes on to print the samples that need a change of the machine. *ret is NULL when there
 * is only one CPU, or the lines depend on each other. 0 or -ENOMEM.
 */
int script_crew_new(const struct script_crew_options *options, struct sample_text *text, struct script_crew **ret);
void script_crew_free(struct script_crew *crew); /* NULL is fine */

/* For ahead_start(). NULL is fine. */
unsigned script_crew_hands(const struct script_crew *crew);

/*
 * Prints some of the samples that come next: 1; 0: the next record is the caller's, as input_records_next() gives it.
 * Otherwise as sample_text_print().
 */
int script_crew_print(struct script_crew *crew, struct input_records *records, struct diag *reterr);

/* Before something else goes to the output: what is made is written. Errors are the output's. */
void script_crew_flush(struct script_crew *crew);
