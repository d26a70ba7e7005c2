/* SPDX-License-Identifier: MIT */
/*
 * top_held: the stream of a recorder (the pipe layout of perf.data), kept in memory for `millrace top`: of the newest
 * samples as many as fit, and of the older ones only the records that tell of tasks and maps which are still there.
 * One thread adds, any thread may save.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct diag;
struct held;

/* NULL: out of memory. */
struct held *held_new(size_t max_bytes);
void held_free(struct held *held); /* NULL is fine */

/* The next bytes of the stream, cut anywhere. 0; -EBADMSG: it is none; -ENOMEM. */
int held_add(struct held *held, const uint8_t *bytes, size_t len);

/* A whole stream with what is held, 8-aligned. 0 or -ENOMEM. */
int held_copy(struct held *held, struct buf *out);

struct held_counts {
	size_t bytes;
	uint64_t nr_forgotten; /* samples that did not fit any more */
};
struct held_counts held_counts(struct held *held);

/* What is held as a file, sorted by time; what is there under the name is kept as PATH.old. 0, or -errno and why. */
int held_save(struct held *held, const char *path, struct diag *reterr);
