/* SPDX-License-Identifier: MIT */
/*
 * task_log: task events, kept beside the outputs: the state of all tasks as of the start of a file, with the tasks
 * that have ended since, of which /proc tells nothing any more. Streams hand over what comes out of side rings; the
 * housekeeping and the main thread take it from there. Owned by the recording; thread-safe but for new and free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;
struct data_files;
struct diag;
struct perf_event_attr;
struct plan;
struct task_log;

/*
 * The streams of the first output, to which they belong for ever; before readers start. `attr`: of the first event.
 * *ret is NULL when the plan has no side channel: every function takes that. 0 or -ENOMEM.
 */
int task_log_new(const struct plan *plan, const struct perf_event_attr *attr, struct data_files *files,
		 struct task_log **ret);
void task_log_free(struct task_log *task_log); /* after the readers have ended */

/* Records that tell of all tasks as they are now, at the start or after a loss. 0 or -ENOMEM. */
int task_log_begin(struct task_log *task_log, struct span records);

/* Now and then, so that it does not grow: what is old goes into the book. 0 or -ENOMEM. */
int task_log_absorb(struct task_log *task_log);

/* What comes from here on is kept with its times until the next task_log_put(). 0 or -ENOMEM. */
int task_log_hold(struct task_log *task_log);

/*
 * For recordings that hold their records in memory, in one stream. What is older than from_ns (times of records) may go
 * into the book now; UINT64_MAX: anything.
 */
void task_log_keep_from(struct task_log *task_log, uint64_t from_ns);

/*
 * The next task_log_put() is as of from_ns, followed by what lies before `dropped_bytes` of the output that was left
 * last.
 */
void task_log_window(struct task_log *task_log, uint64_t from_ns, uint64_t dropped_bytes);

/* The streams have ended: the output that was the present one is left, too. */
void task_log_end(struct task_log *task_log);

/*
 * After all streams have been given the writers of another output: all tasks as they were then; and after
 * task_log_hold() as it was when that was called, followed by what has happened since. *ret_whole: that is all of it;
 * else something is missing since task_log_begin(), or it was not called. 0 or -ENOMEM.
 */
int task_log_put(struct task_log *task_log, struct buf *out, bool *ret_whole);
