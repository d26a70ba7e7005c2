/* SPDX-License-Identifier: MIT */
/*
 * sorted_file: a perf.data file that is written record by record in the order of time, with the marks that let readers
 * hold few of them back. One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "perfdata/attr.h"
#include "perfdata/feature.h"
#include "perfdata/layout.h"
#include "record/output/output_path.h"

struct diag;
struct perf_event_header;

struct sorted_file {
	struct output_path dest;
	char *path; /* heap; that dest borrows */
	struct file_header header;
	struct buf pending;      /* bytes to be written */
	uint64_t data_bytes;     /* of all records so far */
	uint64_t unmarked_bytes; /* since the last mark */
	bool timed_since_mark;   /* a reader holds records back */
};

/* Creates the file as output_path_open_unnamed() does, and what stands before the data. -errno and why. */
int sorted_file_open(const char *path, const struct event_desc *events, size_t nr_events, struct sorted_file *ret,
		     struct diag *reterr);

/*
 * Adds a record, which is copied. time_ns 0: it has none; a reader then gets it after all that was
 * added before, and before all that follows. 0 or -errno.
 */
int sorted_file_add(struct sorted_file *file, const struct perf_event_header *record, uint64_t time_ns);

/* Adds the features, makes the file whole and gives it its name. 0, or -errno and why. */
int sorted_file_finish(struct sorted_file *file, const struct feature_set *features, struct diag *reterr);

/* A file that was not finished is removed. 0 or -errno of close(2). A zeroed struct is fine. */
int sorted_file_close(struct sorted_file *file);

/*
 * Can `path` be the output of a command that reads `inputs`? It must be no pipe, and neither it nor PATH.old may be one
 * of them. Logs why not, with the name of the command. 0, -EINVAL or -ENOMEM.
 */
int sorted_file_check_path(const char *command, const char *path, char *const inputs[], size_t nr_inputs);
