/* SPDX-License-Identifier: MIT */
/*
 * staging: blocks of memory between a ring and the output, in file order. A piece is copied in, its source is free,
 * and the engine writes the block later. Owned by one engine; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct writer;

struct staging_block {
	uint8_t *data;
	size_t len, done; /* bytes of the piece; of those written */
	uint64_t offset;  /* in the file */
	int err;          /* -errno of its write; then it is complete */
	bool complete;
	unsigned nr_again; /* times in a row that its write was refused without an error */
};

struct staging {
	struct staging_block *blocks;
	size_t nr_blocks, block_bytes;
	size_t first, nr; /* in use: nr blocks from `first` on, round the end; oldest first */
	uint8_t *memory;
};

/* -ENOMEM, -EINVAL for sizes that make no sense. */
int staging_init(struct staging *staging, size_t nr_blocks, size_t block_bytes);
void staging_fini(struct staging *staging);

/* Copies a piece of at most block_bytes into the next block. NULL: all are in use. */
struct staging_block *staging_fill(struct staging *staging, const struct span spans[], unsigned nr_spans,
				   uint64_t offset);

/* The i-th oldest block in use. */
static inline struct staging_block *staging_at(const struct staging *staging, size_t i)
{
	return &staging->blocks[(staging->first + i) % staging->nr_blocks];
}

/*
 * `bytes` more (or an error below 0) of a block. True: complete; false: the rest is to be written again, after -EINTR,
 * -EAGAIN or -ECANCELED, too, until that has led nowhere so often that it is an error: -EIO.
 */
bool staging_progress(struct staging_block *block, int64_t bytes);

/* Frees complete blocks, oldest first, into writer->stored. Stops at one that failed and returns its error. */
int staging_complete(struct staging *staging, struct writer *writer);

/*
 * A piece that no block can hold: it comes from no ring. -EAGAIN until everything before it is written; then it is
 * written here and now.
 */
int staging_bypass(const struct staging *staging, struct writer *writer, int fd, const struct span spans[],
		   unsigned nr_spans);
