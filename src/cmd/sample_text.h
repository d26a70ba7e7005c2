/* SPDX-License-Identifier: MIT */
/*
 * sample_text: a sample as `perf script` prints it: who, where, when, which event, its fields, its call chain. One
 * thread; but each thread may have one of its own.
 *
 * Which fields there are is decided per kind of event (software, tracepoint …) by the first event of that kind.
 */
#pragma once

#include <stdio.h>

#include "cmd/sample_fields.h"
#include "read/session.h"

struct diag;
struct machine;
struct output;
struct sample_text;

struct sample_filter;

struct sample_text_options {
	const struct sample_filter *filter; /* which samples; settled, borrowed */
	struct sample_fields fields;
	bool hide_chains;    /* -G: the address of the sample instead */
	unsigned clock;      /* enum sample_clock */
	unsigned max_frames; /* 0: all */
	const char *symfs;   /* as in struct machine_options */
	bool full_paths;     /* of source files */
	FILE *json;          /* samples go there, as sample_json prints them; NULL: as text to the output */
};

/* Borrows the session and the machine; copies the options. NULL: out of memory. */
struct sample_text *sample_text_new(const struct sample_text_options *options, struct session *session,
				    struct machine *machine);
void sample_text_free(struct sample_text *text); /* NULL is fine */

/*
 * Before the first record of a file, and again by itself when a pipe brings more events: are the fields those that samples
 * have? 0, or -EINVAL and why.
 */
int sample_text_settle(struct sample_text *text, struct diag *reterr);

/*
 * Whether lines can be made by several threads side by side: they are as long as each knows nothing of the line before.
 */
bool sample_text_has_lines_apart(const struct sample_text_options *options);

/*
 * Before others of the same options and session are used beside this one: opens what all samples need. 0, or -errno: this
 * one cannot, which sample_text_print() will explain.
 */
int sample_text_prepare(struct sample_text *text);

/* Through which the text asks the machine, to be fixed while there are others. */
struct lookup *sample_text_lookup(struct sample_text *text);

/*
 * A sample of those that are shown, to `out`. 0, or -errno and why: the tracepoint formats are damaged, or out of memory.
 * When its lookup has missed something, too, what was printed is not the sample's text.
 */
int sample_text_print(struct sample_text *text, const struct session_record *record, struct output *out,
		      struct diag *reterr);

/* A kernel's record that is no sample, of that task: what stands before the event, then what it says. Same errors. */
int sample_text_print_record(struct sample_text *text, const struct session_record *record, struct task *task,
			     struct output *out, struct diag *reterr);
