/* SPDX-License-Identifier: MIT */
/* prologue: what stands in a recording before the first byte of a ring. */
#pragma once

#include "perfdata/attr.h"
#include "perfdata/layout.h"
#include "record/features/features.h"

#include "record/setup/options.h"

struct buf;
struct diag;
struct eventset;
struct recording_options;
struct task_log;
struct synth_params;
struct target;
struct workload;

/* Header, ids and attrs of a file; *ret_header is what was written and has to be rewritten at the end. */
int prologue_file(const struct event_desc *descs, size_t nr, struct buf *out, struct file_header *ret_header);

/* The 16 bytes, attrs, features and tracing data of a pipe. */
int prologue_pipe(const struct features_params *features, struct buf *out, struct diag *reterr);

/* The machine as it is now, in the order of perf; ends with FINISHED_INIT. */
struct initial_state {
	const struct eventset *set;
	const struct event_desc *descs;
	size_t nr_descs;
	const struct target *target;
	const struct workload *workload; /* pid 0: none */
	bool names;                      /* the events' names too: a pipe */
	struct synth_options synth_options;
	struct task_log *task_log; /* knows the tasks once it got the first task event; NULL: /proc is read */
};
int prologue_initial_state(const struct initial_state *state, struct buf *out, struct diag *reterr);
