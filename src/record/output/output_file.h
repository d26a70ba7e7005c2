/* SPDX-License-Identifier: MIT */
/*
 * output_file: one file, pipe or data directory that is recorded into, from its first byte to the finished file. Owned
 * by the recording; used by one thread at a time, but for the writers that are lent to readers.
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
	struct batch_pool *pool;    /* between draining and writing */
	struct object_watch *watch; /* keeps objects open; NULL: none */
	/* directory for copies of objects that will not be found later; NULL: none are made */
	const char *cache;
	_Atomic uint64_t *cache_bytes;      /* caller's: copied by all outputs so far */
	struct task_log *task_log;          /* has the state of all tasks; NULL: it is read from /proc */
	const struct thread_layout *layout; /* who drains what; NULL: one thread does */
	struct stage_maker *makers;         /* of the stages of each output; NULL: none */
	_Atomic uint64_t *full_ns;          /* of the streams: stream.h */
};

struct output_file {
	struct output_path dest;
	char *name; /* heap; name of a file that is not the first; NULL: dest.path is borrowed from the options */
	struct file_header header;
	/* file offset up to which room is left for the initial state; 0: the initial state goes through the writer */
	uint64_t initial_end;
	uint64_t front_bytes;    /* size of header, ids and attrs, before the initial state */
	struct buf initial_rest; /* the part of the initial state that did not fit there */
	struct writer *writer;   /* of the file, or of the main file of a directory */
	struct writer_params writer_params;
	bool has_provisional_header; /* set by output_file_write_provisional_header() */
	bool retained;               /* it has no file yet, its records are in memory: output_file_write_retained() */
	double history_s; /* of one that was retained: for how many seconds before its end no record is missing */
	struct data_files files;
	struct spare_room spare; /* until all records are written */
};

/* What an output holds in the end. */
struct output_result {
	uint64_t bytes; /* of records */
	uint64_t nr_samples;
	bool samples_counted;
	uint64_t unwritten_bytes; /* bytes of records that could not be written because of an error */
	uint64_t cut_samples;     /* removed at the end so that the features fit on a full disk */
	uint64_t end_cpu_ns;      /* CPU time of finishing */
};

/*
 * Makes header, writer and data files in output->dest, which the output owns from now on. initial_bytes: 0, or how much
 * room to leave for an initial state that output_file_put_initial_state() writes later, while readers drain. 0, or
 * -errno and why.
 */
int output_file_open(struct output_file *output, const struct output_params *params, size_t initial_bytes,
		     struct diag *reterr);

/*
 * Opens an output without a file, which keeps the newest records in memory (--flight). Only output->dest.path is set.
 * 0, or -errno and why.
 */
int output_file_open_retained(struct output_file *output, const struct output_params *params, struct diag *reterr);

/*
 * Makes the file `path` for an output that has none yet, and writes the header, the initial state at the time of the
 * oldest record in memory, and the records. After an error the output may still be without a file (`retained`); then
 * its writer->queued bytes of records cannot be stored.
 */
int output_file_write_retained(struct output_file *output, const struct output_params *params, const char *path,
			       struct diag *reterr);

/*
 * Gives the state of all tasks to the task log and the stages, without writing it into the output. 0, or -errno and
 * why.
 */
int output_file_begin_task_log(const struct output_file *output, const struct output_params *params,
			       struct diag *reterr);

/*
 * Writes the present state of tasks and maps. To be called once. *ret_bytes (NULL: not wanted): its size. 0, or -errno
 * and why.
 */
int output_file_put_initial_state(struct output_file *output, const struct output_params *params, size_t *ret_bytes,
				  struct diag *reterr);

/* Completes the main file of a directory as far as it is known now, in case the recorder is killed: see finish.h. */
void output_file_write_provisional_header(struct output_file *output, const struct output_params *params);

/* To be called when no reader uses the output any more: waits until its stages have got all records. */
void output_file_run_stages(struct output_file *output);

/* Writes records behind all others. To be called when no reader uses the output any more. 0, or -errno and why. */
int output_file_put(struct output_file *output, const struct output_params *params, const struct buf *records,
		    struct diag *reterr);

/* What is stored in the file's features when it is closed. */
struct output_closing {
	struct ledger *ledger; /* NULL: none; the cost of finishing is added */
	struct loss_times *losses;
	uint64_t cpu_from_ns; /* CPU time of this thread when the end began */
};

/* Drains the writers and finishes the file. *ret is valid in any case. */
int output_file_close(struct output_file *output, const struct output_params *params,
		      const struct output_closing *closing, struct output_result *ret, struct diag *reterr);

void output_file_fini(struct output_file *output); /* zeroed with dest.fd -1 is fine */
