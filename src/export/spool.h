/* SPDX-License-Identifier: MIT */
/*
 * spool: many sequences of bytes that grow at the same time but are written one after the other, such as the columns of
 * a table. What exceeds a fixed amount of memory is kept in an unnamed temporary file. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct diag;
struct output_buf;
struct spool;

/*
 * max_bytes: limit for the memory of the sequences, approximately. beside: the temporary file is made in the directory
 * of this file; borrowed; NULL, or if that fails: it is in memory that can be swapped out. NULL: out of memory.
 */
struct spool *spool_new(size_t max_bytes, const char *beside);
void spool_free(struct spool *spool); /* NULL is fine */

/* Adds an empty sequence; *ret_number: its number, from 0 on. 0 or -ENOMEM. */
int spool_add(struct spool *spool, uint32_t *ret_number);

/*
 * The end of a sequence, to append bytes to; NULL: out of memory. Valid until the next call of a function here; the
 * next spool_relieve() returns the error when an append failed.
 */
struct buf *spool_end(struct spool *spool, uint32_t number);

/* After bytes were put: moves them into the file when memory is full. 0, or -errno and why. */
int spool_relieve(struct spool *spool, struct diag *reterr);

/* Of all sequences together. */
uint64_t spool_bytes(const struct spool *spool);

/* A whole sequence into a output. 0, or -errno and why. */
int spool_write(struct spool *spool, uint32_t number, struct output_buf *output, struct diag *reterr);

/*
 * Passes a whole sequence to `take`, in order, in chunks of any size. `take` returns 0, or an error, which spool_read()
 * returns.
 */
int spool_read(struct spool *spool, uint32_t number, int (*take)(void *ctx, const void *bytes, size_t len), void *ctx,
	       struct diag *reterr);
