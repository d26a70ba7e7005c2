/* SPDX-License-Identifier: MIT */
/* report_samples: samples into one histogram per event, filtered, with their callers where chains were
 * recorded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyze/hist.h"

struct diag;
struct machine;
struct session;
struct session_record;

struct samples_options {
	struct hist_options hist; /* children: wanted where there are call chains */
	/* Comma-separated names; NULL: all. */
	const char *comms, *dsos, *symbols;
};

struct samples {
	struct samples_options options;
	struct session *session; /* borrowed */
	struct machine *machine; /* borrowed */
	struct hist **hists;     /* of each event, by its index; NULL: no sample yet */
	size_t nr;
	bool started, children; /* children: known from the first sample on */
	struct location *chain;
};

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine);
void samples_fini(struct samples *samples);

/* A SAMPLE record. 0 or -ENOMEM. */
int samples_take(struct samples *samples, const struct session_record *record);

/* Whether a comma-separated list has the word. */
bool list_has(const char *list, const char *word);
