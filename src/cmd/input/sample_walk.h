/* SPDX-License-Identifier: MIT */
/*
 * sample_walk: goes through the records of a recording in the order of time, and gives each sample with its task and
 * its call chain as frames; for commands that convert or draw a recording. One owner, one thread.
 *
 * Memory grows with the number of different call chains, not with the samples.
 *
 * 	struct sample_walk walk;
 * 	struct walk_step step;
 * 	int got = sample_walk_open(&walk, &options);
 * 	while (got >= 0 && (got = sample_walk_next(&walk, &step, &diag)) > 0)
 * 		if (step.stack)
 * 			for (uint32_t at = step.stack; at; at = stacks_outer(walk.stacks, at))
 * 				... stacks_location(walk.stacks, stacks_frame(walk.stacks, at)) ...
 * 	sample_walk_close(&walk);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine/chains.h"
#include "analyze/machine/stacks.h"
#include "cmd/input/input.h"
#include "cmd/input/records.h"
#include "cmd/input/sample_filter.h"

struct diag;

enum sample_walk_flags {
	SAMPLE_WALK_ADDRESSES = 1, /* a function has a frame for each of its addresses; else one for all of them */
	SAMPLE_WALK_INLINED = 2,   /* also frames of plain chains are expanded to the functions inlined there */
};

struct sample_walk_options {
	const struct input_options *input;  /* borrowed */
	const struct sample_filter *filter; /* borrowed; completed; NULL: all samples. What it hides is left out */
	unsigned max_stack;                 /* frames of a chain, from the innermost on; 0: all */
	enum sample_walk_flags flags;
};

struct sample_walk {
	struct session *session; /* owned, like all that follow */
	struct machine *machine;
	struct stacks *stacks;
	struct input_losses losses;         /* of the records so far: input_report_losses() */
	struct sample_walk_options options; /* private, like what follows */
	struct input_records records;
	struct chains *chains;
	struct location *frames;
	struct walked_stack *cache;
	bool inlined; /* plain chains, too */
	bool filters; /* the filter is about more than CPUs */
};

/*
 * One record. For a sample `task` and `stack` are set; task->comm has the same address as long as the task has that
 * name. Valid until the next step, `task` until the end.
 */
struct walk_step {
	const struct session_record *record;
	const struct task *task;
	size_t event;   /* of a sample: index in session_events() */
	uint32_t stack; /* of a sample: chain of walk->stacks, never empty; 0: another kind of record */
};

/* 0, or -errno: the reason is printed. sample_walk_close() must follow in any case. */
int sample_walk_open(struct sample_walk *walk, const struct sample_walk_options *options);
void sample_walk_close(struct sample_walk *walk); /* zeroed is fine */

/* Returns 1: a record, which was given to walk->machine already; 0: the end; -errno and why. */
int sample_walk_next(struct sample_walk *walk, struct walk_step *ret, struct diag *reterr);

/* Notes for the user, after the last record: what was lost, what is out of order, which names cannot be trusted. */
void sample_walk_report(struct sample_walk *walk);
