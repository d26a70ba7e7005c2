/* SPDX-License-Identifier: MIT */
/* records: the records of a session, one by one, for the commands. One owner, one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "read/deferred_chains.h"
#include "read/group_split.h"
#include "read/prefetcher.h"
#include "read/session.h"

struct diag;
struct sample_filter;

/* The records of a session, one by one; a thread of its own reads those of a file ahead. Zeroed: closed. */
struct input_records {
	struct session *session;       /* borrowed */
	struct prefetcher *prefetcher; /* NULL: no thread reads ahead: a pipe, or there may be none */
	struct deferred_chains deferred;
	const struct session_record *next; /* read, but delivered after the samples that `deferred` has; NULL: none */
	struct group_split split;
	bool splitting;                       /* the last record has parts left */
	const struct sample_filter *switches; /* borrowed; NULL: no event turns samples on or off */
	bool off;                             /* samples are left out until switches->on_event comes */
	struct progress progress;             /* shown while the records are read; its `what` may be set to NULL */
	struct session_record record;
};

/* Starts the progress line of a session that is read, by the offset of its records; for a directory by their number. */
void input_progress_start(struct progress *progress, const struct session *session, const char *what);

/* `nr_workers`: see prefetcher_start(). 0 or -ENOMEM. */
int input_records_open(struct input_records *records, struct session *session, unsigned nr_workers);
/*
 * Before the first record: samples are left out as on_event and off_event of the filter say, which is borrowed.
 * -EINVAL: the recording has no such event; of a pipe it is not known yet.
 */
int input_records_switch(struct input_records *records, const struct sample_filter *filter, struct diag *reterr);
/*
 * As session_next(), but a sample of a group is delivered once for each member (group_split.h), and a sample with a
 * deferred call chain is delivered when its chain has come (deferred_chains.h).
 */
int input_records_next(struct input_records *records, const struct session_record **ret, struct diag *reterr);
/*
 * As prefetcher_span_begin(); the span is used with records->prefetcher, and ended with prefetcher_span_end(). Returns
 * 0 also for a pipe, and when samples are split, kept or left out: then call input_records_next().
 */
size_t input_records_span_begin(struct input_records *records, const struct prefetcher_chunk **ret);
/* Advances the progress line behind these chunks, whose samples were used. Before prefetcher_span_end(). */
void input_records_step_progress(struct input_records *records, const struct prefetcher_chunk chunks[], size_t nr);
/* To be called before the session is closed, and before its position is read. */
void input_records_close(struct input_records *records);
