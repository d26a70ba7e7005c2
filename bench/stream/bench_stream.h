/* SPDX-License-Identifier: MIT */
/* bench_stream: one run of `millrace bench stream`: synthetic rings through the pump and a writer into storage. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "latency.h"
#include "stream/stream.h"
#include "synthetic_load.h"

struct diag;
struct recording_writer;

struct bench_stream_options {
	size_t nr_rings, ring_bytes;
	struct synthetic_load_options load;
	size_t flush_bytes;           /* 0: as a recording */
	const char *output;           /* NULL: a temporary file */
	uint64_t storage_bytes_per_s; /* 0: as fast as it is; else after storage_prepare() */
	bool verify;
};

struct bench_stream_result {
	struct synthetic_totals load;
	uint64_t bytes;           /* stored, of records and round marks */
	double stored_s;          /* from the first sample until all is stored and the file is closed */
	uint64_t reader_cpu_ns;   /* of the thread that pumps */
	uint64_t recorder_cpu_ns; /* of the process without the threads that make samples */
	uint64_t wakeups;
	struct stream_counters counters;
	struct latency waits; /* of rings, from half full to visited */
};

/*
 * 0, or -errno with the reason in the diag. -EOPNOTSUPP: this kernel or this output does not allow the writer; others
 * may do.
 */
int bench_stream_run(const struct bench_stream_options *options, const struct recording_writer *writer,
		     struct bench_stream_result *ret, struct diag *reterr);
