/* SPDX-License-Identifier: MIT */
/*
 * task_table: the living tasks and their maps: built from task events, in the order of time, and written out again as
 * records. One owner, one thread at a time.
 */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>

struct buf;
struct task_table;

/* trailer_bytes: size of the sample_id of each record; task_table_put() fills it with zeroes. NULL: out of memory. */
struct task_table *task_table_new(size_t trailer_bytes);
void task_table_free(struct task_table *table); /* NULL is fine */

/* Applies COMM, FORK, EXIT, MMAP and MMAP2; ignores other records and those that are too short. 0 or -ENOMEM. */
int task_table_take(struct task_table *table, const struct perf_event_header *record);

/*
 * Appends records of the living tasks and their maps, as synth.h makes them at the start of a recording: all times are
 * 0.
 */
void task_table_put(const struct task_table *table, struct buf *out);
