/* SPDX-License-Identifier: MIT */
/*
 * top_live: a recording that runs, as the source of the view: a recorder in a process of its own, its stream kept in
 * memory and counted as it comes. Main thread, which the view is on, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/input/input.h"
#include "cmd/report/columns.h"
#include "cmd/report/report_samples.h"
#include "cmd/view/view.h"

struct diag;
struct live;

struct live_options {
	char *const *record; /* the words of `millrace record`, NULL-terminated, from its name on */
	struct samples_options samples;
	struct symbol_options symbols;
	struct column_choice columns;
	const char *output; /* where `s` saves */
	uint64_t delay_ms, history_bytes;
	bool zero, total;
	double percent_limit;
	enum code_syntax code_syntax;
};

/*
 * Starts the recorder and waits until it records. The options are borrowed. -errno and why; also when the recorder has
 * ended with a message of its own.
 */
int live_start(const struct live_options *options, struct live **ret, struct diag *reterr);

struct view_source *live_source(struct live *live);

/*
 * Ends the recorder, and what it said goes to standard error, with what went wrong here. Its exit status; an error when
 * it was killed, or when what came could not be counted. NULL: 0.
 */
int live_stop(struct live *live);
