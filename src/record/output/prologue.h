/* SPDX-License-Identifier: MIT */
/* prologue: the bytes of a recording before the first record of a ring. */
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

/*
 * Appends header, ids and attrs of a file. *ret_header is the header, which has to be rewritten at the end. 0 or
 * -ENOMEM.
 */
int prologue_file(const struct event_desc *descs, size_t nr, struct buf *out, struct file_header *ret_header);

/* Appends the header of 16 bytes, attrs, features and tracing data of a pipe. 0, or -errno and why. */
int prologue_pipe(const struct features_params *features, struct buf *out, struct diag *reterr);

/* Appends the records of the present tasks and maps, in the order of perf; the last one is FINISHED_INIT. */
struct initial_state {
	const struct eventset *set;
	const struct event_desc *descs;
	size_t nr_descs;
	const struct target *target;
	const struct workload *workload; /* pid 0: none */
	bool names;                      /* the events' names too: a pipe */
	struct synth_options synth_options;
	struct task_log *task_log; /* used instead of /proc once it has got task events; NULL: /proc is read */
};
int prologue_initial_state(const struct initial_state *state, struct buf *out, struct diag *reterr);
