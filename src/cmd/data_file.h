/* SPDX-License-Identifier: MIT */
/*
 * data_file: a perf.data file that is written from records in the order of time, with round marks between them, so
 * that a reader needs no more memory than two rounds take. One owner (data_file_close), one thread.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "format/event_desc.h"
#include "format/feature.h"
#include "format/layout.h"
#include "record/sink.h"

struct diag;
struct perf_event_header;

struct data_file {
	struct sink sink;
	struct file_header header;
	struct buf pending;      /* bytes to be written */
	uint64_t data_bytes;     /* of all records so far */
	uint64_t unmarked_bytes; /* since the last mark */
	bool timed_since_mark;   /* a reader holds records back */
	bool finished;
};

/* Creates the file as sink_open() does, and what stands before the data. -errno and why. */
int data_file_open(const char *path, const struct event_desc *events, size_t nr_events, struct data_file *ret,
		   struct diag *reterr);

/*
 * Adds a record, which may go once the call is over. time_ns 0: it has none; a reader then gets it after all that was
 * added before, and before all that follows. 0 or -errno.
 */
int data_file_add(struct data_file *file, const struct perf_event_header *record, uint64_t time_ns);

/* Adds the features and makes the file whole. 0 or -errno. */
int data_file_finish(struct data_file *file, const struct feature_set *features);

/* A file that was not finished is removed. 0 or -errno of close(2). A zeroed struct is fine. */
int data_file_close(struct data_file *file);
