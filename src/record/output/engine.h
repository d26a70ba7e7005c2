/* SPDX-License-Identifier: MIT */
/* engine: the writer of one output: the one that was asked for, or the one that can do instead. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/setup/options.h"
#include "stream/writer.h"

struct diag;
struct batch_pool;

struct engine_output {
	int fd;
	const char *path; /* for messages; borrowed for the life of the writer */
	bool pipe;
	uint64_t offset;             /* of the first byte; the fd stands there */
	size_t nr_rings, ring_bytes; /* that are drained into it */
	struct batch_pool *pool;     /* compresses what comes from rings; NULL: nothing is compressed */
};

/* The sizes that an engine gets. */
struct writer_params engine_params(const struct writer_ops *ops, const struct recording_writer *asked,
				   const struct engine_output *output);

/* *ret_params: as the writer was opened, to be told. */
int engine_open(const struct recording_writer *asked, const struct engine_output *output, struct writer **ret,
		struct writer_params *ret_params, struct diag *reterr);
