/* SPDX-License-Identifier: MIT */
/*
 * merge_join: what the recordings that become one file say of themselves, as one: events with the ids of all, features.
 * They must be of one machine and one boot, or ids would mean different things. One owner (join_fini), one thread.
 */
#pragma once

#include "format/event_desc.h"
#include "format/feature.h"
#include "read/id_map.h"

struct diag;
struct session;

struct join {
	struct event_desc *events;
	size_t nr_events;
	struct id_map ids;
	struct feature_set features;
	const struct session *first; /* NULL: nothing was added */
};

void join_fini(struct join *join);

/*
 * Adds a recording, which must stay open until join_fini(): an event equal to one that is there gives its ids to that
 * one, others are appended. -EINVAL: it cannot be joined, and why; -ENOMEM, -EBADMSG.
 */
int join_add(struct join *join, const struct session *session, struct diag *reterr);

/* join->features of all that were added, in the order of their adding. -EINVAL, -EBADMSG, -ENOMEM. */
int join_features(struct join *join, struct session *const sessions[], size_t nr, struct diag *reterr);
