/* SPDX-License-Identifier: MIT */
/* finish: makes a whole perf.data of a file that has header and records. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/layout.h"

struct diag;
struct features_params;
struct hits_region;

struct finish_params {
	int fd;
	const char *path;
	struct file_header header;             /* as written at the start; data.size 0 */
	uint64_t data_bytes; /* from header.data.offset on; what follows is cut off */
	bool torn;           /* writing failed: the last record may be cut */
	const struct features_params *features;
	bool build_ids; /* look what was hit */
	const struct hits_region *parts; /* the other files of a data directory; borrowed */
	size_t nr_parts;
};

struct finish_result {
	uint64_t data_bytes; /* what the file tells */
	uint64_t cut_samples; /* given up so that the header fits on a full disk */
	uint64_t nr_samples;
	bool samples_counted;
};

/* 0, or -errno and the diag: the file is then as readable as it could be made. */
int finish_file(const struct finish_params *params, struct finish_result *ret, struct diag *reterr);
