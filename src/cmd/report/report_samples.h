/* SPDX-License-Identifier: MIT */
/* report_samples: samples into one histogram per event, filtered, with their callers where chains were recorded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine/machine.h"
#include "analyze/report/callers.h"
#include "analyze/report/count.h"
#include "analyze/report/hist.h"
#include "analyze/report/tally.h"
#include "base/diag.h"
#include "cmd/cli/option.h"
#include "cmd/input/sample_filter.h"
#include "cmd/input/sample_key.h"
#include "cmd/report/report_details.h"

struct cpuset;
struct chains;
struct parallelism;
struct details;
struct session;
struct session_record;
struct task;
struct time_bins;
struct wall;

/* What is counted: samples; their branches, each once; or samples of accesses to memory, by their weight. */
enum samples_mode { SAMPLES_PLAIN, SAMPLES_BRANCHES, SAMPLES_MEMORY };

struct samples_options {
	enum samples_mode mode;
	struct hist_options hist;    /* children: wanted where there are call chains */
	struct sample_filter filter; /* completed; what it hides is counted, but not shown, except by CPU */
	bool chains;                 /* keep them: there will be call graphs */
	bool by_address, by_line;    /* frames of a function at different addresses, or lines of them, are different */
	enum calltree_direction direction;      /* in which callers are counted */
	struct option_limit max_stack;          /* functions of a chain, from the innermost on */
	uint64_t quantum_ns;                    /* of the key time */
	bool full_paths;                        /* of source files */
	struct trace_field fields[HIST_FIELDS]; /* of the keys HIST_FIELD and so on */
	bool raw_trace;                         /* the key trace by the types of the fields */
	const char *parent, *ignored;           /* regular expressions, see callers.h; NULL: the default; none */
	bool parent_only;                       /* samples whose chains have no such parent are not shown */
	struct socket_choice socket;            /* of samples that are shown; with the key HIST_SOCKET */
	bool hide_unresolved;                   /* samples in code without a symbol are not counted */
	bool addresses;                         /* cells tell addresses inside a function apart: for annotated code */
	bool times;                             /* count samples over time, too */
	bool latency;                           /* periods count as shares of the time that the program took */
	const struct cpuset *parallelisms;      /* only samples with so many tasks running are counted; NULL: all */
	bool wall;                              /* count the time of threads, see report_wall.h: as one event */
};

/* The samples of one event. */
struct event_samples {
	struct tally tally;
	struct hist *hist; /* once samples_count() was called */
};

enum { CACHE_SLOTS = 1 << 14 };

/* The cell in which an equal sample was counted. */
struct cached_sample {
	struct sample_key key;
	uint32_t cell;
};

/* Where a sample is counted. */
struct samples_place {
	size_t event; /* index */
	uint32_t cell;
	bool left_out; /* nowhere, and the rest is not valid */
};

struct samples {
	struct samples_options options;
	struct session *session;      /* borrowed */
	struct machine *machine;      /* borrowed */
	struct event_samples *events; /* by index */
	size_t nr;
	bool started, children;       /* children: known from the first sample on */
	bool chains, completes_later; /* likewise: any are recorded; set before: chains_expand_later(), if it can */
	bool by_cpu, not_cacheable;   /* likewise: keys; not_cacheable: by time or fields, each sample's own */
	bool by_state, by_waker;      /* likewise: of times off the CPU, which state counts in parts */
	struct stacks *stacks;
	struct chains *chains_of; /* the recorded ones as those of the stacks */
	struct location *frames;  /* room for CHAIN_MOST_FRAMES, between two samples_take() */
	struct cached_sample *cache;
	struct callers callers;          /* for the key parent, and options->ignored */
	struct details *details;         /* NULL: no key needs any */
	struct time_bins *times;         /* heap; NULL: not wanted */
	struct wall *wall;               /* NULL: not wanted; of the caller, before the first sample */
	struct parallelism *parallelism; /* NULL: nothing needs it */
	uint32_t running, rests_room;    /* running: parallelism_at() the sample that is taken */
	uint64_t *rests;                 /* heap; by that: of periods, what is not counted as latency yet */
	struct diag why;                 /* of an error that is not -ENOMEM */
	uint64_t nr_found;               /* samples that were not in the cache */
	struct samples_place last;       /* of the last samples_take() */
};

int samples_init(struct samples *samples, const struct samples_options *options, struct session *session,
		 struct machine *machine);
void samples_fini(struct samples *samples);

/* A SAMPLE record. 0 or -ENOMEM; -EBADMSG, and `why`: the formats of tracepoints are damaged. */
int samples_take(struct samples *samples, const struct session_record *record);

/*
 * Samples that were counted elsewhere: of an event, of a task, taken at the first of these frames, which the others
 * called. The session of `samples` may be NULL until samples_count(). 0 or -ENOMEM.
 */
struct samples_row {
	size_t event; /* index */
	const struct task *task;
	const char *host;
	const struct location *frames; /* at least one, all with symbols */
	unsigned nr_frames;
	struct hist_amount amount;
};
int samples_add(struct samples *samples, const struct samples_row *row);

/* To be called for each record that is not a sample, in the order of records. 0 or -ENOMEM. */
int samples_observe(struct samples *samples, const struct session_record *record);

/* Does anything in the options need the number of running tasks? */
bool samples_want_parallelism(const struct samples_options *options);

/*
 * false: not in the cache, use samples_take(). Changes nothing: several threads may call it at once, while none calls
 * another function here or changes the machine. task: machine_known_task() of the sample; not NULL.
 */
bool samples_find_cached(const struct samples *samples, const struct session_record *record, const struct task *task,
			 struct samples_place *ret);

size_t samples_bytes(const struct samples *samples); /* of memory for cells and call chains, about */
int samples_shrink(struct samples *samples, struct tally *const shown[]); /* shrink_tallies(). 0 or -ENOMEM */

/* If chains_are_many(), and after the last record; cells get other numbers. 0 or -ENOMEM. */
int samples_complete(struct samples *samples);

/* How samples_count() counts, for count_cells(). The samples are borrowed. */
struct count_options samples_count_options(const struct samples *samples);

/* After the last record: makes the histograms. 0 or -ENOMEM. */
int samples_count(struct samples *samples);

/* After samples_count(): an empty histogram for the leader of a group that has no samples itself. 0 or -ENOMEM. */
int samples_make_hist(struct samples *samples, size_t event, struct hist **ret);
