/* SPDX-License-Identifier: MIT */
/*
 * bundle: copies of what a recording refers to, kept beside it, so that it can be read on another machine. The directory
 * is laid out as perf's cache of build-ids, so that perf can be pointed at it: perf --buildid-dir FILE.bundle report.
 */
#pragma once

#include <stddef.h>

struct diag;

struct bundle_result {
	size_t nr_kept, nr_missed; /* objects */
	char missed[256];          /* the name of one of those that were missed */
};

/*
 * Makes `path`.bundle, or adds to it, from the build-ids in the recording at `path`, which is complete. Objects that are
 * not there any more, or have changed since, are missed. 0 or -errno.
 */
int bundle_make(const char *path, struct bundle_result *ret, struct diag *reterr);
