/* SPDX-License-Identifier: MIT */
/*
 * data_files: the files that rings are drained into: in a data directory a file for each ring, else one output for all.
 * There is one stream for each file, or for each thread that drains into the one output. Owned by the recording; the
 * streams are lent to readers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/extent_index.h"
#include "record/output/output_writer.h"
#include "stream/stream.h"

struct diag;
struct eventset;
struct batch_pool;
struct spare_room;
struct stage;
struct stage_maker;

struct thread_layout;

struct data_file {
	struct stream stream;
	struct writer *writer;
	/* the writer is a producer of the first file's pipeline (pipeline.h), and owned here */
	bool producer;
	struct stage *stages;       /* owned; the stages of the writer, in order; NULL: none, as for producers */
	char *path;                 /* heap; of a file in a directory; NULL: the only output of the recording */
	int fd;                     /* -1: not owned here */
	uint64_t stored;            /* valid when closed: bytes of whole records in the file */
	struct extent_list extents; /* valid when closed; of what was compressed */
	uint64_t unwritten_bytes;   /* valid when closed: bytes that could not be written because of an error */
	int err;                    /* valid when closed: of its writer */
};

struct data_files {
	/* heap; in a directory one for each ring; else one for each thread, all with the same output */
	struct data_file *files;
	size_t nr;
	bool directory;
	size_t *which;               /* heap; the indices of each stream's rings, one stream after the other */
	struct writer_params params; /* parameters of the last writer that was opened */
};

struct data_files_params {
	struct eventset *set;
	const struct recording_writer *writer;
	size_t flush_bytes; /* 0: the default */
	bool is_pipe;       /* the output is a pipe, read while it grows: each batch is written at once */
	/* the writer of the only output, which its owner closes; NULL: a directory */
	struct writer *into;
	/* with `into`: which thread drains which rings; NULL: one thread drains all */
	const struct thread_layout *layout;
	const char *path;           /* of the output or the directory */
	struct batch_pool *pool;    /* between draining and writing; NULL: none */
	struct stage_maker *makers; /* borrowed; stages that each output gets, in order; NULL: none */
	bool regular;               /* the output can be read back */
	_Atomic uint64_t *full_ns;  /* of the streams: stream.h */
};

/*
 * 0, or -errno and why. The caller must call data_files_fini() in any case, also after an error; and before that it
 * must close the writer `into`, which may use stages that were made here.
 */
int data_files_open(const struct data_files_params *params, struct data_files *ret, struct diag *reterr);

/* The index of the file that the stream belongs to. */
size_t data_files_index(const struct data_files *files, const struct stream *stream);

/*
 * To be called when the readers have switched to the writers of `next`: exchanges the contents, so that `files` has the
 * present writers, and `next` has the former writers with streams that no reader uses.
 */
void data_files_exchange(struct data_files *files, struct data_files *next);

/*
 * To be called when no reader uses the streams any more: closes the producers, so that the pipeline has all their
 * bytes. Idempotent.
 */
void data_files_join(struct data_files *files);

/*
 * Closes the writers of a directory's files, releases the spare room, as nothing else is written into any output then,
 * cuts off incomplete records, and sets the results in `files`. The fds stay open for reading. 0, or -errno of the
 * first that failed, with path and offset in the diag.
 */
int data_files_close(struct data_files *files, struct spare_room *spare, struct diag *reterr);
/* After an error: how many bytes are still in the rings. */
uint64_t data_files_left(const struct data_files *files);

void data_files_fini(struct data_files *files); /* zeroed is fine */

/* Sets the diag for an error of the stream's writer, with the name of its file. Returns err. */
int data_files_error(const struct data_files *files, const struct stream *stream, int err, struct diag *reterr);
