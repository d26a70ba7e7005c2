/* SPDX-License-Identifier: MIT */
/* session_state: an open session, as the files of this room share it. Private. */
#pragma once

#include <errno.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash_table.h"
#include "read/order.h"
#include "read/session.h"
#include "read/source.h"

/*
 * Of the records of an event, as in perfdata/sample.h: where they have their time (-1: none), and what they must hold.
 */
struct session_layout {
	int time_offset, time_distance;
	struct sample_shape shape;
	uint32_t trailer_bytes;
};

/* The record that was delivered, and the source that holds it; by NULL: none. */
struct delivered_record {
	const struct perf_event_header *record;
	struct source *by;
};

enum { CACHE_LINE = 64 };

struct session {
	/* Threads that decode records read these, while another one finds the next records. */
	enum session_flags flags;
	struct event_desc *events;
	struct session_layout *layouts; /* of each event */
	size_t nr_events, events_room;
	struct hash_table ids;      /* of all events: to the index, plus 1 */
	int id_offset, id_distance; /* of the first event, which all events share; -1: no ids */

	struct session_times *times; /* heap; of samples that are wanted; NULL: all */
	size_t nr_times;

	char apart[CACHE_LINE]; /* what follows changes with each record: then those threads would wait for its line */
	struct session_info info;
	char *path;
	int fd;                            /* -1: none of ours */
	const volatile sig_atomic_t *stop; /* see session_stop_at() */
	struct span whole; /* the mapping of the (main) file, or the memory of a test; {NULL, 0} for a pipe */
	bool mapped;
	struct source *source; /* NULL in a directory */
	const char *file_name; /* of the single file that is read of a directory; else NULL */
	struct order order;
	struct session_directory *directory; /* NULL: a single file */

	struct span feature_table;                    /* of a file */
	struct span private_block;                    /* behind the table; {NULL, 0}: none, or damaged */
	struct session_feature *records;              /* HEADER_FEATURE and TRACING_DATA of a stream */
	struct session_feature *newest[FEATURE_BITS]; /* of them, by their bit; NULL: none came */

	struct delivered_record delivered; /* kept for the caller until the next call */
	bool ended;                        /* the source has nothing more to give */
	int result;                        /* of the end: 0 or -errno, and why */
	uint64_t nr_gaps;                  /* places where records are missing */
	struct diag why;
	struct {
		uint64_t nr, first_offset;
		const char *first_file; /* see record_view */
	} strays;                       /* samples of events that the file does not describe */
	uint64_t noted_types[4];        /* of unknown types that were reported: one bit each */

	void (*before_change)(void *ctx); /* called before a record changes events or features; NULL: not wanted */
	void *before_change_ctx;
};

struct session_feature {
	struct session_feature *next;
	size_t len;
	uint8_t bytes[];
};

/* A file of a data directory; the first is `data`, whose bytes are session->whole. */
struct session_file {
	char *name;
	struct span bytes; /* mapped; {NULL, 0}: nothing to unmap */
	struct source *source;
	bool ended;
};

struct session_directory {
	struct session_file *files;
	size_t nr_files;
	struct unpack_pool *workers; /* of all files but the first */
	size_t nr_names;
	struct merge merge;
};

/* session_next.c: */

/* The next record to deliver, which is the caller's to release by its source; else as session_next(). */
int session_find(struct session *session, struct record_view *ret, struct delivered_record *ret_delivered,
		 struct diag *reterr);

/*
 * The next records, if they are sorted already: how many, at most `room`; each is the caller's to release by
 * session->source, and lies in the file session->file_name. 0: session_find() has what comes next.
 */
size_t session_find_sorted(struct session *session, struct order_entry *ret, size_t room);

/*
 * A record that session_find() gave: 1; 0: a sample that is not wanted. Changes nothing in the session, so a thread may
 * do it while another one finds what follows; but not while events change.
 */
int session_decode(const struct session *session, const struct record_view *view, struct session_record *ret,
		   struct diag *reterr);

/* Says in front which file it is about. */
void session_name_file(const struct session *session, const char *file, struct diag *why);

/* session_events.c: */

/* Reads attrs and names of a file. */
int session_read_attrs(struct session *session, struct diag *reterr);

/* User records that say something of the session itself: HEADER_ATTR, HEADER_FEATURE, EVENT_UPDATE, TRACING_DATA. */
int session_take(struct session *session, const struct source_record *record, struct diag *reterr);

/* Whether session_take() changes events or features for a record of this type. */
bool session_is_change(uint32_t type);

/* Frees all that the two made. */
void session_forget_events(struct session *session);

/*
 * The event of a kernel record: by its id; the first one when it has none. NULL with 0: no events, or an id that is
 * none of theirs. -EBADMSG: too short for an id.
 */
static inline int session_event_of(const struct session *session, const struct perf_event_header *record,
				   const struct event_desc **ret)
{
	bool is_sample = record->type == PERF_RECORD_SAMPLE;
	int place = is_sample ? session->id_offset : session->id_distance;
	uint64_t id = 0;

	*ret = session->events;
	if (session->nr_events < 2 || place < 0)
		return 0;
	int at = is_sample ? place : sample_id_field(record, session->layouts[0].trailer_bytes, place);
	if (at < (int)sizeof(*record) || at + (int)sizeof(id) > record->size)
		return -EBADMSG;
	memcpy(&id, (const char *)record + at, sizeof(id));
	if (!id)
		return 0;
	uint64_t number = hash_table_find_number(&session->ids, id);
	*ret = number ? &session->events[number - 1] : NULL;
	return 0;
}
