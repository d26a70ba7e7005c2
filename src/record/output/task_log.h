/* SPDX-License-Identifier: MIT */
/*
 * task_log: keeps the state of all tasks, independent of the outputs, so that each new file can begin with the tasks
 * and maps at its start, including tasks that have ended since, which /proc no longer has. Streams copy the records of
 * the side rings into it; the housekeeping and the main thread apply them. Owned by the recording; thread-safe except
 * for new and free.
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
 * `files`: with the streams of the recording. To be called before readers start. `attr`: of the first event. *ret is
 * NULL when the plan has no side channel; the functions below accept NULL. 0 or -ENOMEM.
 */
int task_log_new(const struct perf_event_attr *attr, struct data_files *files, struct task_log **ret);
void task_log_free(struct task_log *task_log); /* after the readers have ended */

/*
 * Sets the state of all tasks from `records`, as synthesised now: at the start, or after task events were lost. 0 or
 * -ENOMEM.
 */
int task_log_begin(struct task_log *task_log, struct span records);

/*
 * To be called from time to time, so that the log does not grow: applies old records to the task table. 0 or -ENOMEM.
 */
int task_log_absorb(struct task_log *task_log);

/*
 * To be called before the streams switch: from now on records are not applied to the task table, but kept with their
 * times, until the next task_log_put(). until_drained: but for those that are older than all that a stream leaves to
 * the next output. 0 or -ENOMEM.
 */
int task_log_hold(struct task_log *task_log, bool until_drained);

/*
 * For recordings that keep their records in memory: records older than from_ns (times of records) may
 * be applied to the task table now; UINT64_MAX: all records.
 */
void task_log_keep_from(struct task_log *task_log, uint64_t from_ns);

/*
 * Sets what the next task_log_put() appends: the state at from_ns, followed by those later records that the previous
 * output, the one that the streams have switched away from, got and has no more: of each stream, in the order of the
 * data files, `dropped` tells how many of its first bytes these are; NULL: none.
 */
void task_log_window(struct task_log *task_log, uint64_t from_ns, const uint64_t *dropped);

/* To be called when the streams have ended: from then on the last output counts as the previous one, too. */
void task_log_end(struct task_log *task_log);

/*
 * To be called after all streams have switched to another output: appends the state of all tasks at that time; or,
 * after task_log_hold(), the state when that was called, or the streams were drained, followed by the records since
 * that the output does not have. *ret_whole: the state is complete; false: records were lost since task_log_begin(), or
 * that was not called. 0 or -ENOMEM.
 */
int task_log_put(struct task_log *task_log, struct buf *out, bool *ret_whole);

/*
 * Appends records of all maps that the log knows of: those of its state, which is as of the oldest record that is kept
 * in memory, or earlier, and later ones. false: some may be missing, as above, or out of memory.
 */
bool task_log_put_known(struct task_log *task_log, struct buf *out);
