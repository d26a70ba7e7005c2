/* SPDX-License-Identifier: MIT */
/*
 * output_writer: opens the writer of one output: the one that the user asked for, or another one if that cannot write
 * there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/setup/options.h"
#include "stream/writer.h"

struct diag;
struct batch_pool;

struct output_writer_target {
	int fd;
	const char *path; /* for messages; borrowed for the life of the writer */
	bool pipe;
	uint64_t offset;             /* of the first byte to be written, which is the fd's file offset */
	size_t nr_rings, ring_bytes; /* number and largest size of the rings that are drained into it */
	struct batch_pool *pool;     /* between draining and writing; NULL: none, for the main file of a directory */
};

/* The parameters with which output_writer_open() opens a writer of this kind. */
struct writer_params output_writer_params(const struct writer_ops *ops, const struct recording_writer *wanted,
					  const struct output_writer_target *output);

/* *ret_params: the parameters with which the writer was opened, for messages. 0, or -errno and why. */
int output_writer_open(const struct recording_writer *wanted, const struct output_writer_target *output,
		       struct writer **ret, struct writer_params *ret_params, struct diag *reterr);

/* What can be done about a write that failed with this -errno, to be said behind it; "": nothing is known. */
const char *output_writer_remedy(int err);
