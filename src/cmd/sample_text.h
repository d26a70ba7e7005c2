/* SPDX-License-Identifier: MIT */
/*
 * sample_text: a sample as `perf script` prints it: who, where, when, which event, its fields, its call chain. One
 * thread.
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

struct sample_text_options {
	struct sample_fields fields;
	bool hide_chains;    /* -G: the address of the sample instead */
	unsigned clock;      /* enum sample_clock */
	unsigned max_frames; /* 0: all */
	const char *symfs;   /* as in struct machine_options */
	bool full_paths;     /* of source files */
	FILE *json;          /* samples go there, as sample_json prints them; NULL: as text to the output */
};

/* Borrows the session, the machine and the output; copies the options. NULL: out of memory. */
struct sample_text *sample_text_new(const struct sample_text_options *options, struct session *session,
				    struct machine *machine, struct output *out);
void sample_text_free(struct sample_text *text); /* NULL is fine */

/*
 * Before the first record of a file, and again by itself when a pipe brings more events: are the fields those that samples
 * have? 0, or -EINVAL and why.
 */
int sample_text_settle(struct sample_text *text, struct diag *reterr);

/* 0, or -errno and why: the tracepoint formats are damaged, or out of memory. */
int sample_text_print(struct sample_text *text, const struct session_record *record, struct diag *reterr);

/* A kernel's record that is no sample, of that task: what stands before the event, then what it says. Same errors. */
int sample_text_print_record(struct sample_text *text, const struct session_record *record, struct task *task,
			     struct diag *reterr);
