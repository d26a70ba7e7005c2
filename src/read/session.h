/* SPDX-License-Identifier: MIT */
/*
 * session: a perf.data file or pipe that is being read: what its header says, its events, and its records one by one.
 *
 * Opened and used by one thread. Input may be hostile: for damaged input the functions return -EBADMSG, with the offset
 * in the diag, after all records before the damage were delivered.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/layout.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"

struct diag;
struct session;

enum session_flags {
	SESSION_FORCE = 1,      /* -f: open the file even if another user owns it */
	SESSION_FILE_ORDER = 2, /* deliver all records in the order of the file, with marks; else sorted by time */
	SESSION_ALL = 4,        /* in time order: deliver marks and unknown types, too, when they are read */
	SESSION_LATER = 8,      /* with session_limit_time(): deliver the samples behind those times, too */
};

/*
 * path "-": standard input (pipe layout only). A regular file, of either layout, is mapped as a whole: nothing of it is
 * copied, and it may be larger than memory. If the file is made shorter while it is read, the process gets a SIGBUS
 * (mmap(2)), which commands should catch and explain.
 *
 * A directory is read as perf's `record --threads` writes it: `data`, a complete file, and beside it files data.*, each
 * with the records of one ring. In time order those of `data` without a time come first, then all files merged; in file
 * order one file after the other. When a file of a directory is damaged, its later records are missing; the other files
 * are read on, and the last session_next() fails.
 *
 * A file whose recorder was killed (the header has no data size), or whose end is missing, can be opened, and the
 * records that it has are delivered; then the last session_next() fails.
 */
int session_open(const char *path, enum session_flags flags, struct session **ret, struct diag *reterr);

/* Bytes of the pipe layout, one after the other. As read(2), but -errno where that has -1. */
struct session_stream {
	ssize_t (*read)(void *ctx, void *to, size_t len);
	void *ctx; /* valid until session_close() */
};
int session_open_stream(struct session_stream stream, enum session_flags flags, struct session **ret,
			struct diag *reterr);

/* The same for a file in memory, 8-aligned; the memory must be valid until session_close(). For tests. */
int session_open_memory(struct span bytes, enum session_flags flags, struct session **ret, struct diag *reterr);

void session_close(struct session *session); /* NULL is fine */

/*
 * To be called before the first session_next(): samples outside all of these ranges (both ends inclusive) are skipped,
 * or delivered with outside_times.
 * Other records are delivered as far as samples inside may depend on them. Extents with samples outside only are not
 * read if the file has an index. nr > 0; `times` is copied. 0 or -ENOMEM.
 */
struct session_times {
	uint64_t first_ns, last_ns;
};
int session_limit_time(struct session *session, const struct session_times *times, size_t nr);
/* The first range of those, where samples behind it are delivered, too. false: there is none. */
bool session_has_later(const struct session *session, struct session_times *ret);

/*
 * From now on a pipe ends as soon as *stop is not 0 (a signal handler sets it), also while the reader waits for data;
 * records that came before are still delivered. `stop` is borrowed.
 */
void session_stop_at(struct session *session, const volatile sig_atomic_t *stop);

/* One record of the session, decoded as far as every reader needs it. */
struct session_record {
	struct record_view view;
	/*
	 * The event of the record. Never NULL for a SAMPLE. For another kernel record it is found by its id: the first
	 * event when records have no ids or the id is 0 (made by a recorder), NULL when the id is unknown. NULL for
	 * user records.
	 */
	const struct event_desc *event;
	struct sample sample; /* SAMPLE: all fields; other kernel record: those of the trailer */
	/* Only with session_limit_time(): no sample to show, but those behind it count from its values (group_split.h).
	 */
	bool outside_times;
};

/*
 * Returns 1: a record; 0: the end; -EBADMSG: damaged input, the diag says where; after an error every later call
 * returns it again. In time order kernel records are sorted by time, and records without a time are delivered at once;
 * FINISHED_ROUND marks and records of unknown types are skipped without SESSION_ALL, the latter with a note. Samples of
 * events that the file does not describe are skipped; then the end is -EBADMSG, with their number. *ret is valid until
 * the next call.
 */
int session_next(struct session *session, struct session_record *ret, struct diag *reterr);

/* The events of the session; of a pipe those whose HEADER_ATTR was read so far. Valid until the next session_next(). */
const struct event_desc *session_events(const struct session *session, size_t *ret_nr);

/*
 * The payload of a feature, from the feature table or from a HEADER_FEATURE record that was read so far; valid until
 * session_close(). false: there is none.
 */
bool session_feature(const struct session *session, enum feature_bit bit, struct span *ret);

/* The architecture of the machine that recorded, as uname -m says it. NULL: the recording does not say. */
const char *session_arch(const struct session *session);

struct session_info {
	const char *path;
	bool pipe;
	struct file_header header; /* of a pipe: magic and size only; of a directory that of `data` */
	uint64_t file_bytes;       /* of a directory those of all its files; 0: unknown (pipe) */
	uint64_t nr_missing_files; /* of a directory: there are ones with higher numbers */
	bool one_file;             /* neither pipe nor directory, so offsets of records are file offsets */
	uint64_t position;         /* offset of the record delivered last, in its file */
	/* records that came after newer ones had been delivered, although the marks promise that none does */
	uint64_t nr_late;
	int64_t mtime_ns; /* since 1970; 0: unknown */
	bool can_reopen;  /* it is a file or directory, which can be read a second time */
};
const struct session_info *session_info(const struct session *session);

/* The number of records of a compressed type (RECORD_COMPRESSED, RECORD_COMPRESSED2) that were decompressed so far. */
uint64_t session_nr_compressed(const struct session *session, enum user_record_type type);
