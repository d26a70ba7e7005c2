/* SPDX-License-Identifier: MIT */
/*
 * group_split: splits a sample with the values of a group (PERF_SAMPLE_READ, "{a,b}:S") into one sample for each event
 * that has counted since the sample before; its period is that count, as in perf. One owner (group_split_fini), one
 * thread.
 */
#pragma once

#include <stdbool.h>

#include "base/hash_table.h"
#include "perfdata/sample.h"
#include "read/session.h"

struct group_split {
	struct hash_table ids; /* to the number in `counts`, from 1 on */
	struct group_count *counts;
	size_t nr_counts;
	bool known;                      /* ids and counts are filled */
	struct sample_read left;         /* the values of the sample that are not used yet */
	struct session_record record;    /* the part that was returned last */
	const struct event_desc *events; /* of the session, when the sample was read */
};

/* Whether samples of the event may be split. */
static inline bool group_split_has(const struct perf_event_attr *attr)
{
	return attr->sample_type & PERF_SAMPLE_READ && attr->read_format & PERF_FORMAT_ID;
}

void group_split_fini(struct group_split *split); /* zeroed is fine */

/*
 * Returns 1: it is such a sample, and group_split_next() returns its parts, as long as the record is valid: none when
 * it is outside of the times of session_limit_time(), but later parts count from its values; 0: the record is not
 * split; -ENOMEM.
 */
int group_split_begin(struct group_split *split, struct session *session, const struct session_record *record);

/* The next part, valid until the next call; NULL: no more. */
const struct session_record *group_split_next(struct group_split *split);
