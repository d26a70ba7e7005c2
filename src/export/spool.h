/* SPDX-License-Identifier: MIT */
/*
 * spool: many sequences of bytes that grow side by side and are wanted one after the other, such as the columns of a
 * table and the samples of each thread. What does not fit into a fixed amount of memory waits in a temporary file
 * without a name. One owner, one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct diag;
struct output_buf;
struct spool;

/*
 * NULL: out of memory. max_bytes: of memory for the sequences, about. beside: a file in whose directory the temporary
 * one may be; borrowed; NULL, or when there can be none: it is memory that can be swapped out.
 */
struct spool *spool_new(size_t max_bytes, const char *beside);
void spool_free(struct spool *spool); /* NULL is fine */

/* An empty sequence, by its number from 0 on. 0 or -ENOMEM. */
int spool_add(struct spool *spool, uint32_t *ret_number);

/*
 * Put bytes at the end of a sequence. NULL: out of memory. Valid until the next call of a function here; an allocation
 * that fails shows at the next spool_relieve().
 */
struct buf *spool_end(struct spool *spool, uint32_t number);

/* After bytes were put: moves them into the file when memory is full. 0, or -errno and why. */
int spool_relieve(struct spool *spool, struct diag *reterr);

/* Of all sequences together. */
uint64_t spool_bytes(const struct spool *spool);

/* A whole sequence into a output. 0, or -errno and why. */
int spool_write(struct spool *spool, uint32_t number, struct output_buf *output, struct diag *reterr);

/* A whole sequence, piece by piece, in order; a piece ends anywhere. `take` returns 0, or an error that ends it. */
int spool_read(struct spool *spool, uint32_t number, int (*take)(void *ctx, const void *bytes, size_t len), void *ctx,
	       struct diag *reterr);
