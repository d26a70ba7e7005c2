/* SPDX-License-Identifier: MIT */
/* session_state: what the files of this room share of an open session; nobody outside it includes this. */
#pragma once

#include "base/diag.h"
#include "read/id_map.h"
#include "read/order.h"
#include "read/session.h"
#include "read/source.h"

struct session {
	struct session_info info;
	char *path;
	enum session_flags flags;
	int fd;            /* -1: none of ours */
	struct span whole; /* the mapping of the file, or the memory of a test; {NULL, 0} for a pipe */
	bool mapped;
	struct source *source;
	struct order order;

	struct event_desc *events;
	size_t nr_events, events_room;
	struct id_map ids;
	int id_offset, id_distance; /* of the first event, which all events share; -1: no ids */

	struct span feature_table;       /* of a file */
	struct session_feature *records; /* HEADER_FEATURE and TRACING_DATA of a stream, newest first */

	const struct perf_event_header *delivered; /* held for the caller until the next call; NULL: none */
	bool ended;                                /* the source has nothing more to give */
	int result;                                /* of the end: 0 or -errno, and why */
	struct diag why;
	uint64_t noted_types[4]; /* of unknown types, which were told: one bit each */
};

struct session_feature {
	struct session_feature *next;
	uint64_t bit;
	size_t len;
	uint8_t bytes[];
};

/* session_events.c: */

/* Reads attrs and names of a file. */
int session_read_attrs(struct session *session, struct diag *reterr);

/* User records that say something of the session itself: HEADER_ATTR, HEADER_FEATURE, EVENT_UPDATE, TRACING_DATA. */
int session_take(struct session *session, const struct source_record *record, struct diag *reterr);

/* Frees all that the two made. */
void session_forget_events(struct session *session);

/*
 * The event of a kernel record: by its id; the first one when it has none. NULL with 0: no events, or an id that is
 * none of theirs. -EBADMSG: too short for an id.
 */
int session_event_of(const struct session *session, const struct perf_event_header *record,
		     const struct event_desc **ret);
