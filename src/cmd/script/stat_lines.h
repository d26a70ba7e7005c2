/* SPDX-License-Identifier: MIT */
/* stat_lines: the counts in a recording of perf stat, as perf script prints them. One owner, one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash_table.h"

struct diag;
struct output;
struct session;
struct session_record;

/* Zeroed at first. */
struct stat_lines {
	struct buf counts;       /* struct stat_count of RECORD_STAT since the last round */
	struct hash_table ids;   /* to the number of their event, from 1 on */
	size_t nr_ids_of_events; /* events whose ids are in it */
	uint64_t *pids;          /* heap; of RECORD_THREAD_MAP */
	size_t nr_pids;
	bool titled;
};
void stat_lines_fini(struct stat_lines *lines);

/* Any record that is no sample; prints what came before the end of a round. 0, or -errno and why. */
int stat_lines_take(struct stat_lines *lines, const struct session *session, const struct session_record *record,
		    struct output *out, struct diag *reterr);
