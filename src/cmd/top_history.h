/* SPDX-License-Identifier: MIT */
/*
 * top_history: the stream of a recorder (the pipe layout of perf.data), kept in memory for `millrace top`: of the
 * newest samples as many as fit, and of the older ones only the records about tasks and maps that still exist. One
 * thread adds, any thread may save.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct diag;
struct top_history;

/* NULL: out of memory. */
struct top_history *top_history_new(size_t max_bytes);
void top_history_free(struct top_history *history); /* NULL is fine */

/* The next bytes of the stream, cut anywhere. 0; -EBADMSG: they are no such stream; -ENOMEM. */
int top_history_add(struct top_history *history, const uint8_t *bytes, size_t len);

/* A whole stream with what is kept, 8-aligned. 0 or -ENOMEM. */
int top_history_copy(struct top_history *history, struct buf *out);

struct top_history_counts {
	size_t bytes;
	uint64_t nr_forgotten; /* samples that did not fit any more */
};
struct top_history_counts top_history_counts(struct top_history *history);

/* Writes what is kept as a file, sorted by time; an older file of that name becomes PATH.old. 0, or -errno and why. */
int top_history_save(struct top_history *history, const char *path, struct diag *reterr);
