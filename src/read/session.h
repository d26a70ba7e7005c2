/* SPDX-License-Identifier: MIT */
/*
 * session: a perf.data file or pipe that is being read: who wrote it, which events, and its records one by one.
 *
 * Opened and used by one thread. Input may be hostile: whatever is wrong is -EBADMSG with the offset in the diag,
 * after everything before it was delivered.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/layout.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

struct diag;
struct session;

enum session_flags {
	SESSION_FORCE = 1,      /* -f: also a file of another user */
	SESSION_FILE_ORDER = 2, /* records as they lie in the file, marks and all; else sorted by time */
	SESSION_ALL = 4,        /* in time order too: marks and unknown types are delivered when they are met */
};

/*
 * path "-": standard input (pipe layout only). A regular file, of either layout, is mapped whole: nothing of it is
 * copied, and it may be larger than memory. If the file is made shorter while it is read, the process gets a SIGBUS
 * (mmap(2)), which commands should catch and explain.
 *
 * A directory is read as perf's `record --threads` writes it: `data`, a whole file, and beside it files data.* of which
 * each holds the records of one ring. In time order those of `data` without a time come first, then all files merged;
 * in file order one file after the other. A file of a directory that is damaged ends there; the others are read on,
 * and the last session_next() fails.
 *
 * A file whose recorder died (no data size in the header) or that lost its end opens and gives what it has; then the
 * last session_next() fails.
 */
int session_open(const char *path, enum session_flags flags, struct session **ret, struct diag *reterr);
/* The same for a file in memory, 8-aligned, which must live as long as the session. For tests. */
int session_open_memory(struct span bytes, enum session_flags flags, struct session **ret, struct diag *reterr);

void session_close(struct session *session); /* NULL is fine */

/*
 * Before the first session_next(): samples outside of all these times, both ends inclusive, are left out; records that
 * are no samples come all the same, as far as samples within may need them. Extents that hold nothing else are not
 * read, if the file has an index of them. nr > 0; copied. 0 or -ENOMEM.
 */
struct session_times {
	uint64_t first_ns, last_ns;
};
int session_limit_time(struct session *session, const struct session_times *times, size_t nr);

/* A pipe ends as soon as *stop is not 0 (a signal handler sets it), also while it is waited for; what came is given. */
void session_stop_at(struct session *session, const volatile sig_atomic_t *stop);

/* One record of the session, decoded as far as every reader needs it. */
struct session_record {
	struct record_view view;
	/*
	 * Of a SAMPLE, always. Of another kernel record: the one of its id; the first event when the layout has no ids
	 * or the record's is 0 (made by a recorder); NULL when the id is unknown. NULL for user records.
	 */
	const struct event_desc *event;
	struct sample sample; /* SAMPLE: all fields; other kernel record: those of the trailer */
};

/*
 * 1 a record, 0 the end, -EBADMSG and the diag says where. In time order kernel records come sorted by time with
 * those without a time at once; without SESSION_ALL, FINISHED_ROUND marks and records of unknown types are consumed,
 * the latter with a note. Samples of events that the file does not describe are left out: the end is -EBADMSG then and
 * tells how many. *ret is valid until the next call. After an error every later call gives it again.
 */
int session_next(struct session *session, struct session_record *ret, struct diag *reterr);

/* The events; of a pipe, those whose HEADER_ATTR was read so far. Valid until the next session_next(). */
const struct event_desc *session_events(const struct session *session, size_t *ret_nr);

/* A feature's payload: of the table, or of a HEADER_FEATURE record read so far. false: not there. Valid until close. */
bool session_feature(const struct session *session, enum feature_bit bit, struct span *ret);

struct session_info {
	const char *path;
	bool pipe;
	struct file_header header; /* of a pipe: magic and size only; of a directory that of `data` */
	uint64_t file_bytes;       /* of a directory those of all its files; 0: unknown (pipe) */
	bool one_file;             /* no pipe, no directory: offsets of records are those of it */
	uint64_t position;         /* offset of the record delivered last, in its file */
	uint64_t nr_late; /* records that came after newer ones were delivered: not in the order that was promised */
	int64_t mtime_ns; /* since 1970; 0: unknown */
	bool stays;       /* a file or directory, which can be opened again */
};
const struct session_info *session_info(const struct session *session);

/* The records of a compressed type so far, in whose place those that they hold were delivered. */
uint64_t session_nr_compressed(const struct session *session, enum user_record_type type);
