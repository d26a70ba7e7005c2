/* SPDX-License-Identifier: MIT */
/*
 * outlet: one file, pipe or data directory that is recorded into, from its first byte to the finished file. Owned by
 * the recording; used by one thread at a time, but for the writers that are lent to readers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "format/layout.h"
#include "record/data_files.h"
#include "record/sink.h"
#include "stream/writer.h"

struct described_events;
struct diag;
struct eventset;
struct features_params;
struct ledger;
struct loss_times;
struct pack_pool;
struct recording_options;
struct sideline;
struct target;
struct thread_layout;
struct workload;

/* What all outputs of a recording have in common. Borrowed, and not changed while they are open. */
struct outlet_params {
	const struct recording_options *options;
	struct eventset *set;
	const struct described_events *described;
	const struct features_params *features;
	const struct workload *workload;
	struct pack_pool *pool; /* compresses; NULL: nobody does */
	struct sideline *sideline; /* knows the tasks; NULL: /proc does */
	const struct thread_layout *layout; /* who drains what; NULL: one thread does */
};

struct outlet {
	struct sink sink;
	char *name; /* heap; of a file that is not the first; NULL: sink.path is borrowed from the options */
	struct file_header header;
	uint64_t world_end; /* file offset; what the world has before it is free. 0: the world goes through the writer */
	uint64_t front_bytes;
	struct buf world_rest; /* of the world, what that room did not hold */
	struct writer *writer; /* of the file, or of the main file of a directory */
	struct writer_params writer_params;
	bool ahead; /* outlet_finish_ahead() */
	bool held; /* has no output yet: outlet_release() */
	double history_s; /* of one that was held: the time of which it has all */
	struct data_files files;
};

/* What an output holds in the end. */
struct outlet_result {
	uint64_t bytes; /* of records */
	uint64_t nr_samples;
	bool samples_counted;
	uint64_t unwritten_bytes; /* of records that we had when writing failed */
	uint64_t cut_samples;     /* given up at the end so that the header fits on a full disk */
	uint64_t end_cpu_ns;      /* that the end took */
};

/*
 * Makes header, writer and data files in the sink, which is now the output's. world_bytes: 0, or how much room to leave
 * for a world that is written later, beside the readers: outlet_put_world().
 */
int outlet_open(struct outlet *outlet, const struct outlet_params *params, size_t world_bytes,
		struct diag *reterr);

/* One that has no output yet, and holds the last of what comes in memory (--flight). The sink has a path only. */
int outlet_open_held(struct outlet *outlet, const struct outlet_params *params, struct diag *reterr);

/*
 * Its output is that file, which is made now: header, the world as of the oldest record that it holds, and those. After an
 * error it may still be held: then writer->queued bytes of records have nowhere to go.
 */
int outlet_release(struct outlet *outlet, const struct outlet_params *params, const char *path, struct diag *reterr);

/* What is known of the machine from now on, without telling it anywhere. */
int outlet_learn_world(const struct outlet *outlet, const struct outlet_params *params, struct diag *reterr);

/* The state of the machine as it is now. Once; *ret_bytes (NULL: not wanted): how much it was. */
int outlet_put_world(struct outlet *outlet, const struct outlet_params *params, size_t *ret_bytes,
		     struct diag *reterr);

/* For a recorder that gets killed: the main file of a directory tells all that it can tell now. */
void outlet_finish_ahead(struct outlet *outlet, const struct outlet_params *params);

/* Records behind all others; when no reader uses the output any more. */
int outlet_put(struct outlet *outlet, const struct outlet_params *params, const struct buf *records,
	       struct diag *reterr);

/* The state that the file tells beside its records. */
struct outlet_closing {
	struct ledger *ledger; /* NULL: none; what the end costs is added */
	struct loss_times *losses;
	uint64_t cpu_from_ns; /* CPU time of this thread when the end began */
};

/* Drains the writers and finishes the file. *ret is valid in any case. */
int outlet_close(struct outlet *outlet, const struct outlet_params *params, const struct outlet_closing *closing,
		 struct outlet_result *ret, struct diag *reterr);

void outlet_fini(struct outlet *outlet); /* zeroed with sink.fd -1 is fine */
