/* SPDX-License-Identifier: MIT */
/*
 * thread_values: the values that each thread's events had when it ended (record --stat), a row for each thread. One
 * owner (threads_fini), one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/hash_table.h"

struct session;
struct session_record;

/* Of one thread. */
struct thread_values {
	uint32_t pid, tid;
	uint64_t *values; /* heap; by the columns */
	size_t nr;
};

/* Of one event. */
struct thread_column {
	size_t event; /* index */
	int width;    /* of the longest value */
};

/* Zeroed: none. */
struct threads {
	struct thread_values **rows; /* heap, and so is each row; in the order in which they came */
	size_t nr_rows, room;
	struct hash_table known;       /* rows, by pid and tid */
	struct thread_column *columns; /* heap; as they came */
	size_t nr_columns;
	const struct session *session; /* of the records */
};

void threads_fini(struct threads *threads);

/* To be called for each record; takes the values of READ records. 0 or -ENOMEM. */
int threads_take(struct threads *threads, const struct session *session, const struct session_record *record);

/* Prints in the layout of `perf report --threads`, or of its --pretty=raw. The caller checks ferror(to). */
enum threads_layout { THREADS_TABLE, THREADS_RAW };
void threads_print(const struct threads *threads, enum threads_layout layout, FILE *to);
