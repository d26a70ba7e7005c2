/* SPDX-License-Identifier: MIT */
/*
 * task_table: the tasks that have not ended, and their maps, as the task events of a recording describe them; and back
 * as records. Fed in the order of time. One owner, one thread at a time.
 */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>

struct buf;
struct task_table;

/* trailer_bytes: of the sample_id of each record; zero in those of task_table_put(). NULL: out of memory. */
struct task_table *task_table_new(size_t trailer_bytes);
void task_table_free(struct task_table *table); /* NULL is fine */

/* COMM, FORK, EXIT, MMAP, MMAP2; others, and those that are too short, are left alone. 0 or -ENOMEM. */
int task_table_take(struct task_table *table, const struct perf_event_header *record);

/* The tasks that have not ended, and their maps, as at the start of a recording (synth.h): all times are 0. */
void task_table_put(const struct task_table *table, struct buf *out);
