/* SPDX-License-Identifier: MIT */
/* report_samples: samples into one histogram per event, filtered, with their callers where chains were
 * recorded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyze/calltree.h"
#include "analyze/hist.h"
#include "analyze/tally.h"
#include "base/diag.h"
#include "cmd/sample_filter.h"

struct details;
struct machine;
struct session;
struct session_record;
struct task;

struct samples_options {
	struct hist_options hist; /* children: wanted where there are call chains */
	struct sample_filter filter; /* settled; what it hides is counted, but not shown, except by CPU */
	bool chains; /* keep them: there will be call graphs */
	enum calltree_direction direction; /* in which callers are counted */
	uint64_t max_stack;  /* functions of a chain, from the innermost on; 0: all */
	uint64_t quantum_ns; /* of the key time */
	bool full_paths;     /* of source files */
	const char *symfs;   /* as in struct machine_options */
};

/* The samples of one event. */
struct event_samples {
	struct tally tally;
	struct hist *hist; /* once samples_settle() was called */
};

enum { MEMO_SLOTS = 1 << 14 };

/* Where a sample that looked the same was counted. */
struct sample_memo {
	uint64_t key[2];
	uint32_t cell;
};

struct samples {
	struct samples_options options;
	struct session *session; /* borrowed */
	struct machine *machine; /* borrowed */
	struct event_samples *events; /* by index */
	size_t nr;
	bool started, children; /* children: known from the first sample on */
	bool chains;            /* likewise: any are recorded */
	bool by_cpu, each_apart; /* likewise: keys; apart: a sample's time or fields, which no other has */
	struct stacks *stacks;
	struct location *frames;
	struct sample_memo *memo;
	struct details *details; /* NULL: no key asks for any */
	struct diag why;         /* of an error that is not -ENOMEM */
	uint64_t nr_found; /* samples whose place the memo did not have */
};

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine);
void samples_fini(struct samples *samples);

/* A SAMPLE record. 0 or -ENOMEM; -EBADMSG, and `why`: the formats of tracepoints are damaged. */
int samples_take(struct samples *samples, const struct session_record *record);

/* Where a sample is counted that looks like one that was taken. */
struct samples_place {
	size_t event; /* index */
	uint32_t cell;
	bool left_out; /* nowhere, and the rest is not valid */
};

/*
 * false: samples_take() has to find out. Changes nothing: by several threads at once, while none calls anything else here
 * or changes the machine. `task`: machine_known_task() of the sample; not NULL.
 */
bool samples_recall(const struct samples *samples, const struct session_record *record, const struct task *task,
		    struct samples_place *ret);

/* After the last record: makes the histograms. 0 or -ENOMEM. */
int samples_settle(struct samples *samples);

/* Then: an empty histogram for an event without samples, which has a member of a group that had some behind it. 0 or -ENOMEM. */
int samples_make_hist(struct samples *samples, size_t event, struct hist **ret);
