/* SPDX-License-Identifier: MIT */
/*
 * recover: makes a whole recording, in place, of one whose recorder died or that lost its end. What only the data tell
 * is read from them again; what the recorder would have written at its end, is taken from this machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

struct recover_params {
	const char *path; /* a file, or a data directory; a link is not followed: output_path_resolve() */
	bool build_ids;   /* look up the build-ids of sampled objects */
	bool force;       /* whatever user owns it */
	bool index;       /* of extents: make it anew, also in a recording that is whole */
	int argc;         /* for CMDLINE */
	char **argv;
};

struct recover_result {
	bool was_whole;      /* nothing was done, but for the index */
	size_t nr_extents;   /* in an index that was made anew */
	uint64_t data_bytes; /* of records, of all files */
	uint64_t nr_samples;
	bool samples_counted;
	uint64_t dropped_bytes; /* behind the last whole record of each file */
};

/* 0, or -errno and why; -EBADMSG: no attrs are left, or this is no perf.data file. */
int recover_recording(const struct recover_params *params, struct recover_result *ret, struct diag *reterr);
