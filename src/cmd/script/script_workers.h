/* SPDX-License-Identifier: MIT */
/*
 * script_workers: the lines of many samples, made by several threads and written in the order of the samples. What they
 * print is what sample_text_print() prints in one thread, the slow way (tests/integration/test_read_cpus.py). One owner
 * (script_workers_free), used by one thread. Memory: bounded, whatever the size of the file.
 */
#pragma once

#include <stdbool.h>

#include "cmd/text/sample_text.h"

struct diag;
struct input_records;
struct machine;
struct output;
struct script_workers;

struct script_workers_options {
	const struct sample_text_options *text; /* all borrowed, for the life of the workers */
	struct session *session;
	struct machine *machine;
	struct output *out;
};

/*
 * text: the caller's own, which prints the samples that need a change of the machine. *ret is NULL when there
 * is only one CPU, or the lines depend on each other. 0 or -ENOMEM.
 */
int script_workers_new(const struct script_workers_options *options, struct sample_text *text,
		       struct script_workers **ret);
void script_workers_free(struct script_workers *workers); /* NULL is fine */

/* For prefetcher_start(). NULL is fine. */
unsigned script_workers_nr(const struct script_workers *workers);

/*
 * Prints some of the samples that come next: 1; 0: the next record is the caller's, as input_records_next() gives it.
 * Otherwise as sample_text_print().
 */
int script_workers_print(struct script_workers *workers, struct input_records *records, struct diag *reterr);

/* Before something else goes to the output: what is made is written. Errors are the output's. */
void script_workers_flush(struct script_workers *workers);
