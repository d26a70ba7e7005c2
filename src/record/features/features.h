/* SPDX-License-Identifier: MIT */
/*
 * features: the header features about machine, events and recording, gathered from /proc, /sys and uname(2). A feature
 * whose source does not exist is left out; that is no error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "perfdata/feature.h"

struct bpf_programs;
struct buf;
struct diag;

struct features_params {
	const struct event_desc *events;
	size_t nr_events;
	int argc; /* of the subcommand: argv[0] is "record" */
	char **argv;
	bool pipe;                          /* only features that are written into a pipe */
	const struct feature_group *groups; /* {…} of -e */
	uint32_t nr_groups;
	/* "sys:event" of every tracepoint, for TRACING_DATA; NULL when there is none */
	const char *const *tracepoints;
	size_t nr_tracepoints;
	const struct feature_compressed *compressed; /* how records are compressed; NULL: they are not */
	struct bpf_programs *bpf_programs;           /* borrowed; programs that were read while recording; NULL: none */
};

/*
 * All features that are known without reading the data: everything but BUILD_ID and SAMPLE_TIME, which the caller adds
 * (perf has a SAMPLE_TIME of 0, 0 in a pipe). In a pipe TRACING_DATA is left out too: see tracing_data_collect(). 0,
 * -ENOMEM, or an error of tracing_data_collect(), which this function has logged.
 */
int features_collect(const struct features_params *params, struct feature_set *ret);

/*
 * The TRACING_DATA blob of these tracepoints. -errno with the path in the diag; -ENOENT also when one of
 * them does not exist, for readers refuse a file whose tracepoint is not in the blob.
 */
int tracing_data_collect(const char *const *tracepoints, size_t nr, struct buf *out, struct diag *reterr);
