/* SPDX-License-Identifier: MIT */
/*
 * join: the events and features of a file that is made of one or several recordings. Used by one thread.
 */
#pragma once

#include <stddef.h>

#include "base/hash_table.h"
#include "cmd/merge_hosts.h"
#include "perfdata/attr.h"
#include "perfdata/feature.h"

struct diag;
struct session;

/* Zeroed: nothing was added. */
struct join {
	struct event_desc *events;
	size_t nr_events;
	struct hash_table ids; /* of all events: to the index, plus 1 */
	struct feature_set features;
	const struct session *first; /* NULL: nothing was added */
	size_t nr;                   /* recordings that were added */
	/* Set by the caller: where they are of several machines. Borrowed; zeroed: all are of one. */
	struct merge_hosts hosts;
};

/*
 * Adds a recording, which must stay open until join_fini(): an event equal to one that is there gives its ids to that
 * one, others are appended. -EINVAL: it cannot be joined, and why; -ENOMEM, -EBADMSG.
 */
int join_add(struct join *join, const struct session *session, struct diag *reterr);

/* join->features of all that were added, in the order of their adding. -EINVAL, -EBADMSG, -ENOMEM. */
int join_features(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr);

void join_fini(struct join *join); /* zeroed is fine */
