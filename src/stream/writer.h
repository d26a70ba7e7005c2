/* SPDX-License-Identifier: MIT */
/*
 * writer: an ordered byte sink. Owned by one stream, used by one thread at a time.
 *
 * Engines differ here only, and say one thing only: how many source bytes they no longer need (`retired`).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct diag;

struct writer_params {
	int fd;          /* borrowed; -1 for engines that need none */
	uint64_t offset; /* where the first queued byte goes, in a file */
	const char *path; /* for messages; borrowed for the life of the writer */
};

/* First member of every engine's own struct. */
struct writer {
	const struct writer_ops *ops;
	uint64_t queued;  /* bytes taken so far */
	uint64_t retired; /* bytes whose source is free again, in order; retired <= queued */
	uint64_t offset;  /* file offset of the first byte */
	const char *path;
	int err; /* sticky: the first -errno; every later call returns it */
};

struct writer_ops {
	const char *name;   /* the word of --writer */
	size_t state_bytes; /* size of the engine's struct */
	int (*open)(struct writer *writer, const struct writer_params *params);
	/* All or nothing; -EAGAIN: full, reap first. At most two spans, none of length 0 before a longer one. */
	int (*queue)(struct writer *writer, const struct span spans[], unsigned nr_spans);
	/* Advances `retired`; with wait, until everything queued so far is done. */
	int (*reap)(struct writer *writer, bool wait);
	/* Drains, sets the length, returns the first error. Called once, also after errors. */
	int (*close)(struct writer *writer);
};

extern const struct writer_ops writer_serial; /* write(2) and done */
extern const struct writer_ops writer_mem;    /* keeps everything: writer_mem_bytes() */
extern const struct writer_ops writer_null;   /* drops everything: the ceiling of what can be drained */

int writer_open(const struct writer_ops *ops, const struct writer_params *params, struct writer **ret);

/* 0, or the writer's sticky -errno. -EAGAIN does not stick. */
int writer_queue(struct writer *writer, const struct span spans[], unsigned nr_spans);
int writer_reap(struct writer *writer, bool wait);

/* Queue, however long it takes: for bytes that are not from a ring, which must not be held back. */
int writer_put(struct writer *writer, const void *bytes, size_t len);

/* Drains, closes, frees. NULL is fine. Returns the sticky error. */
int writer_close(struct writer *writer);

/* What was queued so far, with writer_mem. Valid until the next call. */
struct span writer_mem_bytes(const struct writer *writer);
