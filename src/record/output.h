/* SPDX-License-Identifier: MIT */
/* output: where a recording goes: a file of our own, or a pipe. Owned by the recording, used by the main thread. */
#pragma once

#include <stdbool.h>

struct diag;

struct output {
	int fd;           /* -1: closed; of a pipe it is borrowed when it is standard output */
	bool pipe;        /* cannot seek: the pipe layout is written */
	const char *path; /* "perf.data", "-"; borrowed */
};

/*
 * Whether the recording goes into a pipe; known before anything is created. path NULL: "perf.data", or standard
 * output when that is a pipe, as perf does.
 */
bool output_is_pipe(const char *path);

/*
 * Creates the file with mode 0600; one that is there already is kept as PATH.old. -errno, with path and remedy in
 * the diag.
 */
int output_open(const char *path, struct output *ret, struct diag *reterr);
int output_close(struct output *output);
