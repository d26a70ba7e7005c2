/* SPDX-License-Identifier: MIT */
/*
 * data_files: where the rings go: in a data directory each into a file of its own, else all into one output. One stream
 * for each file, or for each thread that drains into the one output. Owned by the recording; the streams are lent to
 * readers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"
#include "record/output/engine.h"
#include "stream/stream.h"

struct diag;
struct eventset;
struct batch_pool;
struct stage;
struct stage_maker;

struct thread_layout;

struct data_file {
	struct stream stream;
	struct writer *writer;
	bool producer;              /* the writer is a producer into that of the first file (pipeline.h), and ours */
	struct stage *stages;       /* ours; of the writer, in order; NULL: none, as of producers */
	char *path;                 /* heap; of a directory's file; NULL: the recording's one output */
	int fd;                     /* -1: not ours */
	uint64_t stored;            /* valid when closed: bytes in the file, whole records */
	struct extent_list extents; /* valid when closed; of what was compressed */
	uint64_t unwritten_bytes;   /* valid when closed: what an error kept out of it */
};

struct data_files {
	struct data_file *files; /* heap; in a directory by ring, else one for each thread, which share the output */
	size_t nr;
	bool directory;
	size_t *which; /* heap; the rings of each stream, stream after stream, with room for more where they share an
			  output */
	struct writer_params params; /* as the last writer was opened */
};

struct data_files_params {
	struct eventset *set;
	const struct recording_writer *writer;
	size_t flush_bytes;                 /* 0: the default */
	bool live;                          /* the output may be read as it grows: hold nothing back */
	struct writer *into;                /* the one output; its owner closes it. NULL: a directory */
	const struct thread_layout *layout; /* with `into`: who drains what; NULL: one thread */
	const char *path;                   /* of the output or the directory */
	struct batch_pool *pool;            /* compresses; NULL: nothing is compressed */
	struct stage_maker *makers;         /* borrowed; stages that each output gets, in order; NULL: none */
	bool regular;                       /* the output can be read back */
};

int data_files_open(const struct data_files_params *params, struct data_files *ret, struct diag *reterr);

/* Which file the stream is of. */
size_t data_files_index(const struct data_files *files, const struct stream *stream);

/*
 * The streams have been given the writers of `next`: from here on `files` are those, and `next` are the ones that were,
 * with streams that no reader uses.
 */
void data_files_exchange(struct data_files *files, struct data_files *next);

/* When no reader uses them: what several threads have drained into one output is in its writer. Idempotent. */
void data_files_join(struct data_files *files);

/*
 * Closes the writers of a directory's files, cuts what is torn, and counts. -errno of the first that failed, with path
 * and offset. The fds stay open, to be read. Without a directory it does nothing.
 */
int data_files_close(struct data_files *files, struct diag *reterr);
/* Bytes that are still in the rings: after an error. */
uint64_t data_files_left(const struct data_files *files);

void data_files_fini(struct data_files *files); /* zeroed is fine */

/* Says which file it was; the stream is one of `files`. Returns err. */
int data_files_error(const struct data_files *files, const struct stream *stream, int err, struct diag *reterr);
