/* SPDX-License-Identifier: MIT */
/*
 * sample_text: a sample as `perf script` prints it: who, where, when, which event, its fields, its call chain. Each
 * object is used by one thread; several may exist side by side. Which fields are printed is decided for each kind of
 * event (software, tracepoint ...) by the first event of that kind.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/cli/option.h"
#include "cmd/text/sample_line.h"
#include "read/session.h"

struct diag;
struct event_desc;
struct machine;
struct output;
struct sample_filter;
struct sample_text;
struct task;

/* Which fields -F chose for one kind of event. */
struct kind_fields {
	uint32_t shown;    /* FIELD_BIT()s */
	uint32_t required; /* named with -F: samples without them are an error */
	uint32_t removed;  /* by name */
	bool chosen;       /* -F named this kind, or was for all */
	bool silenced;     /* "KIND:": there must be such events, and none of their fields is shown */
};

struct sample_fields {
	struct kind_fields kinds[NR_KINDS];
};

/* What is shown without -F. */
void sample_fields_init(struct sample_fields *fields);

/*
 * "comm,tid,ip" (just these), "+pid,-comm" (changes), "trace:comm,trace" (of one kind: hw, sw, trace, raw, break,
 * synth), "trace:" (nothing of that kind). Once for each -F. 0, or -EINVAL and why.
 */
int sample_fields_parse(const char *text, struct sample_fields *fields, struct diag *reterr);

/*
 * By the first event of a kind: removes the fields that its samples do not have; -EINVAL and why when one of them was
 * named with -F, or when a field needs another one that is not printed.
 */
int sample_fields_complete(struct kind_fields *fields, const struct event_desc *event, struct diag *reterr);

struct sample_text_options {
	const struct sample_filter *filter; /* which samples; completed, borrowed */
	struct sample_fields fields;
	bool hide_chains; /* -G: the address of the sample instead */
	bool narrow;      /* -L: commands of eight characters, CPUs without brackets */
	unsigned clock;   /* enum sample_clock */
	struct option_limit max_frames;
	bool full_paths; /* of source files */
	const char
		*stop_at; /* names, separated by commas: a call chain ends at the first of them; borrowed. NULL: none */
	FILE *json;       /* samples go there, as sample_json prints them; NULL: as text to the output */
};

/* Borrows the session and the machine; copies the options. NULL: out of memory. */
struct sample_text *sample_text_new(const struct sample_text_options *options, struct session *session,
				    struct machine *machine);
void sample_text_free(struct sample_text *text); /* NULL is fine */

/*
 * Before the first record of a file: do samples have the fields that -F named? 0, or -EINVAL and why. When a pipe has
 * new events, this is checked again without a call.
 */
int sample_text_check(struct sample_text *text, struct diag *reterr);

/* Can several threads make lines side by side? Not where a line depends on the one before. */
bool sample_text_lines_are_independent(const struct sample_text_options *options);

/*
 * Opens what all samples need, before other objects of the same options and session are used beside this one. 0, or
 * -errno, which sample_text_print() will explain.
 */
int sample_text_prepare(struct sample_text *text);

/* Its view of the machine, to be made read-only while other threads use theirs. */
struct lookup *sample_text_lookup(struct sample_text *text);

/*
 * Prints a sample, if it passes the filter. 0, or -errno and why: the tracepoint formats are damaged, or out of memory.
 * When its read-only lookup would have had to change the machine, the printed text is not valid.
 */
int sample_text_print(struct sample_text *text, const struct session_record *record, struct output *out,
		      struct diag *reterr);

/*
 * Prints a kernel record of that task that is not a sample: the fields in front of the event, then its content. Same
 * errors.
 */
int sample_text_print_record(struct sample_text *text, const struct session_record *record, struct task *task,
			     struct output *out, struct diag *reterr);
