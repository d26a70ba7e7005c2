/* SPDX-License-Identifier: MIT */
/*
 * staging: blocks of memory between a ring and the output, in file order. Each chunk that is queued is copied into a
 * block, which the writer writes later. Owned by one writer; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct writer;

struct staging_block {
	uint8_t *data;
	size_t len, done; /* bytes of the chunk; of these, written so far */
	uint64_t offset;  /* in the file */
	int err;          /* -errno of its write; set together with `complete` */
	bool complete;
	unsigned nr_again; /* times in a row that its write was refused without an error */
};

struct staging {
	struct staging_block *blocks;
	size_t nr_blocks, block_bytes;
	size_t first, nr; /* in use: nr blocks from `first` on, round the end; oldest first */
	uint8_t *memory;
};

/* 0, -ENOMEM, or -EINVAL for a size of 0 or one that overflows. */
int staging_init(struct staging *staging, size_t nr_blocks, size_t block_bytes);
void staging_fini(struct staging *staging);

/* Copies a chunk of at most block_bytes into the next block. NULL: all blocks are in use. */
struct staging_block *staging_fill(struct staging *staging, const struct span spans[], unsigned nr_spans,
				   uint64_t offset);

/* The i-th oldest block in use. */
static inline struct staging_block *staging_at(const struct staging *staging, size_t i)
{
	return &staging->blocks[(staging->first + i) % staging->nr_blocks];
}

/*
 * Notes the result of a write of the block: `bytes` written, or -errno. true: the block is complete, with block->err if
 * it failed. false: the rest must be written by another call. That is also the answer to -EINTR, -EAGAIN and
 * -ECANCELED, until too many of them in a row become an error (-EIO).
 */
bool staging_progress(struct staging_block *block, int64_t bytes);

/*
 * Frees complete blocks, oldest first, and adds their bytes to writer->stored. Stops at a block that failed, and
 * returns its error.
 */
int staging_complete(struct staging *staging, struct writer *writer);

/*
 * Queues a chunk that is larger than a block, which never comes from a ring: -EAGAIN until everything before it is
 * written; then it is written by this call.
 */
int staging_bypass(const struct staging *staging, struct writer *writer, int fd, const struct span spans[],
		   unsigned nr_spans);
