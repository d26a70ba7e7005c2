/* SPDX-License-Identifier: MIT */
/* sink: where a recording goes: a file of our own, or a pipe. Owned by the recording, used by the main thread. */
#pragma once

#include <stdbool.h>

struct diag;

struct sink {
	int fd;           /* -1: closed; of a pipe it is borrowed when it is standard output */
	bool pipe;        /* cannot seek: the pipe layout is written */
	const char *path; /* "perf.data", "-"; borrowed */
	char *main_path;  /* heap; of a directory's main file, "perf.data/data"; NULL: no directory */
};

/*
 * Whether the recording goes into a pipe; known before anything is created. path NULL: "perf.data", or standard
 * output when that is a pipe, as perf does.
 */
bool sink_is_pipe(const char *path);

/* Whether that is what standard output leads to: then nobody else may write there. */
bool sink_is_stdout(const char *path);

/*
 * Creates the file with mode 0600. A recording that is there already, file or directory, is kept as PATH.old; behind
 * a symbolic link it is kept beside the file itself. Any other directory is left alone: -EISDIR. -errno, with path
 * and remedy in the diag.
 */
int sink_open(const char *path, struct sink *ret, struct diag *reterr);

/* The same for a data directory, of mode 0700: fd is that of its main file. Not for pipes. */
int sink_open_directory(const char *path, struct sink *ret, struct diag *reterr);
int sink_close(struct sink *sink);

/* A recording of our own that is not wanted any more: a file, or a directory with nothing else in it. */
void sink_remove(const char *path);
