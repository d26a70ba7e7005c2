/* SPDX-License-Identifier: MIT */
/*
 * output: one file, pipe or data directory that is recorded into, from its first byte to the finished file. Owned by
 * the recording; used by one thread at a time, but for the writers that are lent to readers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "perfdata/layout.h"
#include "record/output/data_files.h"
#include "record/output/output_path.h"
#include "stream/writer.h"

struct described_events;
struct diag;
struct eventset;
struct features_params;
struct ledger;
struct loss_times;
struct object_watch;
struct batch_pool;
struct recording_options;
struct stage_maker;
struct task_log;
struct target;
struct thread_layout;
struct workload;

/* What all outputs of a recording have in common. Borrowed, and not changed while they are open. */
struct output_params {
	const struct recording_options *options;
	struct eventset *set;
	const struct described_events *described;
	const struct features_params *features;
	const struct workload *workload;
	struct batch_pool *pool;            /* compresses; NULL: nothing is compressed */
	struct object_watch *watch;         /* holds objects open; NULL: none does */
	const char *cache;                  /* where those are kept that will not be found; NULL: nowhere */
	struct task_log *task_log;          /* knows the tasks; NULL: /proc does */
	const struct thread_layout *layout; /* who drains what; NULL: one thread does */
	struct stage_maker *makers;         /* of the stages of each output; NULL: none */
};

struct output_file {
	struct output_path dest;
	char *name; /* heap; of a file that is not the first; NULL: dest.path is borrowed from the options */
	struct file_header header;
	uint64_t initial_end; /* file offset; up to it there is room for the initial state. 0: that goes through the
				 writer */
	uint64_t front_bytes;
	struct buf initial_rest; /* of the initial state: what that room did not hold */
	struct writer *writer;   /* of the file, or of the main file of a directory */
	struct writer_params writer_params;
	bool ahead;       /* output_file_write_provisional_header() */
	bool held;        /* has no output yet: output_file_write_retained() */
	double history_s; /* of one that was held: the time of which it has all */
	struct data_files files;
};

/* What an output holds in the end. */
struct output_result {
	uint64_t bytes; /* of records */
	uint64_t nr_samples;
	bool samples_counted;
	uint64_t unwritten_bytes; /* of records that we had when writing failed */
	uint64_t cut_samples;     /* given up at the end so that the header fits on a full disk */
	uint64_t end_cpu_ns;      /* that the end took */
};

/*
 * Makes header, writer and data files in the dest, which is now the output's. initial_bytes: 0, or how much room to
 * leave for an initial state that is written later, beside the readers: output_file_put_initial_state().
 */
int output_file_open(struct output_file *output, const struct output_params *params, size_t initial_bytes,
		     struct diag *reterr);

/* One that has no output yet, and holds the last of what comes in memory (--flight). The dest has a path only. */
int output_file_open_retained(struct output_file *output, const struct output_params *params, struct diag *reterr);

/*
 * Its output is that file, which is made now: header, the initial state as of the oldest record that it holds, and
 * those. After an error it may still be held: then writer->queued bytes of records have nowhere to go.
 */
int output_file_write_retained(struct output_file *output, const struct output_params *params, const char *path,
			       struct diag *reterr);

/* What is known of the machine from now on, without telling it anywhere. */
int output_file_begin_task_log(const struct output_file *output, const struct output_params *params,
			       struct diag *reterr);

/* The state of the machine as it is now. Once; *ret_bytes (NULL: not wanted): how much it was. */
int output_file_put_initial_state(struct output_file *output, const struct output_params *params, size_t *ret_bytes,
				  struct diag *reterr);

/* For a recorder that gets killed: the main file of a directory tells all that it can tell now. */
void output_file_write_provisional_header(struct output_file *output, const struct output_params *params);

/* The stages have seen all that readers have taken for it; when no reader uses the output any more. */
void output_file_run_stages(struct output_file *output);

/* Records behind all others; when no reader uses the output any more. */
int output_file_put(struct output_file *output, const struct output_params *params, const struct buf *records,
		    struct diag *reterr);

/* The state that the file tells beside its records. */
struct output_closing {
	struct ledger *ledger; /* NULL: none; what the end costs is added */
	struct loss_times *losses;
	uint64_t cpu_from_ns; /* CPU time of this thread when the end began */
};

/* Drains the writers and finishes the file. *ret is valid in any case. */
int output_file_close(struct output_file *output, const struct output_params *params,
		      const struct output_closing *closing, struct output_result *ret, struct diag *reterr);

void output_file_fini(struct output_file *output); /* zeroed with dest.fd -1 is fine */
