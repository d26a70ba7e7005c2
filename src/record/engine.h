/* SPDX-License-Identifier: MIT */
/* engine: the writer of one output: the one that was asked for, or the one that can do instead. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/writer.h"

struct diag;
struct pack_pool;

/* Which engine writes, and its sizes; 0: its default. */
struct recording_writer {
	const struct writer_ops *ops; /* NULL: the best for this output */
	size_t blocks_per_ring;       /* of the staging engines; the blocks of all rings are one pool */
	size_t nr_blocks, block_bytes; /* of engines that pack */
	size_t window_bytes;          /* of the mmap engine */
	bool automatic;               /* nobody asked for it: that something else does it is no news */
};

struct engine_output {
	int fd;
	const char *path; /* for messages; borrowed for the life of the writer */
	bool pipe;
	uint64_t offset; /* of the first byte; the fd stands there */
	size_t nr_rings, ring_bytes; /* that are drained into it */
	struct pack_pool *pool;      /* compresses what comes from rings; NULL: nobody does */
};

/* The sizes that an engine gets. */
struct writer_params engine_params(const struct writer_ops *ops, const struct recording_writer *asked,
				   const struct engine_output *output);

/* *ret_params: as the writer was opened, to be told. */
int engine_open(const struct recording_writer *asked, const struct engine_output *output, struct writer **ret,
		struct writer_params *ret_params, struct diag *reterr);
